"""A client of a cluster: every call of an application. `connect` (connection.py) makes it.

A `Client` does nothing itself: it forwards to the catalog, the log directory and the election, and
remembers the handles it opened, so that none outlives it.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from quire.bookie import BookieAddress, BookieInfo
from quire.election.election import Election
from quire.entry import BookieId, DigestKind, LedgerId
from quire.leading import LeadingLog, Turn
from quire.leaving import OpenHandles, Stage
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.inventory import Inventory, take_inventory
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.roster import BookieRoster
from quire.ledger.writer import LedgerWriter
from quire.log.directory import LogDirectory
from quire.log.leader.log import Log
from quire.log.maintenance.cursors import LogCursors
from quire.log.maintenance.ingest import Ingest
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.gaps import OnGap
from quire.log.reading.reader import LogReader
from quire.log.reading.search import LogEnd
from quire.log.reading.span import Slice, Span
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, Position, Start
from quire.metadata.check import Finding, check_ledgers
from quire.metadata.recordless import RecordlessLedgers, find_recordless
from quire.metastore.store import MetadataStore
from quire.opening import OpeningReader
from quire.scan import Place, RecordBatchReader, scan
from quire.service import Application, Service, ServiceOptions
from quire.service.service import R
from quire.service.snapshots import gc_snapshots

SESSION_SECONDS: Final = 6.0
"""Default seconds without a heartbeat after which a leader loses its leadership."""


_CLOSED: Final = contextlib.nullcontext()
"""The scope of a client that was closed."""


def always() -> bool:
    """Return True: the default of `is_leader`, for a log without an election."""
    return True


class Client:
    """A connection to one cluster. `connect` creates it.

    A client belongs to the event loop that created it, and any number of tasks of that loop may
    use it. A method that talks to the metadata store may raise `StoreUnavailableError` (the store
    changed nothing) or `StoreOutcomeUnknownError` (it may have). A handle that a method returns is
    closed at the latest when the block of `connect` ends.

    Cancellation: cancelling a call gives up waiting for it. The requested change may still happen,
        as after any lost answer.
    """

    def __init__(
        self,
        store: MetadataStore,
        roster: BookieRoster,
        catalog: LedgerCatalog,
        logs: LogDirectory,
        rng: random.Random,
        options: LedgerOptions,
        handles: OpenHandles,
    ) -> None:
        self._scope: AbstractAsyncContextManager[object] | None = None
        self._options = options
        self._store = store
        self._roster = roster
        self._catalog = catalog
        self._logs = logs
        self._rng = rng
        self._handles = handles

    @property
    def store_uri(self) -> str:
        """The metadata store's URI."""
        return self._store.uri

    def own(self, scope: AbstractAsyncContextManager[object]) -> None:
        """Used by `connect`: let `close` leave the scope of this client."""
        self._scope = scope

    # Ledgers.

    async def create_ledger(
        self,
        replication: Replication | None = None,
        *,
        password: bytes = b"",
        digest: DigestKind = DigestKind.CRC32C,
        custom_metadata: Mapping[str, str] | None = None,
        deferred_sync: bool = False,
        full_quorum: bool = False,
    ) -> LedgerWriter:
        """Create a ledger and return its one writer.

        Args:
            replication: ensemble, write quorum and ack quorum, in bookies; None for the default.
            password: needed to open and recover the ledger later; bookies keep a hash of it.
            digest: how entries are protected (docs/formats.md, "Frame").
            custom: text that the application stores in the ledger's metadata.
            deferred_sync: an answered append is only received, not durable. It is confirmed, and
                seen by followers, at the next `LedgerWriter.force`, or when the ledger is closed.
            full_quorum: close the ledger only when every entry is on all bookies of its write set,
                not just on an ack quorum.

        Returns:
            The only writer that the ledger will ever have.

        Raises:
            NotEnoughBookiesError: fewer bookies than the ensemble are writable.

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
        """Return the ids of all ledgers in ascending order, including the ledgers of logs."""
        return await self._catalog.list()

    async def ledger_metadata(self, ledger: LedgerId) -> LedgerMetadata:
        """Return a ledger's metadata.

        Args:
            ledger: the ledger's id.

        Returns:
            The ledger's record in the metadata store, as it is now.

        Raises:
            NoSuchLedgerError: the ledger does not exist.
        """
        return await self._catalog.metadata(ledger)

    async def ledger_inventory(self, ledger: LedgerId) -> Inventory:
        """Ask every bookie which entries of a ledger it holds, and compare that with metadata.

        Args:
            ledger: the ledger's id.

        Returns:
            The entries that each bookie holds; also names the bookies that did not answer.

        Raises:
            NoSuchLedgerError: the ledger does not exist.

        Guarantees: neither writers nor readers are disturbed.
        """
        timeout = self._options.request_timeout
        return await take_inventory(self._store, self._roster, ledger, timeout)

    async def recordless_ledgers(self) -> RecordlessLedgers:
        """Return the ledgers that bookies hold entries of and the store has no record of.

        Such a ledger was created after a backup that was restored, or was deleted and not collected
        yet.
        """
        timeout = self._options.request_timeout
        return await find_recordless(self._roster, self._catalog, timeout)

    def check_ledgers(self) -> AsyncGenerator[tuple[int, int, Finding | None], None]:
        """Compare every ledger with the entries that the bookies hold (metadata/check.py).

        Yields:
            For each ledger: how many ledgers were compared, of how many, and the finding, or None
            if the ledger is sound.
        """
        timeout = self._options.request_timeout
        return check_ledgers(self._store, self._roster, self._catalog, timeout)

    # Logs.

    async def open_log(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        is_leader: Callable[[], bool] = always,
    ) -> Log:
        """Take over a log for writing. Creates the log if it does not exist.

        Args:
            name: the log's name.
            options: options of this leader; None for the defaults.
            is_leader: called before every attempt. Pass the answer of an election, so that a past
                leader stops disturbing the present one.

        Returns:
            The log's writer. Its `epoch` is higher than the epoch of every writer before.

        Raises:
            UnauthorizedError: the password in `options` is wrong.
            DecryptionError: the log is encrypted, and `options` lack its key.
            LogSealedError: the log is sealed.
            LeadershipLostError: `is_leader` returned False.
            RetryError: bookies or the store did not answer within `LogOptions.open_timeout`.

        Cancellation: the previous writer may have been deposed. The log stays as it is for the
            next takeover.

        Guarantees: the previous writer is fenced and can have nothing acknowledged afterwards
            (docs/protocol.md, C4 and C5).
        """
        log = await self._logs.open(name, options, is_leader=is_leader)
        return self._handles.remember(log, Stage.WRITER)

    def lead_log(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        election: str | None = None,
        candidate: str | None = None,
        session_timeout: float = SESSION_SECONDS,
    ) -> LeadingLog:
        """Lead a log whenever this process is elected: `async with` it in a loop.

            while True:
                async with client.lead_log("board") as log:
                    await log.append(b"...")

        Entering the block waits for the election and takes the log over. Bookies or a store that
        are away are tried again, with a warning. When the leadership is lost the block is
        interrupted as by `asyncio.timeout`, the loss is logged, and the loop goes on. When the
        block ends, by `break` for example, the log is closed and another candidate can lead.

        Begin the block by reading the log: appends of the last turn that had no answer may be
        there.

        Args:
            name: the log's name.
            options: options of this leader; None for the defaults.
            election: the election's name; by default the log's name.
            candidate: the name that other candidates see; by default host and process id.
            session_timeout: seconds without a heartbeat after which a leader loses its leadership.

        Returns:
            A context manager for one turn. Call `lead_log` again for the next turn.

        Raises:
            HandleClosedError: the client was closed.
            UnauthorizedError, DecryptionError, LogSealedError, LogFullError, ConfigurationError:
                on entering; waiting does not mend it. `open_log` has the conditions.
            OutcomeUnknownError, RetryError: the block ended in order, and its log could not be
                closed: submitted records may be unconfirmed.

        Cancellation: while it waits, gives up the place in the queue. In the block, closes the log
            and resigns.

        Guarantees: an error is swallowed only if the leadership is lost and the error says so
            (`OutcomeUnknownError`, `LeadershipLostError`, `SessionExpiredError`, or a group of
            them). The log is closed before the leadership ends, so the successor needs no recovery.
        """
        stands = self.election(election or name, candidate, session_timeout=session_timeout)

        async def open_log(is_leader: Callable[[], bool]) -> Log:
            return await self.open_log(name, options, is_leader=is_leader)

        return LeadingLog(Turn(stands, open_log, self._rng))

    def read_log(
        self,
        name: str,
        start: Start = BEGINNING,
        *,
        follow: bool = False,
        wait_for_log: bool = False,
        password: bytes = b"",
        log_id: str | None = None,
        on_gap: OnGap | None = None,
        keyring: Keyring | None = None,
        recover: bool = False,
    ) -> OpeningReader:
        """Read the records of a log from `start` on: `async for record in client.read_log(name):`.

        `await` or `async with` gives the `LogReader` itself. Nothing happens before.

        Args:
            name: the log's name.
            start: a position, `BEGINNING`, `LATEST`, a record's offset, an aware datetime (the
                first record not older), `AtCursor(name)` or `AtTxid(id)`. `LATEST` is the
                end when the reader is opened: every later record is returned, and with
                `wait_for_log` all records of a log that does not exist yet.
            follow: wait for more records, until the log is sealed. Without it the iterator ends at
                the last record confirmed when it gets there.
            wait_for_log: let a follower wait for a log that does not exist yet.
            password: the log's password.
            log_id: the id of the log that the position is from.
            on_gap: called with lost records, which are an error without it.
            keyring: the keys of an encrypted log.
            recover: read every acknowledged record, including the last records of a crashed writer.
                A living leader is deposed by this, as by `open_log`.

        Raises:
            NoSuchLogError: the log does not exist, and `wait_for_log` is not set.
            LogReplacedError: the log has another id than `log_id`: it was deleted and recreated.
            UnreadableError, NoSuchEntryError: from iteration, also with `on_gap`: bookies are
                away. Continue the reader later. `LogReader` lists the other errors.

        Cancellation: a cancelled step of the iteration leaves the reader where it was.

        Guarantees: a plain read never disturbs the writer, and sees every record that the writer
            has announced (docs/protocol.md, sections 5 and 6).
        """

        async def opened() -> LogReader:
            reader = await self._logs.read(
                name,
                start,
                follow=follow,
                wait_for_log=wait_for_log,
                password=password,
                log_id=log_id,
                on_gap=on_gap,
                keyring=keyring,
                recover=recover,
            )
            return self._handles.remember(reader, Stage.READER)

        return OpeningReader(opened)

    async def scan_log(
        self,
        name: str,
        start: Place = BEGINNING,
        end: Place = LATEST,
        *,
        columns: Sequence[str] | None = None,
        password: bytes = b"",
        keyring: Keyring | None = None,
    ) -> RecordBatchReader:
        """Return the records from `start` on and before `end` as Arrow record batches.

        DuckDB, Polars and pyarrow take the reader as it is. They pull it; this call only takes a
        snapshot. A pull waits for the client's event loop, so read in another thread:
        `table = await asyncio.to_thread(reader.read_all)`.

        Args:
            name: the log's name.
            start: the first record, by position, offset or aware datetime.
            end: the record to stop before, likewise. `LATEST` is the end as it is now.
            columns: columns in the order wanted; None for offset, segment, entry, slot, epoch,
                timestamp, txid and payload. `log` and `ledger` can be named, too.
            password: the log's password.
            keyring: the keys of an encrypted log.

        Returns:
            A `pyarrow.RecordBatchReader` with at most about 64 Ki rows or 4 MiB of payloads in a
            batch. One batch is in memory at a time.

        Raises:
            MissingExtraError: pyarrow is not installed: `pip install 'quire[arrow]'`.
            InvalidRequestError: a place or a column is not valid; from the reader, when it is
                pulled on the client's own event loop.
            NoSuchLogError: the log does not exist.
            PositionTrimmedError: the record that `start` names was trimmed; also from the reader.
            UnreadableError, DecryptionError, HandleClosedError: from the reader. pyarrow passes
                them on; DuckDB and Polars raise an error of their own with the text.

        Guarantees: the writer is not disturbed. The scan has every record that a plain reader saw
            in these bounds when the call returned, in order.
        """
        return await scan(self._logs, name, start, end, columns, password, keyring)

    async def snapshot_log(
        self, name: str, *, password: bytes = b"", bounds: Bounds = EVERYTHING
    ) -> list[Span]:
        """Return the present extent of a log, within bounds, split for parallel reading.

        Args:
            name: the log's name.
            password: the log's password.
            bounds: the records wanted, by position, offset or time.

        Returns:
            The spans that a plain reader would see now, in order.

        Raises:
            NoSuchLogError: the log does not exist.
            UnauthorizedError: the password is wrong.
            UnreadableError: too few bookies answer for a segment that is still written.
        """
        return list(await self._logs.snapshot(name, password=password, bounds=bounds))

    def read_span(
        self, span: Span, *, password: bytes = b"", keyring: Keyring | None = None
    ) -> AsyncGenerator[Slice, None]:
        """Yield the records of a span by entry, in order.

        Args:
            span: a span from `snapshot_log`.
            password: the log's password.
            keyring: the keys of an encrypted log.

        Yields:
            The records of each entry.

        Raises:
            DecryptionError: the keyring lacks the key, or the key does not fit.
            PositionTrimmedError: the segment was trimmed away meanwhile.
        """
        return self._logs.read_span(span, password=password, keyring=keyring)

    def log_ingest(self, name: str) -> Ingest:
        """Return the jobs that write ledgers for a log to adopt.

        Args:
            name: the log's name.

        Returns:
            The log's jobs. The caller closes the writers that it creates with them.
        """
        return self._logs.ingest(name)

    async def log_end(
        self, name: str, *, linearizable: bool = False, password: bytes = b""
    ) -> LogEnd:
        """Return the earliest position and offset that a log's next record can have.

        Args:
            name: the log's name.
            linearizable: return a position after every record acknowledged before the call.
                Without it, the position that the leader announced last.
            password: the log's password.

        Returns:
            The end of the log: position and offset.

        Raises:
            NoSuchLogError: the log does not exist.
            UnreadableError: too few bookies answer, or a writer that is gone left the end
                undecided: `logs.recover` decides.

        Guarantees: docs/protocol.md, C8.
        """
        return await self._logs.tail(name, linearizable=linearizable, password=password)

    def log_cursors(self, name: str, *, password: bytes = b"") -> LogCursors:
        """Return the named cursors of a log.

        Args:
            name: the log's name.
            password: the log's password; needed to read the log's present end.

        Returns:
            The cursors: create, move, list and delete them there.
        """
        return self._logs.cursors(name, password=password)

    @property
    def logs(self) -> LogDirectory:
        """All logs, with rarely needed calls: `create`, `watch`, `rebuild` and `sweep`."""
        return self._logs

    async def list_logs(self) -> list[str]:
        """Return the names of all logs, sorted."""
        return await self._logs.list()

    async def describe_log(self, name: str) -> LogManifest:
        """Return a log's manifest: its segments, epoch, trim point and settings.

        Args:
            name: the log's name.

        Raises:
            NoSuchLogError: the log does not exist.
        """
        return await self._logs.describe(name)

    async def configure_log(self, name: str, settings: Mapping[str, str]) -> LogManifest:
        """Store settings that hold for every leader of a log.

        The present leader obeys a setting as soon as it sees it, `replication` from its next
        segment on.

        Args:
            name: the log's name.
            settings: values by name (`quire.log.manifest.options.SETTINGS`). Other settings keep
                their values. The value "" removes a setting.

        Returns:
            The manifest with the new settings.

        Raises:
            ConfigurationError: a name or a value is not valid.
            NoSuchLogError: the log does not exist.
        """
        return await self._logs.set_options(name, settings)

    async def trim_log(
        self,
        name: str,
        before: Position | int,
        *,
        password: bytes = b"",
        log_id: str | None = None,
    ) -> None:
        """Delete the records of a log before a position or an offset.

        Args:
            name: the log's name.
            before: the first position or offset to keep. `LATEST` is the end as it is now.
            password: the log's password.
            log_id: the id of the log that the position is from.

        Raises:
            NoSuchLogError: the log does not exist.
            LogReplacedError: the log has another id than `log_id`: it was deleted and recreated.
            InvalidRequestError: `before` is beyond the log's end.

        Cancellation: the log may be trimmed all the same.

        Guarantees: the leader is not disturbed, and records from `before` on stay.
        """
        await self._logs.trim(name, before, password=password, log_id=log_id)

    async def delete_log(
        self, name: str, *, password: bytes = b"", forget_tiers: Collection[str] = ()
    ) -> None:
        """Delete a log with its ledgers, cursors and files (see `LogDirectory.delete`).

        Args:
            name: the log's name.
            password: the log's password.
            forget_tiers: URIs of lost tiers; their files stay.

        Raises:
            NoSuchLogError: the log does not exist.
            InvalidRequestError: `forget_tiers` names a place that is not a tier of the log.
            RetryError: a bookie, the store or a tier does not answer; call again.

        Cancellation: the deletion may be unfinished; call again.

        Guarantees: docs/protocol.md, D1 to D4.
        """
        await self._logs.delete(name, password=password, forget_tiers=forget_tiers)

    # Elections and bookies.

    def election(
        self, name: str, candidate: str | None = None, *, session_timeout: float = SESSION_SECONDS
    ) -> Election:
        """Return an election, to stand in it or to watch it.

        Args:
            name: the election's name.
            candidate: the name that other candidates see; by default host and process id.
            session_timeout: seconds without a heartbeat after which a leader loses its leadership.

        Returns:
            The election. It is not entered yet.

        Guarantees: docs/protocol.md, "Election".
        """
        who = candidate or f"{socket.gethostname()}:{os.getpid()}"
        election = Election(self._store, name, who, rng=self._rng, session_timeout=session_timeout)
        return self._handles.remember(election, Stage.ELECTION)

    def service(
        self,
        name: str,
        application: Application[R],
        candidate: str | None = None,
        *,
        options: ServiceOptions | None = None,
        session_timeout: float = SESSION_SECONDS,
    ) -> Service[R]:
        """Return one replica of a service around a deterministic state machine: `async with` it.

        Args:
            name: the name of the service, its log and its election.
            application: the state machine.
            candidate: the name that other replicas see, such as the address of this replica.
            options: options of the replica; None for the defaults.
            session_timeout: seconds without a heartbeat after which a leader loses its leadership.

        Returns:
            The replica. It starts when its block is entered.

        Guarantees: docs/protocol.md, "Replicated service".
        """
        service = Service(
            application,
            self.election(name, candidate, session_timeout=session_timeout),
            self._logs,
            self._catalog,
            self._store,
            options or ServiceOptions(),
        )
        return self._handles.remember(service, Stage.SERVICE)

    async def gc_snapshots(self) -> Sequence[LedgerId]:
        """Delete ledgers of unfinished snapshots, from services that ended while writing one.

        Returns:
            The deleted ledgers. No service would ever have read them.
        """
        return await gc_snapshots(self._store, self._catalog)

    def bookies(self) -> list[BookieAddress]:
        """Return the bookies that are registered now, sorted by id."""
        return self._roster.known()

    async def bookie_info(self, bookie: BookieId) -> BookieInfo:
        """Return a bookie's own description of itself.

        Args:
            bookie: the bookie's id.

        Raises:
            BookieUnavailableError: the bookie does not answer, or is not registered.
        """
        return await self._roster.bookie(bookie).info()

    async def close(self) -> None:
        """Close every handle that is still open, in order.

        A client that `await quire.connect(…)` returned ends with this call, as with its block. In a
        block the client goes on.

        Raises:
            OutcomeUnknownError: submitted records could not be confirmed.
            RetryError: a writer could not be closed.

        Cancellation: abandons the writers that are not closed yet. A second call does nothing.
        """
        if self._scope is None:
            await self._handles.close()
        else:
            scope, self._scope = self._scope, _CLOSED
            await scope.__aexit__(None, None, None)
