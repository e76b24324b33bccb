"""Leading a log in turn: election, takeover, loss and retry in one `async with`.

    while True:
        async with client.lead_log("board") as log:
            await log.append(b"...")

`Turn` is one leadership: it stands for election, takes the log over, and ends both. `LeadingLog` is
a turn that also interrupts its block when the leadership is lost, as `asyncio.timeout` interrupts a
block when the time is up. `quire.sync` uses the turn alone, because a thread cannot be interrupted.

Invariants:
  - The block runs only with a log that this process has taken over while it was elected.
  - The log is closed before the leadership ends, so that the successor needs no recovery.
  - An error of the block is swallowed only if the leadership is lost and the error says so. Every
    other error leaves the loop.

See docs/decisions/0026-leading-a-log.md. Not here: what makes a late leader harmless. The takeover
fences it (docs/protocol.md, C4 and C5), with or without an election.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Final, TypeAlias

from quire.election.election import Election
from quire.election.leadership import Leadership
from quire.errors import (
    ConflictError,
    InvalidRequestError,
    LeadershipLostError,
    LogFullError,
    OutcomeUnknownError,
    RetryError,
    SessionExpiredError,
)
from quire.log.leader.log import Log

PAUSE_SECONDS: Final = 0.2
"""Mean pause before a log is led again, after a loss or a takeover that failed."""

LOST: Final = (OutcomeUnknownError, LeadershipLostError, SessionExpiredError)
"""Errors by which a block learns that its leadership is lost."""

FAILED_TAKEOVER: Final = (*LOST, ConflictError, RetryError)
"""Errors of a takeover that another attempt may mend."""

OpenLog: TypeAlias = Callable[[Callable[[], bool]], Awaitable[Log]]
"""Takes the log over, as long as the function that it is given returns True."""

_log = logging.getLogger(__name__)


def tells_of_loss(error: BaseException | None) -> bool:
    """Return whether an error, or each error of a group, says that a leadership is lost."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(LOST)[1] is None
    return isinstance(error, LOST)


class Turn(AbstractAsyncContextManager[Log]):
    """One leadership of a log. The block is not interrupted: its log tells it of a loss."""

    def __init__(self, election: Election, open_log: OpenLog, rng: random.Random) -> None:
        self._election = election
        self._open_log = open_log
        self._rng = rng
        self._stack = AsyncExitStack()
        self._leadership: Leadership | None = None
        self._log: Log | None = None

    @property
    def name(self) -> str:
        """The election's name."""
        return self._election.name

    @property
    def is_lost(self) -> bool:
        """Whether the leadership ended, or the log was taken over or failed, in the block."""
        leadership, log = self._leadership, self._log
        if leadership is None or log is None:
            return False
        return leadership.is_lost or log.is_deposed or log.failure is not None

    async def wait_lost(self) -> None:
        """Return when the leadership is lost, and never when the block itself ended its log."""
        assert self._log is not None, "the block was entered"
        await self._log.wait_deposed()
        if not self.is_lost:
            await asyncio.Event().wait()

    async def __aenter__(self) -> Log:
        if self._leadership is not None:
            raise InvalidRequestError("this turn was taken before: call lead_log again")
        while True:
            try:
                return await self._take_over()
            except LogFullError:
                raise  # time does not mend it
            except FAILED_TAKEOVER as error:
                level = logging.WARNING if isinstance(error, RetryError) else logging.INFO
                _log.log(level, "%s was won, and its log cannot be led now: %s", self._title, error)
            await self._pause()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        assert self._log is not None, "the block was entered"
        is_lost = self.is_lost
        async with self._stack:
            await self._log.__aexit__(kind, error, traceback)
        if not is_lost or not tells_of_loss(error):
            return False
        _log.info("%s steps down: %s", self._title, error)
        await self._pause()
        return True

    @property
    def _title(self) -> str:
        """The election's name, for messages."""
        return self._election._title

    async def _take_over(self) -> Log:
        async with AsyncExitStack() as stack:
            leadership = await stack.enter_async_context(self._election.lead())
            log = await self._open_log(lambda: not leadership.is_lost)
            guard = asyncio.create_task(
                _abandon_when_lost(leadership, log), name=f"guard of {self._title}"
            )
            stack.push_async_callback(_stop, guard)
            self._leadership, self._log = leadership, log
            self._stack = stack.pop_all()
            return log

    async def _pause(self) -> None:
        await asyncio.sleep(PAUSE_SECONDS * (0.5 + self._rng.random()))


class LeadingLog(AbstractAsyncContextManager[Log]):
    """One leadership of a log, which interrupts its block when it is lost. Use it once.

    `Client.lead_log` makes it and has its documentation.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._task: asyncio.Task[object] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._cancelled_before = 0
        self._has_interrupted = False

    async def __aenter__(self) -> Log:
        log = await self._turn.__aenter__()
        self._task = asyncio.current_task()
        assert self._task is not None, "a coroutine runs in a task"
        self._cancelled_before = self._task.cancelling()
        self._guard = asyncio.create_task(self._interrupt(), name=f"end of {self._turn._title}")
        return log

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        assert self._guard is not None, "the block was entered"
        self._guard.cancel()
        if self._is_own_interruption() and isinstance(error, asyncio.CancelledError):
            error = LeadershipLostError(self._turn.name, "its block was interrupted")
            kind = type(error)
        return await self._turn.__aexit__(kind, error, traceback)

    def _is_own_interruption(self) -> bool:
        """Whether the block's task was cancelled by its guard, and by no other."""
        if not self._has_interrupted or self._task is None:
            return False
        return self._task.uncancel() <= self._cancelled_before

    async def _interrupt(self) -> None:
        await self._turn.wait_lost()
        self._has_interrupted = True
        if self._task is not None:
            self._task.cancel()


async def _abandon_when_lost(leadership: Leadership, log: Log) -> None:
    """Stop the log with the leadership: another candidate may lead from now on."""
    await leadership.wait_lost()
    log.abandon()


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
