"""Entry ids chosen by the application.

For applications that number entries themselves, and may have them ready in another order: entries
are accepted in any order, sent as soon as all before them are there, and confirmed in the order of
their ids, from 0 on and without a gap. An id is taken once; a second entry with it is refused.

Entries after a gap are held here and bounded in entries and bytes like everything in flight; the
entry that fills the gap is never held up by that bound.
"""

from __future__ import annotations

import asyncio

from quire.aio.handle import Handle
from quire.aio.tasks import Tasks
from quire.checked import given_or_default
from quire.entry import ENTRY_BYTES_MAX, EntryId, LedgerId, as_bytes
from quire.errors import (
    AppendOutcomeUnknownError,
    DuplicateEntryError,
    EntryTooLargeError,
    HandleClosedError,
    InvalidRequestError,
    QuireError,
)
from quire.ledger.options import LedgerOptions
from quire.ledger.writer import LedgerWriter


class NumberedWriter(Handle):
    """Appends to a ledger under ids that the caller gives; owns the writer it is made of.

    Raises the errors of `LedgerWriter`; besides, `DuplicateEntryError` for an id that was given
    before, and `InvalidRequestError` for an id that can never be reached. If an entry fails before
    it is sent, the held entries after it fail too, and their ids are free again.
    """

    def __init__(self, writer: LedgerWriter, options: LedgerOptions | None = None) -> None:
        """Take over a writer that was not appended to. `options` has the bounds. Needs a
        running loop.
        """
        limits = given_or_default(options, LedgerOptions)
        self.writer = writer
        self._entries_max = limits.entries_in_flight_max
        self._bytes_max = limits.bytes_in_flight_max
        self._next = writer.last_pushed + 1
        self._held: dict[EntryId, tuple[bytes, asyncio.Future[EntryId]]] = {}
        self._waiting: dict[EntryId, None] = {}
        self._bytes = 0
        self._moved = asyncio.Event()
        self._tasks = Tasks()
        self._pump: asyncio.Task[None] | None = None
        self._is_closed = False
        self._is_abandoned = False
        work = self._end_with_writer()
        self._end = asyncio.get_running_loop().create_task(work, name="end of a numbered writer")

    def __repr__(self) -> str:
        return f"<NumberedWriter of ledger {self.ledger}, expects entry {self.expected}>"

    @property
    def ledger(self) -> LedgerId:
        """The ledger's id."""
        return self.writer.ledger

    @property
    def expected(self) -> EntryId:
        """The id that everything held here waits for."""
        return self._next

    async def append(self, entry: EntryId, payload: bytes) -> EntryId:
        """Append an entry under an id; return it once it and all below it are confirmed.

        Args:
            entry: the id.
            payload: the entry's bytes.

        Returns:
            The id that was given.

        Raises:
            DuplicateEntryError: the id was given before.
            QuireError: as `LedgerWriter.append`.

        Cancellation: abandons the answer. An entry that was accepted stays accepted.
        """
        return await asyncio.shield(await self.submit(entry, payload))

    async def submit(self, entry: EntryId, payload: bytes) -> asyncio.Future[EntryId]:
        """Wait for space only and return the future of the answer.

        An entry too far ahead waits until the gap before it has shrunk.

        Args:
            entry: the id.
            payload: the entry's bytes.

        Returns:
            A future of the id. Futures complete in the order of ids.

        Raises:
            DuplicateEntryError: the id was given before.
            QuireError: as `LedgerWriter.append`, from the call or from the future.

        Cancellation: while the call waits for space, the entry is not sent and its id stays free.
        """
        payload = as_bytes(payload)
        self._check(entry, payload)
        self._waiting[entry] = None
        try:
            while not self._is_room(entry, len(payload)):
                self._moved.clear()
                await self._moved.wait()
                self._check_open()
        finally:
            del self._waiting[entry]
        answer: asyncio.Future[EntryId] = asyncio.get_running_loop().create_future()
        self._held[entry] = payload, answer
        self._bytes += len(payload)
        if self._pump is None or self._pump.done():
            self._pump = self._tasks.start(self._send(), f"numbers of ledger {self.ledger}")
        return answer

    async def force(self) -> EntryId:
        """Make every entry before the first gap durable and confirmed, as `LedgerWriter.force`.

        Returns:
            The last confirmed entry (LAC).

        Raises:
            QuireError: as `LedgerWriter.force`.

        Cancellation: gives up waiting; entries may become durable all the same.
        """
        through = self._next
        while through in self._held:
            through += 1
        while self._next < through and self._held:
            self._moved.clear()
            await self._moved.wait()
        return await self.writer.force()

    async def close(self) -> None:
        """Close the ledger after the last entry without a gap before it.

        Entries that wait after a gap were never sent: they fail with `HandleClosedError`.

        Raises:
            HandleClosedError: `abandon` was called meanwhile.
            QuireError: as `LedgerWriter.close`.

        Cancellation: abandons the writer.
        """
        was_abandoned = self._is_abandoned
        self._is_closed = True
        self._moved.set()
        try:
            await self._tasks.join()
        except asyncio.CancelledError:
            self.abandon()
            raise
        self._end.cancel()
        self._fail_held()
        await self.writer.close()
        if self._is_abandoned and not was_abandoned:
            raise HandleClosedError(f"writer of ledger {self.ledger}")

    def abandon(self) -> None:
        """See `LedgerWriter.abandon`."""
        self._is_closed = self._is_abandoned = True
        self._moved.set()
        self._tasks.cancel()
        self._end.cancel()
        self._fail_held()
        self.writer.abandon()

    def _check(self, entry: EntryId, payload: bytes) -> None:
        self._check_open()
        if type(entry) is not int or not 0 <= entry < 2**63:
            raise InvalidRequestError(f"entry id {entry!r} is not a number in 0..2**63-1")
        if entry < self._next or entry in self._held or entry in self._waiting:
            raise DuplicateEntryError(self.ledger, entry)
        if len(payload) > ENTRY_BYTES_MAX:
            raise EntryTooLargeError(len(payload), ENTRY_BYTES_MAX)

    def _check_open(self) -> None:
        if self._is_closed:
            raise HandleClosedError(f"writer of ledger {self.ledger}")
        self.writer._check()

    def _is_room(self, entry: EntryId, size: int) -> bool:
        if entry == self._next:
            return True
        return entry < self._next + self._entries_max and self._bytes + size <= self._bytes_max

    async def _send(self) -> None:
        """Pass on whatever has no gap before it, in the order of ids."""
        while self._next in self._held:
            payload, answer = self._held[self._next]
            try:
                sent = await self.writer.submit(payload)
            except Exception as error:
                self._fail(error)
                return
            del self._held[self._next]
            self._bytes -= len(payload)
            self._next += 1
            self._moved.set()
            sent.add_done_callback(_Passing(answer))

    async def _end_with_writer(self) -> None:
        """Fail the entries that wait after a gap: it cannot be filled any more."""
        await self.writer.wait_ended()
        await self._tasks.join()
        try:
            self.writer._check()
        except QuireError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Fail the held entries: the first may just have been sent, the others cannot be any more.
        Callers that wait for space look again.
        """
        self._moved.set()
        for entry, (_, answer) in self._held.items():
            if not answer.done():
                is_sent = entry <= self.writer.last_pushed
                answer.set_exception(self._unknown(entry, error) if is_sent else error)
                answer.exception()
        self._held.clear()
        self._bytes = 0

    def _unknown(self, entry: EntryId, error: Exception) -> QuireError:
        return AppendOutcomeUnknownError(self.ledger, entry, str(error))

    def _fail_held(self) -> None:
        self._fail(HandleClosedError(f"writer of ledger {self.ledger}"))


class _Passing:
    """Passes an answer on."""

    __slots__ = ("_answer",)

    def __init__(self, answer: asyncio.Future[EntryId]) -> None:
        self._answer = answer

    def __call__(self, sent: asyncio.Future[EntryId]) -> None:
        answer = self._answer
        if answer.done():
            return
        error = None if sent.cancelled() else sent.exception()
        if sent.cancelled():
            answer.cancel()
        elif error is not None:
            answer.set_exception(error)
            answer.exception()
        else:
            answer.set_result(sent.result())
