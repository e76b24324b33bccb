"""The calls of a client that concern ledgers and bookies; `Client` (client.py) adds the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence

from quire.aio.home import at_home, home_here
from quire.bookie import BookieAddress, BookieInfo
from quire.entry import BookieId, DigestKind, LedgerId
from quire.leaving import OpenHandles, Stage
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.domains import Placement
from quire.ledger.info import LedgerInfo, info_of
from quire.ledger.inventory import Inventory, take_inventory
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.roster import BookieRoster
from quire.ledger.screening import whole_among
from quire.ledger.writer import LedgerWriter
from quire.metadata.check import Finding, check_ledgers
from quire.metadata.recordless import RecordlessLedgers, find_recordless
from quire.metastore.layout import COOKIES
from quire.metastore.store import MetadataStore


@at_home
class LedgerClient:
    """The part of `Client` that concerns ledgers and bookies."""

    def __init__(
        self,
        store: MetadataStore,
        roster: BookieRoster,
        catalog: LedgerCatalog,
        options: LedgerOptions,
        handles: OpenHandles,
    ) -> None:
        self._store = store
        self._roster = roster
        self._catalog = catalog
        self._options = options
        self._handles = handles
        self._home = home_here()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._store.uri}>"

    @property
    def store_uri(self) -> str:
        """The metadata store's URI."""
        return self._store.uri

    async def create_ledger(
        self,
        replication: Replication | None = None,
        *,
        password: bytes = b"",
        digest: DigestKind = DigestKind.CRC32C,
        custom_metadata: Mapping[str, str] | None = None,
        deferred_sync: bool = False,
        full_quorum: bool = False,
        placement: Placement | None = None,
        read_needs_password: bool = False,
    ) -> LedgerWriter:
        """Create a ledger and return its one writer.

        Args:
            replication: ensemble, write quorum and ack quorum, in bookies; None for the default.
            password: needed to open and recover the ledger later; bookies keep a hash of it.
            digest: how entries are protected (docs/formats.md, "Frame").
            custom_metadata: text that the application stores in the ledger's metadata.
            deferred_sync: an answered append is only received, not durable. It is confirmed, and
                seen by followers, at the next `LedgerWriter.force`, or when the ledger is closed.
            full_quorum: close the ledger only when every entry is on all bookies of its write set,
                not just on an ack quorum.
            placement: over which regions, zones, racks or hosts the copies spread; None for the
                placement of the client's options.
            read_needs_password: bookies give entries only to a peer that knows the password, and to
                other bookies. Otherwise the password guards writes and recovery. Needs TLS.

        Returns:
            The only writer that the ledger will ever have.

        Raises:
            NotEnoughBookiesError: fewer bookies than the ensemble are writable.
                `NotEnoughDomainsError`: they are in too few domains for the placement.
            ConfigurationError: the placement needs more domains than there are copies; or reads
                are to need a password, and there is none, or no TLS.
            LevelNeededError: a placement, or a password for reads, needs a higher feature level.
            InvalidRequestError: an argument has a wrong type, or the metadata is too large.

        Cancellation: an empty ledger may remain in the metadata store.

        Guarantees: docs/protocol.md, sections 1 and 2.
        """
        writer = await self._catalog.create(
            replication,
            password=password,
            digest=digest,
            custom_metadata=custom_metadata,
            deferred_sync=deferred_sync,
            full_quorum=full_quorum,
            placement=placement,
            read_needs_password=read_needs_password,
        )
        return self._handles.remember(writer, Stage.WRITER)

    async def open_ledger(self, ledger: LedgerId, *, password: bytes = b"") -> LedgerReader:
        """Open a ledger to read it whole: recover and close it first if it is not closed.

        Args:
            ledger: the ledger's id.
            password: the password that the ledger was created with.

        Returns:
            A reader of the closed ledger.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            UnauthorizedError: the password is wrong.
            UnreadableError: too few bookies answer to decide where the ledger ends.
            NotEnoughBookiesError: recovery has too few bookies to write entries back.

        Cancellation: recovery stops. The ledger may stay in recovery, with its writer fenced; the
            next recovery completes it.

        Guarantees: the previous writer can have nothing acknowledged after the end, and the reader
            sees every acknowledged entry (docs/protocol.md, section 4).
        """
        reader = await self._catalog.open(ledger, password=password)
        return self._handles.remember(reader, Stage.READER)

    async def open_ledger_without_recovery(
        self, ledger: LedgerId, *, password: bytes = b""
    ) -> LedgerReader:
        """Open a ledger to read its confirmed entries, or to follow it.

        Args:
            ledger: the ledger's id.
            password: the password that the ledger was created with.

        Returns:
            A reader that sees the entries confirmed so far, and can wait for more.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            UnauthorizedError: the password is wrong.

        Cancellation: nothing changed.

        Guarantees: the writer is never disturbed (docs/protocol.md, section 5).
        """
        reader = await self._catalog.open_without_recovery(ledger, password=password)
        return self._handles.remember(reader, Stage.READER)

    async def delete_ledger(
        self, ledger: LedgerId, *, password: bytes = b"", force: bool = False
    ) -> None:
        """Delete a ledger. Bookies drop its entries some time later.

        Args:
            ledger: the ledger's id.
            password: needed for an open ledger, which is fenced and closed first.
            force: delete the ledger as it is, for a ledger that lost its bookies. Until the bookies
                have dropped the ledger, a living writer may have entries acknowledged that are then
                lost.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
            UnauthorizedError: the ledger is open and the password is wrong.
            UnreadableError: the ledger is open and too few bookies answer to close it.
            NotEnoughBookiesError: the ledger is open and its recovery has too few bookies.

        Cancellation: the ledger may be closed, or deleted, all the same.

        Guarantees: without `force` no entry is acknowledged after the deletion (docs/protocol.md,
            H8).
        """
        if force:
            await self._catalog.delete(ledger)
        else:
            await self._catalog.close_and_delete(ledger, password=password)

    async def list_ledgers(self) -> list[LedgerId]:
        """Return the ids of all ledgers, including the ledgers of logs.

        Returns:
            The ids, in ascending order.

        Raises:
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: ends the call only: nothing is changed.
        """
        return await self._catalog.list()

    async def ledger_info(self, ledger: LedgerId) -> LedgerInfo:
        """Return a ledger's state, quorums and fragments, as they are now.

        Args:
            ledger: the ledger's id.

        Returns:
            A value that does not change.

        Raises:
            NoSuchLedgerError: the ledger does not exist.

        Cancellation: ends the call only: nothing is changed.
        """
        return info_of(await self._catalog.metadata(ledger))

    async def ledger_inventory(self, ledger: LedgerId) -> Inventory:
        """Ask every bookie which entries of a ledger it holds, and compare that with metadata.

        Args:
            ledger: the ledger's id.

        Returns:
            The entries that each bookie holds; also names the bookies that did not answer.

        Raises:
            NoSuchLedgerError: the ledger does not exist.

        Cancellation: ends the call only: nothing is changed.

        Guarantees: neither writers nor readers are disturbed.
        """
        timeout = self._options.request_timeout
        return await take_inventory(self._catalog.records, self._roster, ledger, timeout)

    async def whole_ledgers(
        self, ledgers: Sequence[LedgerId], up: Collection[BookieId] | None = None
    ) -> set[LedgerId]:
        """Return the closed ledgers whose bookies all tell that they hold their whole shares.

        Three numbers of each ledger and bookie are compared with metadata, a thousand ledgers a
        request: far less than an inventory of each.

        Args:
            ledgers: ids of ledgers; ids without a record are passed over.
            up: the bookies that count; None: every bookie that answers.

        Returns:
            Ledgers that are whole. Nothing is known of the others, striped ledgers among them:
            `ledger_inventory` tells.

        Raises:
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: ends the call only: nothing is changed.

        Guarantees: neither writers nor readers are disturbed.
        """
        timeout = self._options.request_timeout
        records = self._catalog.records
        return await whole_among(records, self._roster, ledgers, up, timeout)

    async def recordless_ledgers(self) -> RecordlessLedgers:
        """Return the ledgers that bookies hold entries of and the store has no record of.

        Such a ledger was created after a backup that was restored, or was deleted and not collected
        yet.

        Returns:
            The ledgers by bookie, and the bookies of the cluster that did not answer.

        Raises:
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: ends the call only: nothing is changed.
        """
        timeout = self._options.request_timeout
        members = await self._store.children(COOKIES)
        return await find_recordless(self._roster, self._catalog, timeout, members)

    def check_ledgers(self) -> AsyncGenerator[tuple[int, int, Finding | None], None]:
        """Compare every ledger with the entries that the bookies hold (metadata/check.py).

        Yields:
            For each ledger: how many ledgers were compared, of how many, and the finding, or None
            if the ledger is sound.
        """
        timeout = self._options.request_timeout
        return check_ledgers(self._roster, self._catalog, timeout)

    def bookies(self) -> list[BookieAddress]:
        """Return the bookies that are registered now.

        Returns:
            Their ids and addresses, sorted by id.
        """
        return self._roster.known()

    async def bookie_info(self, bookie: BookieId) -> BookieInfo:
        """Return a bookie's own description of itself.

        Args:
            bookie: the bookie's id.

        Returns:
            Its identity, whether it takes new entries, its space in bytes, and its counters.

        Raises:
            BookieUnavailableError: the bookie does not answer, or is not registered.

        Cancellation: ends the call only: nothing is changed.
        """
        return await self._roster.bookie(bookie).info()
