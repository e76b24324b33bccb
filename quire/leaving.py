"""Closing the handles that are still open when a program leaves `connect`.

    the block ends            handles are closed, stage by stage, all of a stage at once: writers
                              confirm submitted records, announce them and close their ledgers, so
                              that a plain read sees every acknowledged record
    an exception leaves it    handles are abandoned as by a crash, and a warning names the writers;
                              readers are closed

Services are first: a leader hands over and closes its log. Logs, ledgers and readers follow.
Elections are last, so that no successor is elected while its predecessor still closes a log.

A handle that had ended before does not fail again. If the program has not received its error, a
warning tells it. A handle that cannot be closed now is an error of leaving, after all others were
closed. Leaving has a deadline: handles that are still open then are abandoned, and a warning names
them. See docs/decisions/0023-leaving-connect.md.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from quire.errors import (
    ConfigurationError,
    LeavingTimeoutError,
    OutcomeUnknownError,
    QuireError,
    RetryError,
)
from quire.metrics.meter import SILENT_METER, ClientMeter

LEAVE_SECONDS: Final = 90.0
"""Default deadline of leaving: as long as `append_timeout` and `open_timeout` together."""

AT_ONCE_MAX: Final = 1000
"""Handles that are closed at a time. One at rest is made whole for it, of forty kilobytes."""

NAMED_MAX: Final = 20
"""Handles that a warning names."""

GRACE_SECONDS: Final = 1.0
"""Every step has as much time after the deadline, and again when it was cancelled."""

PRUNE_MIN: Final = 64

_log = logging.getLogger(__name__)

_hung: set[asyncio.Task[None]] = set()
"""Steps that did not end although they were cancelled: a task needs a reference until it ends."""


class Stage(IntEnum):
    """The order in which handles are closed."""

    SERVICE = 0
    WRITER = 1
    READER = 2
    ELECTION = 3


class Leavable(Protocol):
    """A handle that a client gives out, and that is closed or abandoned with the client."""

    @property
    def _title(self) -> str:
        """The handle's name in a warning."""

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing left to close in order."""

    @property
    def _untold(self) -> str | None:
        """The error that ended the handle, if the program has not received it."""

    def abandon(self) -> None:
        """Stop at once, as a crash would."""

    async def close(self) -> None:
        """End in order. Harmless when called again."""


HandleT = TypeVar("HandleT", bound=Leavable)


class OpenHandles:
    """The handles that a client has given out and that are still in use."""

    def __init__(self, timeout: float = LEAVE_SECONDS, meter: ClientMeter = SILENT_METER) -> None:
        """`timeout` is how many seconds leaving may take; `meter` looks at the handles. Raises
        `ConfigurationError`.
        """
        self.meter = meter
        if not timeout > 0:
            raise ConfigurationError(f"leave_timeout must be positive, not {timeout}")
        self._timeout = timeout
        self._deadline: float | None = None
        self._opened = 0
        self._prune_at = PRUNE_MIN
        self._writers: dict[Stage, dict[int, Leavable]] = {}
        self._others: dict[Stage, weakref.WeakValueDictionary[int, Leavable]] = {
            Stage.READER: weakref.WeakValueDictionary(),
            Stage.ELECTION: weakref.WeakValueDictionary(),
        }
        """Handles that the program may drop: they have nothing to lose."""

    def remember(self, handle: HandleT, stage: Stage) -> HandleT:
        """Return a handle that is closed or abandoned with the client."""
        self._opened += 1
        self.meter.watch(handle)
        if stage in self._others:
            self._others[stage][self._opened] = handle
            return handle
        count = sum(map(len, self._writers.values()))
        if count >= self._prune_at:
            count = self._prune()
            self._prune_at = max(PRUNE_MIN, 2 * count)
        self._writers.setdefault(stage, {})[self._opened] = handle
        return handle

    def _prune(self) -> int:
        """Forget writers that have nothing to say any more; return the number of the others."""
        for stage, known in self._writers.items():
            kept = known.items()
            self._writers[stage] = {
                number: each for number, each in kept if not each.has_ended or each._untold
            }
        return sum(map(len, self._writers.values()))

    async def leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every handle, or abandon them if an exception leaves the block.

        Raises:
            OutcomeUnknownError: records were submitted, and a writer that was closed cannot tell
                whether they were confirmed. `LeavingTimeoutError` if the deadline was the reason.
            RetryError: a writer could not be closed. Every acknowledged record is safe; a plain
                read may miss the last ones until the log is opened again.

        Cancellation: abandons the handles that are not closed yet.
        """
        if error is not None:
            await self.abandon(type(error).__name__)
            return
        try:
            await self.close()
        except asyncio.CancelledError:
            await self.abandon("a cancellation")
            raise

    async def close(self) -> None:
        """Close every handle in order. Raises as `leave`."""
        self._begin()
        errors: list[BaseException] = []
        late: list[tuple[Stage, str]] = []
        for stage in Stage:
            handles = self._open(stage)
            steps = [partial(_quietly, each) if each.has_ended else each.close for each in handles]
            for each, outcome in zip(handles, await self._at_once(steps), strict=True):
                if isinstance(outcome, TimeoutError):
                    each.abandon()
                    late.append((stage, each._title))
                elif outcome is not None:
                    errors.append(outcome)
        writers = [title for stage, title in late if stage in (Stage.SERVICE, Stage.WRITER)]
        _warn(f"its deadline of {self._timeout:g} s", [title for _, title in late])
        self._forget()
        if writers:
            errors.insert(0, LeavingTimeoutError(writers, self._timeout))
        _report(errors)

    async def abandon(self, reason: str) -> None:
        """Stop every handle as a crash would, and name the writers that had not ended.

        Raises nothing of its own: an exception is on its way already.
        """
        self._begin()
        writers = [*self._open(Stage.SERVICE), *self._open(Stage.WRITER)]
        _warn(reason, [each._title for each in writers if not each.has_ended])
        for stage in Stage:
            handles = self._open(stage)
            for each in handles:
                each.abandon()
            await self._at_once([partial(_quietly, each) for each in handles])
        self._forget()

    async def release(self, what: str, close: Callable[[], Awaitable[None]]) -> None:
        """Close a connection within the deadline; a warning names it if it does not answer."""

        async def step() -> None:
            await close()

        (outcome,) = await self._at_once([step])
        if isinstance(outcome, TimeoutError):
            _log.warning("connect is left: %s did not close within the deadline", what)
        elif outcome is not None:
            raise outcome

    async def _at_once(
        self, steps: Sequence[Callable[[], Coroutine[Any, Any, None]]]
    ) -> list[BaseException | None]:
        """Return each step's error, `TimeoutError` for a step that the deadline cut short."""
        loop = asyncio.get_running_loop()  # gone in a process that is being ended
        places = asyncio.Semaphore(AT_ONCE_MAX)

        async def take(step: Callable[[], Coroutine[Any, Any, None]]) -> None:
            async with places:
                await step()

        tasks = [loop.create_task(take(step)) for step in steps]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, timeout=self._seconds_left())
            late = [each for each in tasks if not each.done()]
        except asyncio.CancelledError:
            await _cancel(tasks)
            raise
        await _cancel(late)
        return [TimeoutError() if each in late else _outcome(each) for each in tasks]

    def _seconds_left(self) -> float:
        """The time until the deadline; it is set now if leaving had no handles."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._timeout
        return max(self._deadline - now, GRACE_SECONDS)

    def _open(self, stage: Stage) -> list[Leavable]:
        if stage in self._others:
            return [handle for _, handle in sorted(self._others[stage].items())]
        return list(self._writers.get(stage, {}).values())

    def _forget(self) -> None:
        self._writers.clear()
        for handles in self._others.values():
            handles.clear()

    def _begin(self) -> None:
        """Set the deadline, and tell the errors that no call has raised."""
        self._deadline = asyncio.get_running_loop().time() + self._timeout
        for handle in chain.from_iterable(each.values() for each in self._writers.values()):
            if handle._untold:
                _log.warning(
                    "connect is left: %s had failed, and no call was told: %s",
                    handle._title,
                    handle._untold,
                )


async def _quietly(handle: Leavable) -> None:
    """Close a handle. Its error was reported before, or does not matter any more."""
    with suppress(Exception):
        await handle.close()


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel steps, and wait a moment for them to end."""
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, pending = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
    for task in pending:
        _hung.add(task)
        task.add_done_callback(_hung.discard)


def _outcome(task: asyncio.Task[None]) -> BaseException | None:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception()


def _warn(reason: str, titles: Sequence[str]) -> None:
    if titles:
        _log.warning(
            "connect is left by %s: abandons %s; a plain read may not see the last "
            "acknowledged records until the log is opened, or the ledger recovered",
            reason,
            listed(titles),
        )


def listed(titles: Sequence[str]) -> str:
    """Return titles in a row, and how many more there are beyond a screen of them."""
    more = len(titles) - NAMED_MAX
    return ", ".join([*titles[:NAMED_MAX], *([f"and {more:,} more"] if more > 0 else [])])


def _report(errors: Sequence[BaseException]) -> None:
    """Raise the first error that the program must hear of, and log the others."""
    failed = [each for each in errors if isinstance(each, OutcomeUnknownError | RetryError)]
    defects = [each for each in errors if not isinstance(each, QuireError)]
    raised = [*defects, *failed][:1]
    for each in errors:
        if each not in raised:
            _log.warning("a handle could not be closed in order: %s", each)
    if raised:
        raise raised[0]
