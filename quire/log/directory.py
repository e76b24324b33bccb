"""The logs of a cluster: create, open for writing, read, describe, watch, trim, list, delete."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from random import Random

from quire.aio.retry import retry
from quire.checked import given_or_default
from quire.entry import LedgerId
from quire.errors import InvalidRequestError, LogExistsError, NoSuchLedgerError, NoSuchLogError
from quire.ledger.catalog import LedgerCatalog
from quire.log.leader.log import Log
from quire.log.leader.patrol import Patrol
from quire.log.leader.producer_state import Restoration
from quire.log.leader.resting import Desk
from quire.log.leader.takeover import TakeOver
from quire.log.leader.traced import kind_of_log
from quire.log.maintenance.cursors import LogCursors
from quire.log.maintenance.deletion import Attachment, Takeover, delete_log
from quire.log.maintenance.ingest import Ingest
from quire.log.maintenance.offload import Offload, gc_each
from quire.log.maintenance.orphans import find_unlisted, rebuild_log
from quire.log.maintenance.retention import Floor
from quire.log.maintenance.sweeping import sweep_logs
from quire.log.maintenance.trimming import trim_log
from quire.log.manifest.clocks import Clocks
from quire.log.manifest.holder import Process
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions, as_stored, of_log
from quire.log.manifest.record import ManifestRecord
from quire.log.manifest.recovery import check_settings, find_last_txid, recover_open_segments
from quire.log.manifest.watching import names_of, watch_manifest, watch_names
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.gaps import OnGap
from quire.log.reading.reader import LogReader
from quire.log.reading.search import LogEnd, OpenSegment, find_acknowledged_tail, find_tail, look
from quire.log.reading.seek import check_left, first_offset
from quire.log.reading.segment_reader import open_segment
from quire.log.reading.snapshot import take_snapshot
from quire.log.reading.span import Slice, Span, read_span_anywhere
from quire.log.reading.start import Threshold
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, AtCursor, Position, Start
from quire.log.segment_store.ledgers import LedgerSegments
from quire.log.segment_store.port import SegmentStore
from quire.metastore.cluster import Level
from quire.metastore.fence import Fence
from quire.metastore.layout import LOGS
from quire.metastore.store import MetadataStore
from quire.metrics.meter import SILENT_METER, ClientMeter, timed
from quire.steady import SteadyClock, own_clock
from quire.tracing.spans import EPOCH, LOG, TAKE_OVER


class LogDirectory:
    """All logs in one metadata store. Stateless: any number of directories may exist at a time.

    Args:
        store: the metadata store that holds the manifests.
        catalog: the ledgers of the cluster, which a gc and a rebuild look through.
        segments: holds the segments of the logs; by default the ledgers of `catalog` do.
        rng: source of identities and of jitter.
        clock: Unix time in seconds, for the timestamps of records and segments.
        steady: a clock that only goes forward; by default this object makes its own.
        attachments: returns the data that other layers keep beside a log; it is deleted with it.

    Guarantees:
        Reading, describing and watching never fence a leader and never change a log. `open`,
        `recover` and `rebuild` fence the present leader.
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
        segments: SegmentStore | None = None,
        meter: ClientMeter = SILENT_METER,
        level: Level | None = None,
        process: Process | None = None,
    ) -> None:
        self._store, self._attachments, self._catalog = store, attachments, catalog
        self._segments: SegmentStore = segments or LedgerSegments(catalog)
        self._meter, self._process, self._rng, self._clock = meter, process, rng, clock
        self._level, self._clocks = level or Level(store), Clocks(clock, steady or own_clock(rng))
        shared = self._segments, rng, self._clocks, self.cursors, self._opener
        self._desk = Desk(*shared, Patrol(store), copy_context())

    def _new_id(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def _record(self, name: str) -> ManifestRecord:
        return ManifestRecord(self._store, name, self._rng, self._level)

    async def open(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        is_leader: Callable[[], bool] = lambda: True,
        floor: Floor | None = None,
    ) -> Log:
        """Take a log over for writing. Creates the log if it does not exist.

        Args:
            name: name of the log.
            options: options of this leader; by default `LogOptions()`.
            is_leader: called before every attempt. Pass the answer of the election, so that a past
                leader stops disturbing the present one.
            floor: asked before retention trims: the first record that the caller still needs.

        Returns:
            The leader's handle, with its tasks started.

        Raises:
            LogSealedError: the log is sealed.
            LeadershipLostError: `is_leader` returned False.
            UnauthorizedError: the password is wrong. No leader was fenced.
            DecryptionError: a key for the memory of producers is missing. No leader was fenced.
            ConfigurationError: pyarrow, which a cold segment needs, is missing. No leader was
                fenced.
            RetryError: `LogOptions.open_timeout` seconds passed without success; likewise the other
                transient errors of retry.py.

        Cancellation: the previous leader may be fenced already. Opening the log again is safe.

        Guarantees: the previous leader is deposed before the handle is returned: it can confirm no
            more records (docs/protocol.md, "Logs").
        """
        options, spans = given_or_default(options, LogOptions), self._meter.spans
        record, opener = self._record(name), self._opener(name, options.password, options.keyring)
        restoration = Restoration(partial(self.find, name), opener)
        take_over = TakeOver(
            *(record, self._segments, options),
            rng=self._rng,
            clock=self._clock,
            rehearse=restoration.advance,
            is_leader=is_leader,
            process=self._process,
        )
        with spans.begin(TAKE_OVER, {LOG: name}) as note, timed(self._meter.took_over):
            tenure = await take_over.run()
            note(EPOCH, tenure.manifest.epoch)
        try:
            producers = await retry(restoration.finish, self._rng, timeout=options.open_timeout)
        except BaseException:
            tenure.writer.abandon()
            raise
        log = kind_of_log(spans)(
            *(self._desk, record, options),
            producers=producers,
            tenure=tenure,
            floor=floor,
            spans=spans,
        )
        log._begin()
        self._meter.watch(log)
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
        """Return a reader that starts at a given place in a log.

        Args:
            start: a position, offset, time, txid or cursor, or `LATEST`: the end as of now.
            follow: continue until the log is sealed. Otherwise end at the last confirmed record.
            wait_for_log: a follower waits for a missing log, or for the next one after a deletion.
            log_id: identity of the position's log; the reader does not wait for it.
            on_gap: called for each gap of lost records in sealed segments; then the reader
                continues after it (gaps.py). Without it, lost records are an error.
            keyring: opens encrypted batches.
            recover: `recover` the log first: shows all acknowledged records, deposes a leader.

        Raises:
            NoSuchLogError: the log does not exist, and the reader does not wait for it.
            NoSuchCursorError: the cursor does not exist.
            InvalidRequestError: `recover` with `follow`, a negative number, a time without zone.
            LogReplacedError: from iteration, if `log_id` is given and another log has the name.
            QuireError: with `LATEST`, the errors of `tail`.

        Guarantees: a reader at `LATEST` misses no record that is appended after this call.

        Cancellation: safe; without `recover` nothing changed.
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
            await self._find_living(name)
        if start == LATEST:
            try:
                start, log_id = await self._find_end(name, log_id, password)
            except NoSuchLogError:
                if not is_awaited:
                    raise
                start = BEGINNING
        return LogReader(
            *(self._record(name), self._segments),
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
        """Close the ledgers that are still open, so that a plain read sees every acknowledged
        record. Fences a live leader: its next append fails.

        Safe to repeat. The log stays as it is, and a new leader can continue it.

        Raises:
            NoSuchLogError: the log does not exist.
            UnauthorizedError: the password is wrong.
            UnreadableError: too few bookies answer to decide how a ledger ends.
        """
        manifest = await self._find_living(name)
        try:
            await recover_open_segments(self._segments, manifest, password)
        except NoSuchLedgerError:  # trimmed, or taken over, since the manifest was read
            if (await self._find_living(name)).open_segments == manifest.open_segments:
                raise

    async def _find_end(
        self, name: str, log_id: str | None, password: bytes
    ) -> tuple[Position, str]:
        """Return where a log ends now, and which log that is. Raises `NoSuchLogError`."""
        opener = self._opener(name, password)

        async def find(seen: LogManifest) -> tuple[Position, str]:
            return (await find_tail(seen, opener)).position, log_id or seen.log_id

        return await look(lambda: self._find_living(name), find)

    def cursors(
        self, name: str, *, password: bytes = b"", fence: Fence | None = None
    ) -> LogCursors:
        """See `Client.log_cursors`."""
        opener = self._opener(name, password)
        return LogCursors(self._store, self._record(name), opener, self._clock, fence)

    def _opener(self, name: str, password: bytes, keyring: Keyring | None = None) -> OpenSegment:
        return partial(
            open_segment,
            self._segments,
            record=self._record(name),
            password=password,
            keyring=keyring,
            follow=False,
        )

    def ingest(self, name: str) -> Ingest:
        """Return the jobs of a log: ledgers written outside it that it ingests (ingest.py)."""
        parts = self._store, self._record(name), self._catalog, self._segments
        return Ingest(*parts, rng=self._rng, clocks=self._clocks)

    def offload(self, name: str) -> Offload:
        """Return what moves a log's closed segments into Parquet files (offload.py)."""
        return Offload(self._record(name), self._segments, rng=self._rng)

    async def tail(self, name: str, *, linearizable: bool = False, password: bytes = b"") -> LogEnd:
        """Return the earliest position of the next record, and its offset. Never fences.

        `Client.log_end` has the terms. Raises `NoSuchLogError`, also while the log is being
        deleted, and `UnreadableError`.
        """
        find = find_acknowledged_tail if linearizable else find_tail
        opener = self._opener(name, password)
        return await look(lambda: self._find_living(name), lambda seen: find(seen, opener))

    async def first_offset(self, name: str, *, password: bytes = b"") -> int:
        """See `seek.first_offset`. Raises as `tail`."""
        opener = self._opener(name, password)
        return await look(lambda: self._find_living(name), lambda seen: first_offset(seen, opener))

    async def last_txid(self, name: str, *, password: bytes = b"") -> int:
        """Return the last txid of a log, ids of trimmed records included; −1 for a log without
        txids. The answer is the id announced last, and needs no key. Raises as `tail`.
        """
        return await look(
            lambda: self._find_living(name),
            lambda seen: find_last_txid(self._segments, seen, password),
        )

    async def check_left(self, name: str, start: Position | int, *, password: bytes = b"") -> None:
        """See `seek.check_left`. Raises as `tail` besides."""
        opener = self._opener(name, password)
        await look(lambda: self._find_living(name), lambda seen: check_left(seen, start, opener))

    async def describe(self, name: str) -> LogManifest:
        """Return a log's manifest with all segments, also during a deletion. Raises
        `NoSuchLogError`.
        """
        return await self._record(name).read_whole()

    async def find(self, name: str) -> LogManifest:
        """Return a log's manifest; pages are fetched as needed. Raises `NoSuchLogError`."""
        return (await self._record(name).read())[0]

    async def _find_living(self, name: str) -> LogManifest:
        """Return the manifest of a log that is there for readers. Raises `NoSuchLogError`."""
        manifest = await self.find(name)
        if manifest.retired:
            raise NoSuchLogError(name)
        return manifest

    async def snapshot(
        self, name: str, *, password: bytes = b"", bounds: Bounds = EVERYTHING
    ) -> Sequence[Span]:
        """Return the records that a reader can see now, cut into spans for parallel reading
        (snapshot.py).

        Never fences. Raises `NoSuchLogError`, `UnauthorizedError`, and as `take_snapshot`.
        """
        parts = name, self._segments, self.find
        return await take_snapshot(*parts, password=password, bounds=bounds)

    def read_span(
        self, span: Span, *, password: bytes = b"", keyring: Keyring | None = None
    ) -> AsyncGenerator[Slice, None]:
        """Yield the batches of a span, also of a snapshot that another process took
        (`span.read_span_anywhere`).
        """
        return read_span_anywhere(
            self._segments, span, self.find, password=password, keyring=keyring
        )

    async def create(self, name: str, settings: Mapping[str, str] | None = None) -> LogManifest:
        """Create an empty log, with options (`STORED_OPTIONS`) that hold from its first leader on.

        Optional before writing: `open` creates a missing log. Raises `LogExistsError` if the log
        exists, and `ConfigurationError` for an invalid option.
        """
        log_id, stored = self._new_id(), as_stored(settings or {})
        new = LogManifest(name, log_id, int(self._clock() * 1000)).set_options(stored)
        await check_settings(self._catalog, new.settings)

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
        """Yield a log's manifest now, and again after every change, until the log is deleted.

        Raises `NoSuchLogError` if the log does not exist at the start.
        """
        return watch_manifest(self._record(name), self._rng)

    async def set_options(self, name: str, settings: Mapping[str, str]) -> LogManifest:
        """Store options that hold for every leader of the log, the present one too (`SETTINGS`).

        Those set before stay as they are; the value "" takes one back. Raises `ConfigurationError`
        for an option that makes no sense, `NoSuchLogError`.
        """
        stored = as_stored(settings)
        await check_settings(self._catalog, stored)

        def change(manifest: LogManifest) -> LogManifest:
            changed = manifest.set_options(stored)
            of_log(changed.settings)
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
        """Remove every record before a position or offset; with `LATEST`, all confirmed records.

        Does not disturb the leader. `log_id` is the identity of the log that the place belongs to.

        Raises:
            NoSuchLogError: the log does not exist.
            LogReplacedError: another log has the name now.
            InvalidRequestError: the log has not reached that place.
            QuireError: the errors of reading, while the place is looked up.
        """
        opener = self._opener(name, password)
        await trim_log(self._record(name), self._segments, before, opener, log_id)

    async def delete(
        self,
        name: str,
        *,
        password: bytes = b"",
        forget_tiers: Collection[str] = (),
        last: Takeover | None = None,
    ) -> None:
        """See `Client.delete_log`. With `last` only while that is the log's last takeover."""
        record, cursors, ingest = self._record(name), self.cursors(name), self.ingest(name)
        given = password, self._attachments(name), forget_tiers, last
        await delete_log(record, self._segments, cursors, ingest, *given)

    async def rebuild(
        self, name: str, *, password: bytes = b"", log_id: str | None = None
    ) -> LogManifest:
        """Recreate the manifest of a log that lost it, from the labels of its ledgers.

        Recovers open ledgers, which deposes a live leader. The epoch is above every epoch handed
        out before. If no record is left, the result is a new log with its own `log_id`, because
        nothing tells which offsets were handed out. No clock decides anything.

        Args:
            name: the log's name.
            password: the password of its ledgers.
            log_id: the identity of the log to rebuild, where several logs of this name have
                records. Nothing tells which of them was the last.

        Raises:
            ManifestExistsError: the log has a manifest.
            NoSuchLogError: no ledger is labelled with the name (and `log_id`).
            CorruptRecordError: several logs of this name have records, and no `log_id` was given;
                or ledgers are missing, or cannot be placed.
            ConflictError: another client deleted the new manifest at once.
        """
        now_ms = int(self._clock() * 1000)
        return await rebuild_log(
            self._record(name), self._catalog, password, now_ms, self._new_id(), log_id
        )

    async def gc(self) -> Sequence[LedgerId]:
        """Delete the ledgers of logs that no log lists, nor ever will, and return them; likewise
        pages that no manifest names.

        One with records stays where its log has no manifest: that may be lost (`unlisted`).
        """
        now_ms = int(self._clock() * 1000)
        return await sweep_logs(self._store, self._catalog, self.list, self._record, now_ms)

    async def unlisted(self) -> Mapping[str, Sequence[LedgerId]]:
        """Return, by log, the closed ledgers with records that belong to a log without a manifest.
        `rebuild` recreates the manifest from them.
        """
        return await find_unlisted(self._catalog, self.find)

    async def gc_files(self) -> Sequence[str]:
        """Delete files of cold segments that no log names or will name, and return their URIs.

        The failing tier of one log does not stop the gc of the others. Raises
        `ConfigurationError` if pyarrow is missing, and `ColdTierError`.
        """
        return await gc_each([self.offload(name) for name in await self.list()])

    async def _edit(self, name: str, change: Callable[[LogManifest], LogManifest]) -> LogManifest:
        def edit(manifest: LogManifest | None) -> LogManifest:
            if manifest is None:
                raise NoSuchLogError(name)
            return change(manifest)

        return await self._record(name).edit(edit)
