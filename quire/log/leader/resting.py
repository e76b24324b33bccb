"""A leader's handle that rests: it keeps the values for its parts, not the parts.

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
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from quire.aio.home import home_here
from quire.aio.once import Once
from quire.aio.tasks import Tasks
from quire.log.leader.life import Life
from quire.log.leader.patrol import Patrol
from quire.log.leader.pipeline import Pipeline
from quire.log.leader.roller import Roller
from quire.log.leader.segments import Chain, LiveSegment
from quire.log.maintenance.cursors import LogCursors
from quire.log.maintenance.page_sweep import SWEEP_SECONDS
from quire.log.manifest.clocks import Clocks
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.options import LogOptions
from quire.log.manifest.record import ManifestRecord
from quire.log.reading.search import OpenSegment
from quire.log.records.position import Position
from quire.log.records.producers import Producers
from quire.log.segment_store.port import RestingSink, SegmentStore
from quire.tracing.spans import Spans

LOOKS_MAX: Final = 1000
"""Looks of another thread at a handle that rests and wakes meanwhile: one or two are enough."""

NO_PRODUCERS: Final = Producers()
"""Of all handles at rest without producers."""

PARTS: Final = ("_live", "_chain", "_pipeline", "_roller", "_tasks", "_looks")


@dataclass(frozen=True, slots=True)
class RestingLog:
    """The values for the parts of a leader."""

    manifest: LogManifest
    current: LiveSegment
    """Without its writer."""
    sink: RestingSink
    warns_at: float
    """See `Roller.warns_at`."""
    begun: float
    """Loop time when the segment began."""
    live: LiveOptions
    due_at: float
    """Loop time of the leader's next duty."""
    seen: int | None
    """The version of the manifest that it obeyed last."""

    @property
    def next_offset(self) -> int:
        """See `Pipeline.next_offset`."""
        return self.current.next_offset

    @property
    def now(self) -> LogOptions:
        """See `LiveOptions.now`."""
        return self.live.now


class Desk(NamedTuple):
    """The objects that all leaders of one directory use."""

    segments: SegmentStore
    rng: Random
    clocks: Clocks
    cursors: Callable[..., LogCursors]
    """See `LogDirectory.cursors`."""
    opener: Callable[[str, bytes], OpenSegment]
    """Gives what opens segments of a log, by its name and password."""
    patrol: Patrol
    context: Context
    """The variables of whatever no call of a user waits for: a log at rest keeps no request."""


