"""What becomes of the handles that are open when a program leaves `connect`.

    the block ends            every handle is closed, all at once: writers confirm what was
                              submitted, announce it and close their ledgers, so that a plain read
                              sees every acknowledged record
    an exception leaves it    writers are abandoned as by a crash, and a warning names them; readers
                              are closed

A handle that had ended before is not closed a second time: the program was told then, and leaving
the block does not raise the error again. A handle that cannot be closed now is an error of leaving,
after all others were closed. See docs/decisions/0023-leaving-connect.md.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from contextlib import suppress
from types import TracebackType
from typing import TypeAlias, TypeVar

from quire.errors import OutcomeUnknownError, QuireError, RetryError
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter
from quire.log.log import Log
from quire.log.reader import LogReader

Writer: TypeAlias = LedgerWriter | Log
Handle: TypeAlias = Writer | LedgerReader | LogReader
HandleT = TypeVar("HandleT", LedgerWriter, Log, LedgerReader, LogReader)

_log = logging.getLogger(__name__)


class OpenHandles:
    """The handles that a client has given out and that are still in use."""

    def __init__(self) -> None:
        self._opened = 0
        self._handles: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()

    def remember(self, handle: HandleT) -> HandleT:
        """Return a handle that is closed or abandoned with the client."""
        self._opened += 1
        self._handles[self._opened] = handle
        return handle

    async def leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every handle, or abandon the writers if an exception leaves the block.

        Raises:
            OutcomeUnknownError: records were submitted, and a writer that was closed cannot tell
                whether they were confirmed.
            RetryError: a writer could not be closed. What was acknowledged is safe; a plain read
                may not see the last of it until the log is opened again.

        Cancellation: abandons the writers that are not closed yet.
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
        handles = self._open()
        ended = [each for each in handles if isinstance(each, Writer) and each.has_ended]
        left = [each for each in handles if each not in ended]
        try:
            results = await asyncio.gather(*(each.close() for each in left), return_exceptions=True)
        except asyncio.CancelledError:  # by which each of them abandons its writer
            _warn("a cancellation", [each for each in left if isinstance(each, Writer)])
            raise
        for each in ended:
            with suppress(QuireError):  # the program was told when it ended
                await each.close()
        self._handles.clear()
        _report([each for each in results if isinstance(each, BaseException)])

    async def abandon(self, reason: str) -> None:
        """Stop every writer as a crash would, close the readers, and name what was abandoned.

        Raises nothing of its own: an exception is on its way already.
        """
        handles = self._open()
        writers = [each for each in handles if isinstance(each, Writer) and not each.has_ended]
        _warn(reason, writers)
        for writer in writers:
            writer.abandon()
        for each in handles:
            with suppress(QuireError):
                await each.close()
        self._handles.clear()

    def _open(self) -> list[Handle]:
        return [handle for _, handle in sorted(self._handles.items())]


def _warn(reason: str, writers: list[Writer]) -> None:
    if writers:
        _log.warning(
            "connect is left by %s: abandons %s; a plain read may not see the last "
            "acknowledged records until the log is opened, or the ledger recovered",
            reason,
            ", ".join(_name(each) for each in writers),
        )


def _name(writer: Writer) -> str:
    if isinstance(writer, Log):
        return f"log {writer.name!r} (epoch {writer.epoch})"
    return f"ledger {writer.ledger}"


def _report(errors: list[BaseException]) -> None:
    """Raise the first error that the program must hear of, and log the others."""
    failed = [each for each in errors if isinstance(each, OutcomeUnknownError | RetryError)]
    defects = [each for each in errors if not isinstance(each, QuireError)]
    raised = [*defects, *failed][:1]
    for each in errors:
        if each not in raised:
            _log.warning("a handle could not be closed in order: %s", each)
    if raised:
        raise raised[0]
