"""The logs of a cluster: create, open for writing, read, describe, watch, trim, list, delete."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random

from quire.entry import LedgerId
from quire.errors import InvalidRequestError, NoSuchLedgerError, NoSuchLogError
from quire.ledger.catalog import LedgerCatalog
from quire.log.leader.log import Log
from quire.log.leader.producer_state import Restoration
from quire.log.leader.takeover import TakeOver
from quire.log.maintenance.cursors import LogCursors
from quire.log.maintenance.deletion import Attachment, delete_log
from quire.log.maintenance.ingest import Adoption
from quire.log.maintenance.offload import Offload, sweep_each
from quire.log.maintenance.orphans import find_orphans, find_unlisted, rebuild_log
from quire.log.maintenance.trimming import trim_log
from quire.log.manifest.clocks import Clocks
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.manifest.record import ManifestRecord
from quire.log.manifest.recovery import find_last_transaction, recover_open_segments
from quire.log.manifest.watching import names_of, watch_manifest, watch_names
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.gaps import OnGap
from quire.log.reading.reader import LogReader
from quire.log.reading.search import (
    OpenSegment,
    Tail,
    find_acknowledged_tail,
    find_tail,
    look,
)
from quire.log.reading.segment_reader import open_segment
from quire.log.reading.snapshot import take_snapshot
from quire.log.reading.span import Slice, Span, read_span_anywhere
from quire.log.reading.threshold import Threshold
from quire.log.records.errors import LogExistsError
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, AtCursor, Position, Start
from quire.log.retry import retry
from quire.metastore.layout import LOGS
from quire.metastore.store import MetadataStore
from quire.steady import SteadyClock, own_clock


class LogDirectory:
    """All logs in one metadata store. Stateless: any number may exist.

    `clock` gives Unix time in seconds, for the timestamps of records and segments. `steady` is a
    clock that only goes forward: that of the machine, or, by default, of this object. `attachments`
    says what other layers keep beside a log of some name, and goes when the log is deleted.
    """

    def __init__(
        self,
        store: MetadataStore,
        catalog: LedgerCatalog,
        *,
        rng: Random,
        clock: Callable[[], float],
        steady: SteadyClock | None = None,
        attachments: Callable[[str], Sequence[Attachment]] = lambda name: (),
    ) -> None:
        self._attachments = attachments
        self._store = store
        self._catalog = catalog
        self._rng = rng
        self._clock = clock
        self._clocks = Clocks(clock, steady or own_clock(rng))

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def _record(self, name: str) -> ManifestRecord:
        return ManifestRecord(self._store, name)

    async def open(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> Log:
        """Take a log over for writing, creating it when it does not exist.

        Whoever led before is deposed. `is_leader` is asked before every attempt: give it the
        election's word, so that a leader of the past stops disturbing the present one.

        Raises `LogSealedError`, `LeadershipLostError`, and before anybody is deposed
        `UnauthorizedError`, and `DecryptionError` or `ConfigurationError` when what a leader has to
        read cannot be read; transient errors when `LogOptions.open_timeout` is over.
        """
        options = options or LogOptions()
        record = self._record(name)
        opener = self._opener(name, options.password, options.keyring)
        restoration = Restoration(partial(self.describe, name), opener)
        take_over = TakeOver(
            record,
            self._catalog,
            options,
            rng=self._rng,
            clock=self._clock,
            rehearse=restoration.advance,
            is_leader=is_leader,
        )
        tenure = await take_over.run()
        try:
            producers = await retry(restoration.finish, self._rng, timeout=options.open_timeout)
        except BaseException:
            tenure.writer.abandon()
            raise
        log = Log(
            record,
            self._catalog,
            options,
            rng=self._rng,
            clocks=self._clocks,
            tenure=tenure,
            cursors=self.cursors(name, password=options.password),
            producers=producers,
            open_segment=self._opener(name, options.password),
        )
        log.start()
        return log

    async def read(
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
        """Return a reader that starts at a position, `BEGINNING`, `LATEST`, a record's offset, a
        time, a transaction, or where a cursor is.

        `LATEST` is the end as it is now, however late iteration begins: nothing is missed that is
        appended after this call. With `follow` it goes on for ever, or until the log is sealed;
        else it ends at the last record confirmed when it gets there. `wait_for_log` makes a
        follower wait for a log that does not exist, or that is being deleted: for the next one
        then. `log_id` is that of the log which the position is from: it is not waited for, and
        another log of the same name raises `LogReplacedError`. `on_gap` is told of records of
        sealed segments that are lost, from where the reader starts on, and it goes on behind them
        (gaps.py); without it they are an error. The keyring opens batches that are encrypted.
        With `recover` the log is recovered first (see `recover`), so that every acknowledged record
        is read, also those of a writer that crashed. A leader that still lives is deposed by that.

        Raises `NoSuchLogError` unless it waits, `NoSuchCursorError`, `InvalidRequestError` for
        `recover` with `follow`, a negative offset or transaction or a time without a zone; with
        `LATEST` what `tail` does.
        """
        if isinstance(start, AtCursor):
            cursor = await self.cursors(name, password=password).find(start.name)
            start, log_id = cursor.position, log_id or cursor.log_id
        Threshold.of(start)
        if recover and follow:
            raise InvalidRequestError(
                "recover ends the present writer, and follow waits for it: choose one of them"
            )
        if recover:
            await self.recover(name, password=password)
        is_awaited = follow and wait_for_log
        if not is_awaited:
            await self._describe_living(name)
        if start == LATEST:
            try:
                start, log_id = await self._find_end(name, log_id, password)
            except NoSuchLogError:
                if not is_awaited:
                    raise
                start = BEGINNING
        return LogReader(
            self._record(name),
            self._catalog,
            start=start,
            follow=follow,
            wait_for_log=wait_for_log,
            password=password,
            log_id=log_id,
            rng=self._rng,
            clock=self._clock,
            on_gap=on_gap,
            keyring=keyring,
        )

    async def recover(self, name: str, *, password: bytes = b"") -> None:
        """Close the ledgers that are still written, so that a plain read sees every acknowledged
        record. A leader that still lives is fenced: its next append fails.

        Harmless when repeated. The log stays as it is and can be led on.

        Raises:
            NoSuchLogError: there is no such log.
            UnauthorizedError: the password is wrong.
            UnreadableError: too few bookies answer to decide how a ledger ends.
        """
        manifest = await self._describe_living(name)
        try:
            await recover_open_segments(self._catalog, manifest, password)
        except NoSuchLedgerError:  # trimmed, or taken over, since the manifest was read
            if (await self._describe_living(name)).segments == manifest.segments:
                raise

    async def _find_end(
        self, name: str, log_id: str | None, password: bytes
    ) -> tuple[Position, str]:
        """Return where a log ends now, and which log that is. Raises `NoSuchLogError`."""
        opener = self._opener(name, password)

        async def find(seen: LogManifest) -> tuple[Position, str]:
            return (await find_tail(seen, opener)).position, log_id or seen.log_id

        return await look(lambda: self._describe_living(name), find)

    def cursors(self, name: str, *, password: bytes = b"") -> LogCursors:
        """Return the named cursors of a log; the password is needed to look how far the log has
        come, and to count what they lag.
        """
        opener = self._opener(name, password)
        return LogCursors(self._store, self._record(name), opener, self._clock)

    def _opener(self, name: str, password: bytes, keyring: Keyring | None = None) -> OpenSegment:
        return partial(
            open_segment,
            self._catalog,
            record=self._record(name),
            password=password,
            keyring=keyring,
            follow=False,
        )

    def adoption(self, name: str) -> Adoption:
        """Return the jobs of a log: ledgers written outside it that it adopts (ingest.py)."""
        return Adoption(
            self._store, self._record(name), self._catalog, rng=self._rng, clocks=self._clocks
        )

    def offload(self, name: str) -> Offload:
        """Return what moves a log's closed segments into Parquet files (offload.py)."""
        return Offload(self._record(name), self._catalog, rng=self._rng)

    async def tail(self, name: str, *, linearizable: bool = False, password: bytes = b"") -> Tail:
        """Return where the next record of a log comes at the earliest, and its offset.

        As announced by the leader, which may be some milliseconds behind what it acknowledged; with
        `linearizable` behind everything that was acknowledged before the call. Never fences.

        Raises `NoSuchLogError`, also while the log is being deleted, and `UnreadableError` when too
        few bookies answer, or when the last entry is undecided because the leader is gone:
        `recover` decides it.
        """
        find = find_acknowledged_tail if linearizable else find_tail
        opener = self._opener(name, password)
        return await look(lambda: self._describe_living(name), lambda seen: find(seen, opener))

    async def last_transaction(self, name: str, *, password: bytes = b"") -> int:
        """Return the last transaction id of a log, that of trimmed records included, −1 when it has
        none. As announced; needs no key. Raises as `tail`.
        """
        return await look(
            lambda: self._describe_living(name),
            lambda seen: find_last_transaction(self._catalog, seen, password),
        )

    async def describe(self, name: str) -> LogManifest:
        """Return a log's manifest, also of one that is being deleted. Raises `NoSuchLogError`."""
        return (await self._record(name).read())[0]

    async def _describe_living(self, name: str) -> LogManifest:
        """Return the manifest of a log that is there for readers. Raises `NoSuchLogError`."""
        manifest = await self.describe(name)
        if manifest.retired:
            raise NoSuchLogError(name)
        return manifest

    async def snapshot(
        self, name: str, *, password: bytes = b"", bounds: Bounds = EVERYTHING
    ) -> Sequence[Span]:
        """Return what a reader can see of a log now, cut for reading in parallel (snapshot.py).

        Never fences. Raises `NoSuchLogError`, `UnauthorizedError`, and what `take_snapshot` does.
        """
        return await take_snapshot(
            name, self._catalog, self.describe, password=password, bounds=bounds
        )

    def read_span(
        self, span: Span, *, password: bytes = b"", keyring: Keyring | None = None
    ) -> AsyncGenerator[Slice, None]:
        """Yield the batches of a span, whoever took the snapshot (`span.read_span_anywhere`)."""
        return read_span_anywhere(
            self._catalog, span, self.describe, password=password, keyring=keyring
        )

    async def create(self, name: str, settings: Mapping[str, str] | None = None) -> LogManifest:
        """Create an empty log, with settings (`SETTINGS`) that hold before anybody leads it.

        Not needed to write one: `open` creates what it does not find. Raises `LogExistsError`, and
        `ConfigurationError` for a setting that makes no sense.
        """
        log_id = self._new_id()
        new = LogManifest(name, log_id, int(self._clock() * 1000)).set_settings(settings or {})
        LogOptions().with_settings(new.settings)

        def edit(found: LogManifest | None) -> LogManifest:
            if found is not None and found.log_id != log_id:
                raise LogExistsError(name)
            return found or new

        return await self._record(name).edit(edit)

    async def list(self) -> list[str]:
        """Return the names of all logs, sorted."""
        return names_of(await self._store.children(LOGS))

    def watch(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield the names of all logs now, and again whenever logs came or went (watching.py)."""
        return watch_names(self._store, self._rng)

    def watch_log(self, name: str) -> AsyncGenerator[LogManifest, None]:
        """Yield a log's manifest now, and again whenever it is another, until the log is deleted.

        Raises `NoSuchLogError` when there is no such log to begin with.
        """
        return watch_manifest(self._record(name), self._rng)

    async def set_settings(self, name: str, settings: Mapping[str, str]) -> LogManifest:
        """Store options that hold for every leader of the log, the present one too (`SETTINGS`).

        Those set before stay as they are; the value "" takes one back. Raises `ConfigurationError`
        for a setting that makes no sense, `NoSuchLogError`.
        """

        def change(manifest: LogManifest) -> LogManifest:
            changed = manifest.set_settings(settings)
            LogOptions().with_settings(changed.settings)
            return changed

        return await self._edit(name, change)

    async def trim(
        self,
        name: str,
        before: Position | int,
        *,
        password: bytes = b"",
        log_id: str | None = None,
    ) -> None:
        """Remove every record before a position or offset; before `LATEST`, all that are confirmed.

        The leader, if there is one, is not disturbed. `log_id` is that of the log which the place
        is from. Raises `NoSuchLogError`, `LogReplacedError` when there is another log of its name,
        `InvalidRequestError` when the log has not reached that place, and what reading does.
        """
        opener = self._opener(name, password)
        await trim_log(self._record(name), self._catalog, before, opener, log_id)

    async def delete(
        self,
        name: str,
        *,
        password: bytes = b"",
        forget_tiers: Collection[str] = (),
    ) -> None:
        """Delete a log with everything in it. A leader is deposed, readers get `NoSuchLogError`.

        Its cursors, its jobs, its files and the snapshots of a service go with it; files in
        `forget_tiers` stay. Can be repeated after a failure. Raises `NoSuchLogError`,
        `InvalidRequestError` for a place that is not a tier of the log, `ColdTierError` for one
        that does not answer, and errors of recovery.
        """
        record, cursors, adoption = self._record(name), self.cursors(name), self.adoption(name)
        attached = self._attachments(name)
        await delete_log(record, self._catalog, cursors, adoption, password, attached, forget_tiers)

    async def rebuild(self, name: str, *, password: bytes = b"") -> LogManifest:
        """Make the manifest of a log whose record is lost, from the labels of its ledgers.

        Open ledgers are recovered: a leader that still lives is deposed. The epoch is above all
        that were ever handed out. Where no record is left it is another log, with a `log_id` of its
        own: nothing says which offsets were given away. Raises `ManifestExistsError` when the log
        has a manifest, `NoSuchLogError` when no ledger is labelled with its name, `ConflictError`
        when somebody deleted it again at once.
        """
        now_ms = int(self._clock() * 1000)
        return await rebuild_log(
            self._record(name), self._catalog, password, now_ms, self._new_id()
        )

    async def sweep(self) -> Sequence[LedgerId]:
        """Delete the ledgers of logs that no log lists, nor ever will, and return them.

        One with records stays where its log has no manifest: that may be lost (`unlisted`).
        """
        orphans = await find_orphans(self._catalog, self.describe, int(self._clock() * 1000))
        for ledger in orphans:
            with suppress(NoSuchLedgerError):
                await self._catalog.delete(ledger)
        return orphans

    async def unlisted(self) -> Mapping[str, Sequence[LedgerId]]:
        """Return, by log, closed ledgers with records whose log has no manifest: `rebuild` makes it
        of them.
        """
        return await find_unlisted(self._catalog, self.describe)

    async def sweep_files(self) -> Sequence[str]:
        """Delete files of cold segments that no log names, nor ever will, and return their URIs.

        A log whose tier fails keeps no other from being swept. Raises `ConfigurationError` where
        pyarrow is missing, and `ColdTierError`.
        """
        return await sweep_each([self.offload(name) for name in await self.list()])

    async def _edit(self, name: str, change: Callable[[LogManifest], LogManifest]) -> LogManifest:
        def edit(manifest: LogManifest | None) -> LogManifest:
            if manifest is None:
                raise NoSuchLogError(name)
            return change(manifest)

        return await self._record(name).edit(edit)