class RestingParts:
    """The parts of a leader's handle, and their rest. A base of `Log`, which starts the tasks."""

    _life: Life
    _live: LiveOptions
    _chain: Chain
    _pipeline: Pipeline
    _roller: Roller
    _tasks: Tasks
    _looks: bool
    """Whether the tasks that look at the manifest were started."""

    def __init__(
        self,
        desk: Desk,
        record: ManifestRecord,
        options: LogOptions,
        producers: Producers,
        spans: Spans,
    ) -> None:
        self._desk, self._record, self._given = desk, record, options
        self._producers = producers
        self._spans = spans
        self._home = home_here()
        self._life = Life()
        self._over = Once()
        self._resting: RestingLog | None = None
        self._kept_at: float | None = None
        """Loop time of the last look for retention; None while one is due or under way."""
        self._timer: asyncio.TimerHandle | None = None
        """Looks whether the handle may rest."""

    def __getattr__(self, name: str) -> Any:
        """Wake a handle at rest for the part that a call needs."""
        if name not in PARTS or getattr(self, "_resting", None) is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._home.check(self)
        self._wake()
        return object.__getattribute__(self, name)

    def _make(
        self,
        manifest: LogManifest,
        live: LiveOptions,
        current: LiveSegment,
        begun: float,
        seen: int | None,
    ) -> None:
        """Make the parts. The tasks are not started."""
        desk, producers = self._desk, self._producers or Producers()
        self._producers = producers
        chain = Chain(self._record, desk.segments, live, desk.clocks, manifest, current, seen)
        pipeline = Pipeline(
            *(chain, live, self._life),
            rng=desk.rng,
            on_fill=lambda share: roller.fill(share),
            on_switch=lambda: roller.switched(),
            producers=producers,
            locate=self._locate,
        )
        roller = Roller(chain, desk.rng, live, pipeline.nudge, begun, self._spans)
        live.on_change(roller.age_changed)
        live.on_change(pipeline.options_changed)
        self._live, self._chain, self._pipeline, self._roller = live, chain, pipeline, roller
        self._tasks = Tasks(self._fail)
        self._looks = False

    async def _locate(self, offset: int) -> Position:
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        raise NotImplementedError

    def _start(self) -> None:
        """Start the tasks that appends need."""
        raise NotImplementedError

    def _start_to_look(self) -> None:
        """Start the tasks that look at the manifest, unless they were started."""
        raise NotImplementedError

    # Resting.

    def _look_for_rest(self) -> None:
        """Rest in some time if no record is submitted in between; else look again."""
        seconds = self._given.rest_seconds
        if seconds is not None:
            loop, offset = asyncio.get_running_loop(), self._pipeline.next_offset
            context = self._desk.context
            self._timer = loop.call_later(seconds, self._rest_if_unused, offset, context=context)

    def _rest_if_unused(self, offset: int) -> None:
        """Look at the manifest from now on if the handle stays awake: the patrol does not."""
        if self._life.refusal is not None:
            return  # it is closing
        if self._pipeline.next_offset != offset or not self._rest():
            self._start_to_look()
            self._look_for_rest()

    def _rest(self) -> bool:
        """Take the parts down, if none of them has anything to do; return whether that is so."""
        chain, loop = self._chain, asyncio.get_running_loop()
        parts = chain.may_rest and self._pipeline.may_rest and self._roller.may_rest
        wakes_at = self._wakes_at(loop.time())
        if not parts or wakes_at is None or self._over.is_awaited:
            return False
        current = chain.current
        sink = self._desk.segments.rest(current.writer)
        if sink is None:
            return False
        current.first_offset = self._pipeline.next_offset - current.confirmed.records
        del current.writer
        self._resting = RestingLog(
            chain.manifest,
            current,
            sink,
            self._roller.warns_at,
            self._roller.begun,
            self._live,
            wakes_at,
            chain.seen,
        )
        self._roller.rest()
        self._live.call_nobody()
        self._tasks.cancel()
        self._record.forget()
        self._producers = self._producers or NO_PRODUCERS
        for name in PARTS:
            delattr(self, name)
        # Without retention nothing waits for a roll: the patrol is punctual enough.
        is_punctual = self._has_retention and wakes_at < inf
        context = self._desk.context
        self._timer = loop.call_at(wakes_at, self._rouse, context=context) if is_punctual else None
        self._desk.patrol.watch(self._record.path, self)
        return True

    def _wakes_at(self, now: float) -> float | None:
        """Return the loop time of the handle's next duty; None if that is soon."""
        assert self._given.rest_seconds is not None, "it looks for rest"
        due = [inf]
        if self._roller.due_at is not None:
            due.append(self._roller.due_at)
        if self._kept_at is None:
            return None
        due.append(self._kept_at + SWEEP_SECONDS)
        if self._has_retention:
            due.append(self._kept_at + self._live.now.retention_interval)
        return min(due) if min(due) > now + self._given.rest_seconds else None

    @property
    def _has_retention(self) -> bool:
        """Whether records go some day. A resting leader counts the time of its log then, too."""
        options: LogOptions = self._at_hand("_live").now
        return options.retention_seconds is not None or options.retention_bytes is not None

    def _wake(self) -> None:
        """Make the parts again, and start tasks, unless the handle ended."""
        self._desk.context.copy().run(self._wake_in_context)

    def _wake_in_context(self) -> None:
        resting = self._resting
        assert resting is not None, "it rests"
        self._cancel_timer()
        current = resting.current
        current.writer = resting.sink.wake()
        self._make(resting.manifest, resting.live, current, resting.begun, resting.seen)
        self._roller.warns_at = resting.warns_at
        self._resting = None  # last: another thread finds a part or this, at any time
        if self._life.has_ended:
            self._chain.abandon()
        else:
            self._start()

    def _rouse(self) -> None:
        """Look at the manifest, from now on. The patrol calls this."""
        if self._life.refusal is not None:
            return
        if self._resting is not None:
            self._wake()
        self._start_to_look()

    def _views(self) -> dict[str, int | None]:
        at_hand: RestingLog | Chain = self._at_hand("_chain")
        views: dict[str, int | None] = {self._record.path: at_hand.seen}
        sink = at_hand.sink if isinstance(at_hand, RestingLog) else at_hand.current.writer
        view = sink.view()
        if view is not None:
            views[view.path] = view.version
        return views

    @property
    def _due_at(self) -> float:
        return inf if self._resting is None else self._resting.due_at

    def _at_hand(self, part: str) -> Any:
        """Return a part, or the value that stands for it at rest. It wakes nothing."""
        for _ in range(LOOKS_MAX):
            resting = self._resting
            if resting is not None:
                return resting
            with suppress(AttributeError):
                return object.__getattribute__(self, part)
        raise AttributeError(f"a log that is not whole has no {part!r}")

    def _stay(self) -> None:
        """Do not rest, nor wake by itself."""
        self._desk.patrol.forget(self._record.path, self)
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
