"""A leader's time in office: commands are carried out once they are confirmed, and answered.

    submit → the log's queue → confirmed, in the log's order → applied → answered

Every command gets an answer. A command that the log can no longer confirm fails with the log's own
error; commands left when the office is cut short, by a cancellation, are answered as unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from quire.aio.tasks import Tasks
from quire.errors import DeposedError
from quire.log.leader.log import Log
from quire.log.records.position import Appended

T = TypeVar("T")


@dataclass(slots=True)
class _Unanswered(Generic[T]):
    payload: bytes
    appended: asyncio.Future[Appended]
    answer: asyncio.Future[T]

    def fail(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):  # no future takes one
            wrapped = RuntimeError("a command ended in StopIteration")
            wrapped.__cause__ = error
            error = wrapped
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()

    def succeed(self, result: T) -> None:
        if not self.answer.done():
            self.answer.set_result(result)


class Office(Generic[T]):
    """See the module. Constructed when the state contains all that the log holds."""

    def __init__(self, log: Log, apply: Callable[[bytes, Appended], T]) -> None:
        """`apply` is called with each record and its place, in the log's order."""
        self.log = log
        self._apply = apply
        self._submitting = asyncio.Lock()
        self._queueing = Tasks()
        """Commands that wait for space. A caller that gives up does not recall its command, which
        may have its place in the log already: it is applied in its turn.
        """
        self._owed: asyncio.Queue[_Unanswered[T] | None] = asyncio.Queue()
        self._applying = asyncio.create_task(self._apply_confirmed(), name="applier")

    async def submit(self, payload: bytes) -> T:
        """Return the result of `apply` for a record. Raises as `apply` and `Log.submit` do.

        Cancelling does not recall the record.
        """
        appended = None if self._queueing.count else self.log._submit_now(payload)
        if appended is None:
            owed = await asyncio.shield(self._queueing.keep(self._queue(payload)))
        else:
            owed = self._owe(payload, appended)
        return await owed.answer

    async def _queue(self, payload: bytes) -> _Unanswered[T]:
        """Submit a record once there is space; others wait behind it."""
        async with self._submitting:
            return self._owe(payload, await self.log.submit(payload))

    def _owe(self, payload: bytes, appended: asyncio.Future[Appended]) -> _Unanswered[T]:
        """Have a record applied after those before it, in the step that it got its place."""
        owed: _Unanswered[T] = _Unanswered(
            payload, appended, asyncio.get_running_loop().create_future()
        )
        self._owed.put_nowait(owed)
        if self._applying.done():
            self._give_up()
        return owed

    async def close_log(self) -> None:
        """Close the log after every submitted command.

        Raises `DeposedError` when another leader took the log over before, and as `Log.close`.
        """
        async with self._submitting:
            await self.log.close()
        if self.log.is_deposed:
            reason = "another leader took it over before it was closed"
            raise DeposedError(self.log.name, self.log.epoch, reason)

    async def end(self) -> None:
        """Return when everything is answered. The log was closed or abandoned before.

        Cancellation: the remaining commands are answered as unknown, at once.
        """
        try:
            async with self._submitting:
                self._owed.put_nowait(None)
            await self._applying
        finally:
            self._applying.cancel()
            self._give_up()

    async def _apply_confirmed(self) -> None:
        """Ends at None."""
        while (owed := await self._owed.get()) is not None:
            try:
                owed.succeed(self._apply(owed.payload, await owed.appended))
            except Exception as error:
                owed.fail(error)
            except BaseException:
                owed.fail(self._unknown())
                raise

    def _give_up(self) -> None:
        while not self._owed.empty():
            owed = self._owed.get_nowait()
            if owed is not None:
                owed.fail(self._unknown())

    def _unknown(self) -> DeposedError:
        return DeposedError(self.log.name, self.log.epoch, "its leader was told to stop at once")
