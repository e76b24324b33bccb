"""`connect`: a client of a quire cluster, and where its parts are put together.

This is the composition root of the client side: the one place that chooses implementations (the
metadata store by its URI, gRPC for bookies, real randomness, the wall clock) and hands them to
the layers below, none of which knows the others' makers. A `Client` does nothing itself: it
forwards to the catalog, the log directory and the election, and remembers what it opened so that
nothing it made outlives it.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

from quire.bookie import BookieAddress, BookieInfo
from quire.election.election import Election
from quire.entry import BookieId, DigestKind, LedgerId
from quire.event_log import observing
from quire.leaving import LEAVE_SECONDS, OpenHandles, Stage
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.inventory import Inventory, take_inventory
from quire.ledger.links import link_bookie
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.observed_store import observed
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.roster import BookieRoster
from quire.ledger.writer import LedgerWriter
from quire.log.directory import LogDirectory
from quire.log.leader.log import Log
from quire.log.maintenance.cursors import LogCursors
from quire.log.maintenance.ingest import Adoption
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.gaps import OnGap
from quire.log.reading.reader import LogReader
from quire.log.reading.search import Tail
from quire.log.reading.span import Slice, Span
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, Position, Start
from quire.metadata.check import Finding, check_ledgers
from quire.metadata.recordless import RecordlessLedgers, find_recordless
from quire.metastore import open_store
from quire.metastore.place import resolve_store
from quire.metastore.store import MetadataStore
from quire.service import Application, Service, ServiceOptions
from quire.service.service import R
from quire.service.snapshots import Snapshots, sweep_snapshots
from quire.steady import machine_clock

CONNECT_SECONDS: Final = 5.0

SESSION_SECONDS: Final = 6.0
"""Default time after which a leader that is not heard of has lost its leadership."""


def always() -> bool:
    """What `is_leader` says where nobody is elected."""
    return True


@contextlib.asynccontextmanager
async def connect(
    store: str,
    *,
    options: LedgerOptions | None = None,
    timeout: float = CONNECT_SECONDS,
    leave_timeout: float = LEAVE_SECONDS,
) -> AsyncIterator[Client]:
    """Connect to a cluster: `async with quire.connect(store) as client:`.

    `store` is `sqlite:///path/metadata.db`, `zk://host:port,host:port/root`, or the directory of a
    local cluster. A SQLite file must exist: `quire cluster up` and `quire bookie format` create it,
    and for elections without a cluster `quire.metastore.create_store`. `options` bound the ledgers
    written and read through this client.

    Bookies are contacted when they are needed.

    Leaving the block in order ends what is still open: services hand over, logs, ledgers and
    readers are closed, leaders resign. What was submitted is confirmed, and every plain read sees
    it then. When an exception leaves the block, or a cancellation, writers are abandoned as by a
    crash, and a warning names them: what was acknowledged is safe, and a plain read may not see
    the last of it until the log is opened again.

    Leaving takes at most `leave_timeout` seconds, and a few more to give up. What is still open
    then, because bookies or the metadata store do not answer, is abandoned and named likewise. A
    warning also names a log that failed earlier, if no call has raised its error.

    Raises:
        ConfigurationError: the store does not exist, or cannot exist.
        StoreUnavailableError: there is no connection within `timeout` seconds; the error says why.
        OutcomeUnknownError: on leaving, records that were submitted could not be confirmed.
            `LeavingTimeoutError`: writers were abandoned at the deadline.
        RetryError: on leaving, a writer could not be closed. An error that a handle had raised
            before is not raised again.
    """
    uri = resolve_store(store)
    rng = random.Random()
    handles = OpenHandles(leave_timeout)
    opened = await open_store(uri, timeout=timeout)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(handles.release, "the metadata store", opened.close)
        observer = stack.enter_context(observing("client", str(os.getpid())))
        metadata_store = observed(opened, observer)
        limits = options or LedgerOptions()
        roster = BookieRoster(
            metadata_store,
            lambda address: link_bookie(address, request_timeout=limits.request_timeout),
        )
        stack.push_async_callback(handles.release, "a connection to a bookie", roster.close)
        await roster.start()
        catalog = LedgerCatalog(
            *(metadata_store, roster),
            rng=rng,
            clock=time.time,
            options=limits,
            observer=observer,
        )
        logs = LogDirectory(
            metadata_store,
            catalog,
            rng=rng,
            clock=time.time,
            steady=machine_clock(rng),
            attachments=lambda name: [Snapshots(metadata_store, catalog, name, LogOptions())],
        )
        stack.push_async_exit(handles.leave)
        yield Client(metadata_store, roster, catalog, logs, rng, limits, handles)


class Client:
    """A connection to one cluster. Made by `connect`; belongs to the event loop it was made on.

    Safe to use from any number of tasks of that loop. Cancelling a call gives up waiting for it:
    what it asked for may still happen, as after any lost answer.
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

    # Ledgers.

    async def create_ledger(
        self,
        replication: Replication | None = None,
        *,
        password: bytes = b"",
        digest: DigestKind = DigestKind.CRC32C,
        custom: Mapping[str, str] | None = None,
        deferred_sync: bool = False,
        full_quorum: bool = False,
    ) -> LedgerWriter:
        """Create a ledger and return its one writer.

        With `deferred_sync` an answered append is only received, not durable: it is confirmed, and
        seen by followers, at the next `LedgerWriter.force`, or when the ledger is closed.
        With `full_quorum` the ledger is closed only when every entry is on all bookies of its write
        set, not just on an ack quorum.

        Raises `NotEnoughBookiesError` when fewer bookies than the ensemble are writable.
        """
        writer = await self._catalog.create(
            replication,
            password=password,
            digest=digest,
            custom=custom,
            deferred_sync=deferred_sync,
            full_quorum=full_quorum,
        )
        return self._handles.remember(writer, Stage.WRITER)

    async def open_ledger(self, ledger: LedgerId, *, password: bytes = b"") -> LedgerReader:
        """Open a ledger to read it whole. If it is not closed its writer is fenced off and the
        ledger is recovered and closed first.

        Raises `NoSuchLedgerError`, `UnauthorizedError` for a wrong password, and the errors of a
        recovery that cannot be decided now (`UnreadableError`, `NotEnoughBookiesError`).
        """
        reader = await self._catalog.open(ledger, password=password)
        return self._handles.remember(reader, Stage.READER)

    async def open_ledger_without_recovery(
        self, ledger: LedgerId, *, password: bytes = b""
    ) -> LedgerReader:
        """Open a ledger to read what is confirmed, or to follow it; never disturbs its writer.

        Raises `NoSuchLedgerError` and `UnauthorizedError`.
        """
        reader = await self._catalog.open_without_recovery(ledger, password=password)
        return self._handles.remember(reader, Stage.READER)

    async def delete_ledger(
        self, ledger: LedgerId, *, password: bytes = b"", force: bool = False
    ) -> None:
        """Delete a ledger; bookies drop its entries some time later.

        An open ledger is fenced and closed first, which needs its password. `force` deletes it as
        it is, for a ledger whose bookies are lost: a writer that still lives may then have entries
        acknowledged, which are lost, until the bookies have dropped the ledger.

        Raises `NoSuchLedgerError`, and for an open ledger what a recovery does.
        """
        if force:
            await self._catalog.delete(ledger)
        else:
            await self._catalog.close_and_delete(ledger, password=password)

    async def list_ledgers(self) -> list[LedgerId]:
        """Return the ids of all ledgers, those of logs included, in ascending order."""
        return await self._catalog.list()

    async def ledger_metadata(self, ledger: LedgerId) -> LedgerMetadata:
        """Return what the metadata store says about a ledger. Raises `NoSuchLedgerError`."""
        return await self._catalog.metadata(ledger)

    async def ledger_inventory(self, ledger: LedgerId) -> Inventory:
        """Ask every bookie which entries of a ledger it holds, and compare that with metadata.

        Disturbs nobody. A bookie that does not answer is part of the result. Raises
        `NoSuchLedgerError`.
        """
        timeout = self._options.request_timeout
        return await take_inventory(self._store, self._roster, ledger, timeout)

    async def recordless_ledgers(self) -> RecordlessLedgers:
        """Return the ledgers that bookies hold entries of and the store has no record of.

        They were made after a backup that was put back, or deleted and not collected yet. Raises
        the store's errors.
        """
        timeout = self._options.request_timeout
        return await find_recordless(self._roster, self._catalog, timeout)

    def check_ledgers(self) -> AsyncGenerator[tuple[int, int, Finding | None], None]:
        """Compare every ledger with what the bookies hold (metadata/check.py)."""
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
        """Take a log over for writing, creating it when there is none.

        Whoever wrote it before is fenced off and can have nothing acknowledged from then on.
        `epoch` of the result is higher than that of every writer before. `is_leader` is asked
        before every attempt: pass the word of an election, so that a leader of the past stops
        disturbing the present one.
        Raises `UnauthorizedError`, `DecryptionError`, `LogSealedError`, `LeadershipLostError`, and
        transient errors when `LogOptions.open_timeout` is over.
        """
        log = await self._logs.open(name, options, is_leader=is_leader)
        return self._handles.remember(log, Stage.WRITER)

    async def read_log(
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
    ) -> LogReader:
        """Return an asynchronous iterator over the records of a log from `start` on.

        `start` is a position, `BEGINNING`, `LATEST`, a record's offset, an aware datetime (the
        first record not older), `AtCursor(name)` or `AtTransaction(id)`. `LATEST` is the end as it
        is now: what is appended after this call is read, however late iteration begins, and with
        `wait_for_log` all of a log that does not exist yet. Without `follow` the iterator ends at
        the last record confirmed when it gets there; with it, it waits for more, until the log is
        sealed. `wait_for_log` lets a follower wait for a log that does not exist
        yet. `log_id` is that of the log which the position is from: another log of the same name
        raises `LogReplacedError`. `on_gap` is told of records that are lost, and reading
        goes on after them; without it they are an error. Records whose bookies are away are an
        error in both cases: `UnreadableError` or `NoSuchEntryError`; continue the reader later.
        `keyring` has the keys of an encrypted log. Raises `NoSuchLogError`; iteration what
        `LogReader` says.

        A plain read never disturbs the writer, and sees what the writer has announced. With
        `recover` every acknowledged record is read, also those of a writer that crashed; a leader
        that still lives is deposed by that, as by `open_log`.
        """
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

    async def snapshot_log(
        self, name: str, *, password: bytes = b"", bounds: Bounds = EVERYTHING
    ) -> list[Span]:
        """Return what a reader sees of a log now, within bounds, cut for reading in parallel.
        Raises `NoSuchLogError`, `UnauthorizedError`, and `UnreadableError` when too few bookies
        answer for a segment that is still written.
        """
        return list(await self._logs.snapshot(name, password=password, bounds=bounds))

    def read_span(
        self, span: Span, *, password: bytes = b"", keyring: Keyring | None = None
    ) -> AsyncGenerator[Slice, None]:
        """Yield the records of a span by entry, in order. Raises `DecryptionError`, and when the
        segment was trimmed away meanwhile `PositionTrimmedError`.
        """
        return self._logs.read_span(span, password=password, keyring=keyring)

    def log_adoption(self, name: str) -> Adoption:
        """Return the jobs of a log, whose ledgers it adopts. Whoever makes writers closes them."""
        return self._logs.adoption(name)

    async def tail_log(
        self, name: str, *, linearizable: bool = False, password: bytes = b""
    ) -> Tail:
        """Return where a log's next record comes at the earliest, and its offset: as its leader
        announced it last, or linearizable, behind every record acknowledged before the call.

        Raises `NoSuchLogError`, and `UnreadableError` when too few bookies answer, or when a writer
        that is gone left it undecided: `logs.recover` decides.
        """
        return await self._logs.tail(name, linearizable=linearizable, password=password)

    def log_cursors(self, name: str, *, password: bytes = b"") -> LogCursors:
        """Return the named cursors of a log; the password serves to see how far a log has come."""
        return self._logs.cursors(name, password=password)

    @property
    def logs(self) -> LogDirectory:
        """All logs, with what is seldom needed: `create`, `watch`, `rebuild` and `sweep`."""
        return self._logs

    async def list_logs(self) -> list[str]:
        """Return the names of all logs, sorted."""
        return await self._logs.list()

    async def describe_log(self, name: str) -> LogManifest:
        """Return a log's manifest. Raises `NoSuchLogError`."""
        return await self._logs.describe(name)

    async def configure_log(self, name: str, settings: Mapping[str, str]) -> LogManifest:
        """Store settings that hold for every leader of a log.

        Their names are in `quire.log.manifest.options.SETTINGS`.

        The present leader obeys them as soon as it sees them, `replication` from its next segment
        on. Those set before stay as they are; the value "" takes one back. Raises
        `ConfigurationError` for a setting that makes no sense, `NoSuchLogError`.
        """
        return await self._logs.set_settings(name, settings)

    async def trim_log(
        self,
        name: str,
        before: Position | int,
        *,
        password: bytes = b"",
        log_id: str | None = None,
    ) -> None:
        """Delete the records of a log before a position or an offset. Its leader is not disturbed.

        `LATEST` is the end as it is now. `log_id` is that of the log which the position is from:
        another log of the same name raises `LogReplacedError`. Raises `NoSuchLogError`, and
        `InvalidRequestError` beyond the log's end.
        """
        await self._logs.trim(name, before, password=password, log_id=log_id)

    async def delete_log(
        self, name: str, *, password: bytes = b"", forget_tiers: Collection[str] = ()
    ) -> None:
        """See `LogDirectory.delete`."""
        await self._logs.delete(name, password=password, forget_tiers=forget_tiers)

    # Elections and bookies.

    def election(
        self, name: str, candidate: str | None = None, *, session_timeout: float = SESSION_SECONDS
    ) -> Election:
        """Return the election `name`, to stand in it as `candidate` or to watch it.

        `candidate` is what others see; by default host and process. A leader that is not heard of
        for `session_timeout` seconds has lost its leadership.
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

        `candidate` is what others see, such as the address at which it takes requests.
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

    async def sweep_snapshots(self) -> Sequence[LedgerId]:
        """Delete what services left behind that ended while they wrote a snapshot: ledgers that no
        service will ever read. Returns them. Raises the store's errors.
        """
        return await sweep_snapshots(self._store, self._catalog)

    def bookies(self) -> list[BookieAddress]:
        """Return the bookies that are registered now, sorted by id."""
        return self._roster.known()

    async def bookie_info(self, bookie: BookieId) -> BookieInfo:
        """Return a bookie's own account of itself. Raises `BookieUnavailableError`."""
        return await self._roster.bookie(bookie).info()

    async def close(self) -> None:
        """Close every handle that is still open, in order. Raises as leaving `connect` does."""
        await self._handles.close()
