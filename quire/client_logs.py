"""The calls of a client that concern logs; `Client` (client.py) adds elections and services."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

from quire.aio.home import at_home
from quire.client_ledgers import LedgerClient
from quire.election.leadership import Leadership
from quire.errors import InvalidRequestError
from quire.leaving import OpenHandles, Stage
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.options import LedgerOptions
from quire.ledger.roster import BookieRoster
from quire.log.directory import LogDirectory
from quire.log.leader.log import Log
from quire.log.maintenance.cursors import LogCursors
from quire.log.maintenance.deletion import Takeover
from quire.log.manifest.info import LogInfo, info_of
from quire.log.manifest.options import LogOptions
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.gaps import OnGap
from quire.log.reading.reader import LogReader
from quire.log.reading.search import LogEnd
from quire.log.reading.span import Slice, Span
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, Position, Start
from quire.metastore.store import MetadataStore
from quire.opening import OpeningReader
from quire.scan import Place, RecordBatchReader, scan
from quire.tracing.spans import EPOCH, LOG, OPEN_LOG


def always() -> bool:
    """Return True: the default of `is_leader`, for a log without an election."""
    return True


@at_home
class LogClient(LedgerClient):
    """The part of `Client` that concerns logs: to write, read and manage them."""

    def __init__(
        self,
        store: MetadataStore,
        roster: BookieRoster,
        catalog: LedgerCatalog,
        logs: LogDirectory,
        options: LedgerOptions,
        handles: OpenHandles,
    ) -> None:
        super().__init__(store, roster, catalog, options, handles)
        self._logs = logs

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
        with self._handles.meter.spans.begin(OPEN_LOG, {LOG: name}) as note:
            log = await self._logs.open(name, options, is_leader=is_leader)
            note(EPOCH, log.epoch)
        return self._handles.remember(log, Stage.WRITER)

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

        Returns:
            A reader that is about to be opened. Use it once.

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
            self._home.check(self)
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

        Cancellation: ends the call, not the pulls of a reader that it returned.

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

        Cancellation: ends the call only: nothing is changed.
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
                undecided: `recover_log` decides.

        Cancellation: ends the call only: nothing is changed.

        Guarantees: docs/protocol.md, C8.
        """
        return await self._logs.tail(name, linearizable=linearizable, password=password)

    def log_cursors(
        self, name: str, *, password: bytes = b"", leadership: Leadership | None = None
    ) -> LogCursors:
        """Return the named cursors of a log.

        Args:
            name: the log's name.
            password: the log's password; needed to read the log's present end.
            leadership: of any election. The cursors are changed through the result only while it
                lasts: afterwards each change raises `LeadershipLostError`.

        Returns:
            The cursors: create, move, list and delete them there.

        Guarantees: docs/protocol.md, E6.
        """
        return self._logs.cursors(name, password=password, fence=leadership)

    async def create_log(self, name: str, options: Mapping[str, str] | None = None) -> LogInfo:
        """Create an empty log. `open_log` creates a missing log, too.

        Args:
            name: the log's name.
            options: options that hold for every leader from the first on, as in `configure_log`.

        Returns:
            The log, without a segment.

        Raises:
            LogExistsError: a log of that name exists.
            ConfigurationError: a name or a value is not valid.

        Cancellation: the log may exist afterwards.
        """
        return info_of(await self._logs.create(name, options))

    async def recover_log(self, name: str, *, password: bytes = b"") -> None:
        """Close the ledgers of a crashed leader: then a plain read sees all acknowledged records.

        Args:
            name: the log's name.
            password: the log's password.

        Raises:
            NoSuchLogError: the log does not exist.
            UnauthorizedError: the password is wrong.
            UnreadableError: too few bookies answer to decide how a ledger ends.

        Cancellation: recovery stops. A repetition completes it.

        Guarantees: a living leader is deposed. The next leader continues the log
            (docs/protocol.md, section 4).
        """
        await self._logs.recover(name, password=password)

    async def last_txid(self, name: str, *, password: bytes = b"") -> int:
        """Return the last txid that a log announced; −1 for a log without txids.

        Args:
            name: the log's name.
            password: the log's password.

        Returns:
            The last txid, also of a record that was trimmed.

        Raises:
            NoSuchLogError: the log does not exist.
            UnreadableError: too few bookies answer.

        Cancellation: ends the call only: nothing is changed.
        """
        return await self._logs.last_txid(name, password=password)

    async def list_logs(self) -> list[str]:
        """Return the names of all logs.

        Returns:
            The names, sorted.

        Raises:
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: ends the call only: nothing is changed.
        """
        return await self._logs.list()

    async def log_info(self, name: str) -> LogInfo:
        """Return a log's segments, epoch, first position and options, as they are now.

        Args:
            name: the log's name.

        Returns:
            A value that does not change. A log that is being deleted has one, too.

        Raises:
            NoSuchLogError: the log does not exist.

        Cancellation: ends the call only: nothing is changed.
        """
        return info_of(await self._logs.describe(name))

    def watch_logs(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield the names of all logs now, and again when logs were created or deleted.

        Yields:
            The names, sorted. Changes that follow each other quickly may be yielded as one.
        """
        return self._logs.watch()

    async def watch_log(self, name: str) -> AsyncGenerator[LogInfo, None]:
        """Yield a log's shape now, and again after every change, until the log is deleted.

        Args:
            name: the log's name.

        Yields:
            The shape after a roll, a takeover, a trim or a change of options. Changes that follow
            each other quickly may be yielded as one.

        Raises:
            NoSuchLogError: the log does not exist at the start.

        Cancellation: ends the watching only.
        """
        async with contextlib.aclosing(self._logs.watch_log(name)) as manifests:
            async for manifest in manifests:
                yield info_of(manifest)

    async def configure_log(self, name: str, options: Mapping[str, str]) -> LogInfo:
        """Store options that hold for every leader of a log, whatever options it is given.

        The present leader follows an option as soon as it sees it, `replication` from its next
        segment on.

        Args:
            name: the log's name.
            options: values by name, as text: `{"retention_seconds": "7d"}`. `quire log set
                --help` lists the names. Other options keep their values. The value "" removes an
                option.

        Returns:
            The log with its new options.

        Raises:
            ConfigurationError: a name or a value is not valid.
            NoSuchLogError: the log does not exist.

        Cancellation: the options may be stored all the same.
        """
        return info_of(await self._logs.set_options(name, options))

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
        self,
        name: str,
        *,
        password: bytes = b"",
        forget_tiers: Collection[str] = (),
        led: Log | LogInfo | None = None,
    ) -> None:
        """Delete a log with its ledgers, cursors and files.

        Args:
            name: the log's name.
            password: the log's password.
            forget_tiers: URIs of lost tiers; their files stay.
            led: the log as this program wrote it, or as `log_info` told of it. Nothing is deleted
                once another leader has taken the log over after it.

        Raises:
            NoSuchLogError: the log does not exist.
            LogReplacedError: another log than `led` has the name.
            ConflictError: the log was taken over after `led`.
            InvalidRequestError: `forget_tiers` names a place that is not a tier of the log.
            RetryError: a bookie, the store or a tier does not answer; call again.

        Cancellation: the deletion may be unfinished; call again.

        Guarantees: docs/protocol.md, D1 to D4.
        """
        if led is not None and not isinstance(led, Log | LogInfo):
            raise InvalidRequestError(f"led must be a Log or a LogInfo, not {led!r}")
        last = None if led is None else Takeover(led.log_id, led.epoch)
        await self._logs.delete(name, password=password, forget_tiers=forget_tiers, last=last)
