"""A leader's handle that rests: it keeps what its parts are made of, and not the parts.

    parts ──rest_seconds without a record──→ at rest ──a call, or its time──→ parts

The parts are the chain, the pipeline, the roller, the options, and five tasks: some forty
kilobytes, with the writer of the ledger. A process with many logs that are seldom written keeps
most of them at rest. A call that needs a part makes all of them, without asking any bookie or the
metadata store.

A handle rests only while it has nothing to do: every record is decided, its ledger can rest
(`quire.ledger.resting`), no roll and no edit of the manifest is under way or wanted, and no caller
waits. It wakes by itself for the roll by age and for retention, if there is any. One task watches
the manifests of all leaders at rest (patrol.py), and wakes those whose log has other options or
another leader. That may be some seconds late, and does no harm: a leader at rest confirms nothing
(docs/protocol.md, "Logs").
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, Final

from quire.aio.gate import Gate
from quire.aio.home import Home
from quire.aio.tasks import Tasks
from quire.log.leader.life import Life
from quire.log.leader.patrol import Patrol
from quire.log.leader.pipeline import Pipeline
from quire.log.leader.roller import Roller
from quire.log.leader.segments import Chain, LiveSegment
from quire.log.manifest.clocks import Clocks
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.manifest.record import ManifestRecord
from quire.log.records.position import Position
from quire.log.records.producers import Producers
from quire.log.segment_store.port import RestingSink, SegmentStore
from quire.tracing.spans import Spans

PARTS: Final = ("_live", "_chain", "_pipeline", "_roller", "_tasks")


@dataclass(frozen=True, slots=True)
class RestingLog:
    """What the parts of a leader are made of again."""

    manifest: LogManifest
    current: LiveSegment
    """Without its writer."""
    sink: RestingSink
    begun: float
    """Loop time at which the segment began."""
    options: LogOptions
    settings: Mapping[str, str]
    """The stored options in them."""
    seen: int | None
    """The version of the manifest that was seen last."""


class RestingParts:
    """The parts of a leader's handle, and their rest. A base of `Log`, which starts the tasks."""

    _life: Life
    _live: LiveOptions
    _chain: Chain
    _pipeline: Pipeline
    _roller: Roller
    _tasks: Tasks

    def __init__(
        self,
        record: ManifestRecord,
        segments: SegmentStore,
        options: LogOptions,
        *,
        rng: Random,
        clocks: Clocks,
        producers: Producers,
        spans: Spans,
        patrol: Patrol,
    ) -> None:
        self._record, self._segments, self._given = record, segments, options
        self._rng, self._clocks, self._producers, self._spans = rng, clocks, producers, spans
        self._patrol = patrol
        self._home = Home()
        self._life = Life()
        self._over = Gate()
        self._resting: RestingLog | None = None
        self._kept_at: float | None = None
        """Loop time of the last look for retention; None while one is due or under way."""
        self._timer: asyncio.TimerHandle | None = None
        """Looks whether the handle may rest; wakes it while it rests."""

    def __getattr__(self, name: str) -> Any:
        """Wake a handle at rest for the part that a call needs."""
        if name not in PARTS or self.__dict__.get("_resting") is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._home.check(self)
        assert self._given.rest_seconds is not None, "it rests"
        self._wake(self._given.rest_seconds)
        return self.__dict__[name]

    def _make(
        self,
        manifest: LogManifest,
        settings: Mapping[str, str],
        current: LiveSegment,
        begun: float,
    ) -> None:
        """Make the parts. The tasks are not started."""
        live = LiveOptions(self._record.name, self._given)
        live.follow(settings)
        chain = Chain(self._record, self._segments, live, self._clocks, manifest, current)
        pipeline = Pipeline(
            *(chain, live, self._life),
            rng=self._rng,
            on_fill=lambda share: roller.fill(share),
            on_switch=lambda: roller.switched(),
            producers=self._producers,
            locate=self._locate,
        )
        roller = Roller(chain, self._rng, live, pipeline.nudge, begun, self._spans)
        live.on_change(roller.age_changed)
        live.on_change(pipeline.options_changed)
        self._live, self._chain, self._pipeline, self._roller = live, chain, pipeline, roller
        self._tasks = Tasks(self._fail)

    async def _locate(self, offset: int) -> Position:
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        raise NotImplementedError

    def _start(self, pause: float) -> None:
        """Start the tasks; those that look at the manifest begin after a pause, in seconds."""
        raise NotImplementedError

    # Resting.

    def _look_for_rest(self) -> None:
        """Rest in some time if no record is submitted in between; else look again."""
        seconds = self._given.rest_seconds
        if seconds is not None:
            loop, offset = asyncio.get_running_loop(), self._pipeline.next_offset
            self._timer = loop.call_later(seconds, self._rest_if_unused, offset)

    def _rest_if_unused(self, offset: int) -> None:
        is_used = self._life.refusal is not None or self._pipeline.next_offset != offset
        if is_used or not self._rest():
            self._look_for_rest()

    def _rest(self) -> bool:
        """Take the parts down, if none of them has anything to do; return whether that is so."""
        chain, loop = self._chain, asyncio.get_running_loop()
        parts = chain.may_rest and self._pipeline.may_rest and self._roller.may_rest
        wakes_at = self._wakes_at(loop.time())
        if not parts or wakes_at is None or self._over.is_awaited:
            return False
        current = chain.current
        sink = self._segments.rest(current.writer)
        if sink is None:
            return False
        current.first_offset = self._pipeline.next_offset - current.confirmed.records
        del current.writer
        self._resting = RestingLog(
            chain.manifest,
            current,
            sink,
            self._roller.begun,
            self._live.now,
            self._live.settings,
            self._record.seen,
        )
        self._roller.rest()
        self._live.call_nobody()
        self._tasks.cancel()
        for name in PARTS:
            delattr(self, name)
        self._timer = None if wakes_at == inf else loop.call_at(wakes_at, self._rouse)
        self._patrol.watch(self._record.path, self)
        return True

    def _wakes_at(self, now: float) -> float | None:
        """Return the loop time at which the handle has something to do; None if that is soon."""
        assert self._given.rest_seconds is not None, "it looks for rest"
        due = [inf]
        options = self._live.now
        if self._roller.due_at is not None:
            due.append(self._roller.due_at)
        if self._kept_at is None:
            return None
        if options.retention_seconds is not None or options.retention_bytes is not None:
            due.append(self._kept_at + options.retention_interval)
        return min(due) if min(due) > now + self._given.rest_seconds else None

    def _wake(self, pause: float) -> None:
        """Make the parts again, and start the tasks as `_start` does, unless the handle ended."""
        resting, self._resting = self._resting, None
        assert resting is not None, "it rests"
        self._stay()
        resting.current.writer = resting.sink.wake()
        self._make(resting.manifest, resting.settings, resting.current, resting.begun)
        if self._life.has_ended:
            self._chain.abandon()
        else:
            self._start(pause)

    def _rouse(self) -> None:
        """Wake, and look at the manifest."""
        if self._resting is not None:
            self._wake(0.0)

    @property
    def _seen(self) -> int | None:
        return None if self._resting is None else self._resting.seen

    def _stay(self) -> None:
        """Neither rest nor wake by itself."""
        self._patrol.forget(self._record.path, self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
