"""A ledger laid out by hand: which bookie holds which entry is the test's decision.

It stands for what an old writer left behind. Payloads are ten bytes and tell their entry, so the
length up to entry e is 10 · (e + 1).
"""

from __future__ import annotations

from quire.entry import NO_ENTRY, BookieId, DigestKind, Entry, EntryId, Sealer, key_check
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.records import VersionedMetadata
from quire.metastore.layout import ledger_path
from quire.run import pack_run
from tests.support.memory_cluster import MemoryCluster

PAYLOAD_BYTES = 10
PASSWORD = b"secret"


def payload(entry: EntryId) -> bytes:
    return b"%010d" % entry


class PlantedLedger:
    """`await PlantedLedger.create(cluster, (0, "b0 b1 b2"))` makes an OPEN ledger."""

    def __init__(self, cluster: MemoryCluster, metadata: LedgerMetadata) -> None:
        self.cluster = cluster
        self.ledger = metadata.ledger
        self.sealer = Sealer(metadata.ledger, metadata.digest, PASSWORD)

    @classmethod
    async def create(
        cls,
        cluster: MemoryCluster,
        *fragments: tuple[EntryId, str],
        replication: Replication | None = None,
        ledger: int = 7,
    ) -> PlantedLedger:
        sealer = Sealer(ledger, DigestKind.CRC32C, PASSWORD)
        metadata = LedgerMetadata(
            ledger,
            replication or Replication(),
            sealer.kind,
            key_check(sealer.access_key),
            tuple(Fragment(first, tuple(bookies.split())) for first, bookies in fragments),
        )
        await cluster.store.create(ledger_path(ledger), metadata.encode())
        return cls(cluster, metadata)

    def frame(self, entry: EntryId, lac: EntryId = NO_ENTRY) -> bytes:
        return self.sealer.seal(entry, lac, PAYLOAD_BYTES * (entry + 1), payload(entry))

    async def add(self, bookies: str, *entries: EntryId, lac: EntryId = NO_ENTRY) -> None:
        """Add entries to bookies as the old writer would, each naming `lac` as confirmed."""
        run = pack_run(self.frame(entry, min(lac, entry - 1)) for entry in entries)
        for bookie in bookies.split():
            link = self.cluster.bookies[bookie]
            await link.add(self.ledger, self.sealer.access_key, run)

    def corrupt(self, bookie: BookieId, entry: EntryId) -> None:
        """Flip a bit of a copy's payload."""
        frames = self.cluster.bookies[bookie].ledgers[self.ledger].frames
        frames[entry] = frames[entry][:-1] + bytes([frames[entry][-1] ^ 1])

    def held(self, bookie: BookieId, entry: EntryId) -> Entry:
        """Return a bookie's copy, verified."""
        frames = self.cluster.bookies[bookie].ledgers[self.ledger].frames
        return self.sealer.unseal(entry, frames[entry])

    async def current(self) -> VersionedMetadata:
        return await self.cluster.catalog.records.read(self.ledger)

    async def metadata(self) -> LedgerMetadata:
        return (await self.current()).metadata

    async def put(self, metadata: LedgerMetadata) -> None:
        """Change metadata as another client would."""
        version = (await self.current()).version
        await self.cluster.store.put(ledger_path(self.ledger), metadata.encode(), version)

    async def read_all(self) -> list[EntryId]:
        """Open with recovery, check every payload, return the ids."""
        reader = await self.cluster.catalog.open(self.ledger, password=PASSWORD)
        entries = [entry async for entry in reader.read()]
        assert [entry.payload for entry in entries] == [payload(each.entry) for each in entries]
        metadata = reader._metadata
        assert metadata.length == PAYLOAD_BYTES * len(entries)
        assert metadata.last_entry == len(entries) - 1
        return [entry.entry for entry in entries]
