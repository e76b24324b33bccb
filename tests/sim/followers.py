"""Followers of a log, who must miss nothing, and an analyst who takes snapshots of it.

A follower reads from the beginning, or from where it was, through rolls, take-overs and trims. It
remembers a position or, in some runs, an offset. The analyst reads what is new in one snapshot
after the other, as Spark's streams do, and asks between them where the log ends.

In some runs followers pass over gaps. Damage stays within the budget, so that each record keeps a
sound copy: none may be told.

  C8  a linearizable tail is behind all that was acknowledged before it was asked for
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from quire.errors import IntegrityError, PositionTrimmedError, QuireError
from quire.log.directory import LogDirectory
from quire.log.reading.bounds import Bounds
from quire.log.reading.gaps import Gap
from quire.log.reading.segment_reader import RecordBatch
from quire.log.reading.span import Slice, Span
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, Position
from tests.sim.clients import ClientMachine, outcome
from tests.sim.history import LogEnd, LogReading, Violation, require, seen_of
from tests.sim.world import SimWorld

OpenDirectory: TypeAlias = Callable[[ClientMachine], LogDirectory]
Reading: TypeAlias = Callable[[ClientMachine, LogReading], Coroutine[Any, Any, None]]

PAUSE_SECONDS: Final = 0.1
RULE = "C8 a linearizable tail is behind what was acknowledged"


class Followers:
    """See the module."""

    def __init__(
        self, world: SimWorld, log: str, keyring: Keyring, directory: OpenDirectory
    ) -> None:
        self._world = world
        self._log = log
        self._keyring = keyring
        self._directory = directory
        self._started: list[tuple[ClientMachine, asyncio.Task[None], LogReading]] = []
        self._places = world.rng("places")
        self._by_offset = self._places.random() < 0.3
        """Followers remember offsets, not positions, and often begin anew."""
        self._on_gap = self._told_of if world.rng("gaps").random() < 0.5 else None
        world.budget.counts_errors = self._on_gap is not None
        self._looks = world.rng("analyst")
        self._has_analyst = self._looks.random() < 0.3

    def start(self, rng: random.Random) -> None:
        """Let them begin, each at a moment of its own."""
        for number in range(rng.choice([1, 1, 2])):
            self._start(f"follower{number}", partial(self._follow, rng.random() * 0.5))
        if self._has_analyst:
            self._start("analyst", self._analyse)

    def _start(self, name: str, work: Reading) -> None:
        client, reading = self._world.client(name), self._world.log.read(name, BEGINNING)
        task = client.run(lambda _: work(client, reading))
        self._started.append((client, task, reading))

    async def reach(self, end: Position | None) -> None:
        """See each of them that lives at the end of the log; None when all of it was trimmed."""
        for client, task, reading in self._started:
            while client.is_running and not task.done() and not reading.is_at(end):  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_SECONDS)
            await outcome(client, task)
            is_done = client.is_running and task.done() and not task.cancelled()
            text = f"{reading.reader} ended at {reading.records[-1:]}, the log at {end}"
            require(not is_done or reading.is_at(end), "followers reach the end", text)
            client.end_life()

    # -- followers -------------------------------------------------------------------------------

    async def _follow(self, delay: float, client: ClientMachine, reading: LogReading) -> None:
        await asyncio.sleep(delay)
        directory = self._directory(client)
        position, is_over = BEGINNING, False
        while not is_over:
            try:
                position, is_over = await self._follow_from(position, directory, reading)
            except PositionTrimmedError as error:
                reading.gap_before.append(len(reading.records))
                position = Position.parse(error.first)
            except IntegrityError as error:
                raise corruption(client, error) from error
            except QuireError as error:
                client.trouble = error
                self._world.say(client.name, f"starts again: {error!r}")
                position = reading.behind(position)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _follow_from(
        self, start: Position, directory: LogDirectory, reading: LogReading
    ) -> tuple[Position, bool]:
        """Return where to go on, and whether the log was sealed."""
        place = reading.offset_behind(start) if self._by_offset else start
        reader = await directory.read(
            self._log, place, follow=True, keyring=self._keyring, on_gap=self._on_gap
        )
        try:
            async for record in reader:
                reading.take(seen_of(record))
                if self._by_offset and self._places.random() < 0.3:
                    break
            else:
                text = f"{reading.reader} came to the end of a log that nobody sealed"
                require(self._world.log.sealing, "seal", text)
                return reading.behind(start), True
        finally:
            await reader.close()
        return reading.behind(start), False

    def _told_of(self, gap: Gap) -> None:
        raise Violation("a gap is what is lost", f"a reader leaves out {gap}; copies are left")

    # -- the analyst -----------------------------------------------------------------------------

    async def _analyse(self, client: ClientMachine, reading: LogReading) -> None:
        directory = self._directory(client)
        while True:
            await asyncio.sleep(self._looks.expovariate(20.0))
            with trying(self._world, client):
                if self._looks.random() < 0.3:
                    await self._look_for_the_end(directory)
                else:
                    await self._read_snapshot(directory, reading)

    async def _look_for_the_end(self, directory: LogDirectory) -> None:
        history = self._world.log
        highest, called = history.highest, history.now()
        tail = await directory.tail(self._log, linearizable=True)
        text = f"{highest} was acknowledged, and then the log ends at {tail.position}"
        require(highest is None or highest < tail.position, RULE, text)
        history.ends.append(LogEnd("analyst", called, history.now(), tail.offset))
        self._world.note_fault("linearizable tail")

    async def _read_snapshot(self, directory: LogDirectory, reading: LogReading) -> None:
        """Read what is new. What is missing before it must be what was trimmed."""
        next_offset = reading.records[-1].offset + 1 if reading.records else 0
        bounds = Bounds(first_offset=next_offset)
        for span in await directory.snapshot(self._log, bounds=bounds):
            async with aclosing(directory.read_span(span, keyring=self._keyring)) as slices:
                async for piece in slices:
                    self._take(reading, span, piece)
        self._world.note_fault("snapshot read")

    def _take(self, reading: LogReading, span: Span, piece: Slice) -> None:
        batch = RecordBatch(span.segment, piece.entry, piece.slots.start, piece.batch)
        for record in batch.records()[: len(piece.slots)]:
            seen, behind = seen_of(record), reading.behind(BEGINNING)
            expected = reading.records[-1].offset + 1 if reading.records else 0
            given_up = self._world.log.trimmed_to
            if seen.offset > expected and given_up is not None and behind < given_up:
                reading.gap_before.append(len(reading.records))
            elif not reading.records:
                require(seen.offset == 0, "skip", f"{reading.reader} begins at {seen}")
            reading.take(seen)


@contextmanager
def trying(world: SimWorld, client: ClientMachine) -> Iterator[None]:
    """What is read in the block may be out of reach, or trimmed; it may not be damaged."""
    try:
        yield
    except PositionTrimmedError as error:
        world.say(client.name, f"reads too late: {error!r}")
    except IntegrityError as error:
        raise corruption(client, error) from error
    except QuireError as error:
        client.trouble = error
        world.say(client.name, f"reads again: {error!r}")


def corruption(client: ClientMachine, error: IntegrityError) -> Violation:
    """A reader was given something that cannot be there."""
    text = f"{client.name} reads: {type(error).__name__}: {error}"
    return Violation("no reader meets corruption", text)
