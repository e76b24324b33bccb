"""Copies of entries, from the bookies that hold them: the storage's port `Copies`.

A bookie that repairs itself asks the others of an entry's write set, one after the other, as a
reader does. It has no passwords: it verifies checksums, and for ledgers with an HMAC digest only
that a frame has the requested ids. Later readers verify the rest, as always; and the bookie that
sent it has compared it with a checksum of its own.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from quire.bookie import BookieAddress
from quire.entry import DIGEST_BYTES, HEADER, BookieId, DigestKind, EntryId, LedgerId, Sealer
from quire.errors import (
    CorruptEntryError,
    InvalidRequestError,
    QuireError,
    RetryError,
    UnreadableError,
    VersionConflictError,
)
from quire.ledger.inventory import compared, lists_of, named_by, whole_in
from quire.ledger.links import link_bookie
from quire.ledger.metadata import LedgerMetadata, Replica
from quire.ledger.quorum_call import within
from quire.ledger.records import LedgerRecords
from quire.ledger.remote import REQUEST_SECONDS
from quire.ledger.roster import Bookies, LinkedBookie, open_roster
from quire.ledger.stored_records import StoredRecords
from quire.ledger.versioned import change_metadata
from quire.metastore.layout import ledger_path
from quire.metastore.store import MetadataStore
from quire.repair.assignments import Assignments, adopted, held_places
from quire.repair.holdings import owed_by
from quire.repair.orders import StoredOrders
from quire.run import pack_run, split_run
from quire.storage.maintenance.replicas_port import Copies, Owed, Stretch

SECRET: Final = (DigestKind.HMAC_SHA1, DigestKind.HMAC_SHA256)
"""Digests that cannot be verified without the password."""


@asynccontextmanager
async def open_copies(
    store: MetadataStore,
    bookie: BookieId,
    *,
    connect: Callable[[BookieAddress], LinkedBookie] = link_bookie,
) -> AsyncIterator[Copies]:
    """Reach the other bookies of a cluster while the block runs; `connect` makes a link to one
    without waiting. Raises the store's errors.
    """
    async with open_roster(store, connect) as roster:
        records = StoredRecords(store, random.Random())
        orders = StoredOrders(store, records, bookie)
        yield PeerCopies(records, roster, bookie, orders, await orders.read())


class PeerCopies:
    """See the module. `bookie` is the bookie that asks, `assignments` are its orders as they were
    read before.
    """

    def __init__(
        self,
        records: LedgerRecords,
        bookies: Bookies,
        bookie: BookieId,
        orders: StoredOrders,
        assignments: Assignments,
        request_timeout: float = REQUEST_SECONDS,
    ) -> None:
        self._records = records
        self._bookies = bookies
        self._bookie = bookie
        self._orders = orders
        self._assignments = assignments
        self._timeout = request_timeout
        self._metadata: LedgerMetadata | None = None
        self._counted: dict[LedgerId, tuple[frozenset[Stretch], int]] = {}
        """What the last `owed` named, and at which version of the record."""

    async def owed(self, ledger: LedgerId) -> Owed:
        """See `Copies.owed`."""
        found = await self._records.read(ledger)
        self._metadata = found.metadata
        assigned = self._assignments.of(ledger)
        replicas = () if assigned is None else assigned.replicas
        owed = owed_by(adopted(self._metadata, replicas), self._bookie)
        self._counted = {ledger: (frozenset(owed.stretches), found.version)}
        return owed

    async def take_places(self, ledger: LedgerId) -> int:
        """See `Copies.take_places`."""
        assigned = self._assignments.of(ledger)
        if assigned is None:
            return 0

        counted, version = self._counted.get(ledger, (frozenset[Stretch](), 0))
        compared, whole = await self._whole(ledger, assigned.replicas)

        def decide(metadata: LedgerMetadata) -> LedgerMetadata | None:
            wanted = adopted(metadata, assigned.replicas)
            # Another bookie may have had a place, and given it back since: it was not counted.
            if not counted.issuperset(owed_by(wanted, self._bookie).stretches):
                raise VersionConflictError(ledger_path(ledger), version)
            if wanted == metadata:
                return None
            # A record that changed since may ask the same bookies for more.
            if wanted != adopted(
                metadata, assigned.replicas, whole if metadata == compared else ()
            ):
                raise RetryError(
                    f"ledger {ledger} gives no place away yet: other bookies that it names may "
                    "lack entries, and its copies would be in too few domains"
                )
            return wanted

        taken = 0
        if assigned.replicas:
            entered = await change_metadata(self._records, ledger, decide)
            taken = held_places(entered.metadata, assigned.replicas)
        await self._orders.done(assigned)
        return taken

    async def _whole(
        self, ledger: LedgerId, replicas: Sequence[Replica]
    ) -> tuple[LedgerMetadata | None, frozenset[BookieId]]:
        """Return the bookies that list every entry of their places, by the record that the last
        `owed` read. They are asked only if some places hang on it: a ledger may be closed, by a
        quorum, with a bookie in its record that lacks entries.
        """
        metadata = self._metadata
        if metadata is None or metadata.ledger != ledger:
            return None, frozenset()
        if adopted(metadata, replicas, ()) == adopted(metadata, replicas):
            return metadata, frozenset()
        others = named_by(metadata) - {self._bookie}
        answers = await lists_of(self._bookies, others, ledger, self._timeout)
        return metadata, whole_in(await compared(metadata, answers))

    async def fetch(
        self, ledger: LedgerId, entries: Sequence[EntryId], bytes_max: int
    ) -> tuple[bytes, Sequence[EntryId]]:
        """See `Copies.fetch`."""
        metadata = self._metadata
        if metadata is None or metadata.ledger != ledger:
            metadata = self._metadata = (await self._records.read(ledger)).metadata
        wanted = _together(metadata, entries)
        reasons: list[str] = []
        leaving = self._leaving(ledger)
        for bookie in sorted(metadata.write_set(wanted[0]), key=lambda each: each not in leaving):
            if bookie == self._bookie:
                continue
            try:
                frames = await self._read(metadata, bookie, wanted, bytes_max)
            except QuireError as error:
                reasons.append(f"{bookie}: {error}")
                continue
            if wanted[0] in frames:
                return pack_run(frames.values()), tuple(frames)
            reasons.append(f"{bookie}: it does not hold it")
        raise UnreadableError(
            ledger, wanted[0], "; ".join(reasons) or "no other bookie may have it"
        )

    def _leaving(self, ledger: LedgerId) -> frozenset[BookieId]:
        """Return the bookies whose places this one takes. They are read first: a bookie that is
        drained has no other work, and a lost bookie is not tried, as it is not registered.
        """
        assigned = self._assignments.of(ledger)
        return frozenset(() if assigned is None else (each.old for each in assigned.replicas))

    async def _read(
        self, metadata: LedgerMetadata, bookie: BookieId, wanted: Sequence[EntryId], bytes_max: int
    ) -> dict[EntryId, bytes]:
        """Return the good frames of some entries that a bookie gives at once, up to a bad one."""
        link = self._bookies.bookie(bookie)
        call = link.read(metadata.ledger, wanted[0], wanted[-1], bytes_max=bytes_max)
        run = await within(self._timeout, bookie, call)
        chosen = frozenset(wanted)
        found: dict[EntryId, bytes] = {}
        try:
            for entry, frame in split_run(run):
                if entry in chosen:
                    check_frame(metadata, entry, frame)
                    found[entry] = frame
        except (CorruptEntryError, InvalidRequestError):
            if wanted[0] not in found:
                raise
        return found


def _together(metadata: LedgerMetadata, entries: Sequence[EntryId]) -> list[EntryId]:
    """Return the entries that one read can bring: the first and close ones of its fragment."""
    fragment = metadata.fragment_of(entries[0])
    found = [entries[0]]
    for entry in entries[1:]:
        far = entry - found[-1] > 2 * metadata.replication.ensemble
        if far or metadata.fragment_of(entry) is not fragment:
            break
        found.append(entry)
    return found


def check_frame(metadata: LedgerMetadata, entry: EntryId, frame: bytes) -> None:
    """Raise `CorruptEntryError` unless a frame belongs to an entry, as far as can be said."""
    if metadata.digest not in SECRET:
        Sealer(metadata.ledger, metadata.digest, b"").unseal(entry, frame)
        return
    size = HEADER.size + DIGEST_BYTES[metadata.digest]
    if len(frame) < size or HEADER.unpack_from(frame)[:2] != (metadata.ledger, entry):
        raise CorruptEntryError(metadata.ledger, entry, "the copy is of another entry")
