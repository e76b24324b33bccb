"""Opening a log for writing: how one leader's epoch ends and the next one's begins.

    read the manifest → check that the log can be led → recover its open ledgers, at most two
      → create a ledger
      → in one compare-and-set: epoch + 1, seal the recovered segments, append the new one → write

Why it is safe: a segment that the manifest calls sealed has a closed ledger, so once the open
segments are recovered no older leader can append to any ledger. The change is applied only to a
manifest with the epoch and the open segments that were recovered. So when it succeeds, no other
client has added a ledger in between, and the previous leader finds the epoch changed. No record
is accepted before it succeeds.

A trim in between is merged. Any other change is a lost race: give up the attempt, pause, start
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from random import Random

from quire.aio.retry import BACKOFF, TRANSIENT, retry
from quire.checked import check_callable
from quire.entry import LedgerId
from quire.errors import (
    ConflictError,
    DecryptionError,
    LeadershipLostError,
    LogFullError,
    MissingPageError,
    NoSuchLedgerError,
    QuireError,
)
from quire.log.manifest.capacity import check_takeover
from quire.log.manifest.holder import Process
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.options import READ_NEEDS_PASSWORD, LogOptions
from quire.log.manifest.record import ManifestRecord, once
from quire.log.manifest.recovery import (
    ATTEMPTS_MAX,
    KEY_LABEL,
    check_password,
    check_writable,
    recover_open_segments,
    segment_options,
)
from quire.log.segment_store.port import (
    SegmentCapability,
    SegmentOptions,
    SegmentSink,
    SegmentStore,
)
from quire.metastore.levels import HOLDER_LEVEL
from quire.requests import requesting

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tenure:
    """The result of a takeover: the manifest, and an empty segment in it for this leader to
    write.
    """

    manifest: LogManifest
    segment: Segment
    writer: SegmentSink


class LostRaceError(Exception):
    """Another leader changed the log since it was read; the manifest will never list our ledger.

    Never leaves this module.
    """


class UnsettledRaceError(LostRaceError):
    """It is unknown whether this attempt created the log. Its ledger stays: if the creation is
    still applied, the log lists the ledger. Otherwise a gc finds it.
    """


def _shape(manifest: LogManifest | None) -> tuple[object, ...] | None:
    """Return the part of a manifest that must not change during a takeover. Sealed segments and
    the trim point may change.
    """
    if manifest is None:
        return None
    ledgers = tuple(each.ledger for each in manifest.open_segments)
    return manifest.log_id, manifest.epoch, manifest.next_segment, ledgers, manifest.sealed


class TakeOver:
    """One attempt to become a log's leader, repeated until it is decided."""

    def __init__(
        self,
        record: ManifestRecord,
        segments: SegmentStore,
        options: LogOptions,
        *,
        rng: Random,
        clock: Callable[[], float],
        rehearse: Callable[[LogManifest], Awaitable[object]],
        is_leader: Callable[[], bool] = lambda: True,
        process: Process | None = None,
    ) -> None:
        """`rehearse` reads everything that the leader will have to read, as far as it exists
        already. `process` is named in the manifest.
        """
        check_callable(is_leader, "is_leader")
        self._process = process
        self._record = record
        self._segments = segments
        self._options = options
        self._rng = rng
        self._clock = clock
        self._rehearse = rehearse
        self._is_leader = is_leader

    async def run(self) -> Tenure:
        """Take the log over, creating it when it does not exist.

        Raises `LogFullError` before the present leader is fenced; `LeadershipLostError` when
        `is_leader` says no before an attempt; `LogSealedError`;
        `ConfigurationError` when the log's settings are impossible with the options given, or what
        `rehearse` reads needs something that is missing; `UnauthorizedError`; `DecryptionError`;
        the last transient error, or `ConflictError`, when `open_timeout` is over: with
        `NotEnoughBookiesError` no leader was deposed, unless bookies failed meanwhile. Cancelling
        may leave an empty ledger that no log lists.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.open_timeout
        for attempt in range(ATTEMPTS_MAX):
            if not self._is_leader():
                raise LeadershipLostError(self._record.name, "it ended during the takeover")
            try:
                return await self._attempt(deadline)
            except LostRaceError as error:
                _log.debug("log %r: takeover begins again: %s", self._record.name, error)
                if loop.time() >= deadline:
                    break
            except LogFullError:
                raise  # time does not mend it
            except TRANSIENT as error:
                _log.debug("log %r: takeover begins again: %s", self._record.name, error)
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(BACKOFF.seconds(attempt, self._rng))
        raise ConflictError(f"every takeover of log {self._record.name!r} lost to another leader")

    async def _attempt(self, deadline: float) -> Tenure:
        seen, version = await self._record.find()
        if seen is not None:
            check_writable(seen)
            check_takeover(seen)
        base = seen or LogManifest(
            self._record.name, f"{self._rng.getrandbits(128):032x}", self._now_ms()
        )
        options = self._options.with_stored(base.settings)
        floor, named = await self._record.epoch_floor(), await self._named()
        wanted = segment_options(options, base, base.epoch_after(floor), self._segments)
        with requesting():  # one id for all that is asked of bookies
            ends = await self._recover(base, version, wanted)
        writer = await self._segments.create(wanted)
        try:
            manifest = await self._install(seen, base, ends, writer, floor, named, deadline)
        except UnsettledRaceError:
            writer.abandon()
            raise
        except LostRaceError:
            writer.abandon()
            await self._delete_ledger(writer.ledger)
            raise
        except BaseException:
            writer.abandon()
            raise
        segment = manifest.tail
        assert segment is not None
        return Tenure(manifest, segment, writer)

    def _keep(self, manifest: LogManifest) -> LogManifest:
        """Store that reads need the password, if this leader says so and the log says nothing: the
        next leader may not say it, and must not write for every peer.
        """
        if not self._options.read_needs_password or READ_NEEDS_PASSWORD in manifest.settings:
            return manifest
        return manifest.set_options({READ_NEEDS_PASSWORD: "true"})

    async def _named(self) -> Process | None:
        """Return the process that the manifest is to name.

        None at the level before: its programs refuse a manifest with a field that they do not
        know. A level never falls, so the answer holds until the manifest is written.
        """
        if self._process is None or not await self._record.allows(HOLDER_LEVEL):
            return None
        return self._process

    async def _recover(
        self, base: LogManifest, version: int | None, wanted: SegmentOptions
    ) -> dict[int, SegmentEnd]:
        """Recover the open segments, unless a reason is known why the log cannot be led."""
        try:
            await self._check_access(base)
            await self._segments.check_room(wanted)
            return await recover_open_segments(self._segments, base, self._options.password)
        except (NoSuchLedgerError, MissingPageError):
            if (await self._record.find())[1] == version:
                raise
            raise LostRaceError("a ledger was deleted by a newer leader, or trimmed") from None

    async def _check_access(self, base: LogManifest) -> None:
        """Raise before the current leader is fenced, if this process could not lead the log:
        `UnauthorizedError`, `DecryptionError`, and every permanent error of reading the data
        that a leader needs.

        Only announced records can be read. After a transient error the attempt is repeated: a
        leader could not begin either.
        """
        facts = await check_password(self._segments, base, self._options.password)
        if base.tail is not None and facts is not None:
            self._check_key(base, base.tail, facts.labels.get(KEY_LABEL))
        await self._rehearse(base)

    def _check_key(self, base: LogManifest, tail: Segment, key_id: str | None) -> None:
        """The key of the label counts too: batches that are not announced may be under it."""
        keyring = self._options.keyring
        if key_id is not None and (keyring is None or keyring.key(key_id) is None):
            reason = "no keyring was given" if keyring is None else "the keyring has no such key"
            raise DecryptionError(base.name, str(tail.start), key_id, reason)

    async def _install(
        self,
        seen: LogManifest | None,
        base: LogManifest,
        ends: dict[int, SegmentEnd],
        writer: SegmentSink,
        floor: int,
        named: Process | None,
        deadline: float,
    ) -> LogManifest:
        ledger = writer.ledger

        def edit(manifest: LogManifest | None) -> LogManifest:
            if manifest is not None and manifest.lists(ledger):
                return manifest
            if _shape(manifest) != _shape(seen):
                raise LostRaceError(f"log {self._record.name!r} was taken over by another leader")
            taken = self._keep(manifest or base).take_over(ends, ledger, self._now_ms(), floor)
            if named is None:
                return taken
            return replace(taken, holder=named.takes(taken.epoch, self._now_ms()))

        left = max(0.0, deadline - asyncio.get_running_loop().time())
        change = once(edit, UnsettledRaceError(f"log {self._record.name!r} may have been deleted"))
        # A gc that closed the ledger, or deleted it, makes the creation fail (orphans.py).
        # A store without transactions is not looked through by a gc.
        can_guard = SegmentCapability.TRANSACTIONS in self._segments.capabilities
        along = writer.guard() if can_guard else ()
        manifest = await retry(
            lambda: self._record.edit(change, along=along), self._rng, timeout=left
        )
        if manifest.tail is None or manifest.tail.ledger != ledger:
            raise ConflictError(f"log {self._record.name!r} was taken over again at once")
        return manifest

    async def _delete_ledger(self, ledger: LedgerId) -> None:
        """Delete a ledger if that is possible now: an empty ledger that no manifest lists does
        no harm.
        """
        try:
            await self._segments.delete(ledger)
        except QuireError:
            return

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
