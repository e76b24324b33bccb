"""A bookie of Apache BookKeeper as a `Bookie`.

Such a bookie lacks much, and this link makes up for some of it:

  - It denies one entry at a time, and reads one unless it is of release 4.17 or later: ranges are
    batches there (batch_reads.py), and elsewhere many requests under way (single_reads.py). Nothing
    is denied that it was not asked for: a denial too many ends a ledger below acknowledged entries.
  - A refusal may leave it before the fence of the same request is durable. A fencing read that is
    refused is followed by FORCE, which passes through the same journal after the fence.
  - Of explicit LACs the last one written wins, so only ascending ones are sent.
  - A poll may answer at once, too late, or not say that the ledger is fenced: the tail is read
    before each poll, and polls are short. `LedgerTail.fenced` is None.
  - Lists of entries are never answered by some of its storages: they get little time, and then
    entries are looked for one by one.
  - FORCE names no entries. Entries that this very connection saw acknowledged are in the hands of
    the process that answers; others are read.
  - An ordinary add replaces an entry that it holds (B12 and B16 do not hold), and the names of
    ledgers cannot be listed.

docs/bookkeeper.md has the consequences for applications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from itertools import islice
from typing import Final

from quire.aio.answer import Answered, resolve
from quire.aio.backoff import Backoff
from quire.bookie import (
    READ_BYTES_MAX,
    BookieAddress,
    BookieInfo,
    LedgerTail,
    Stride,
    check_range,
    refused,
)
from quire.bookkeeper import wire3
from quire.bookkeeper.batch_reads import RangeReads
from quire.bookkeeper.connection import BookieConnection
from quire.bookkeeper.held import Acknowledged, HeldIds
from quire.bookkeeper.message_stream import Endpoint, OpenTransport
from quire.bookkeeper.protobuf import MalformedError
from quire.bookkeeper.shared_adds import SharedAdds
from quire.bookkeeper.single_reads import SingleReads, WantedRange, last_frame, readings
from quire.bookkeeper.status import ABSENT, Status, error_of
from quire.bookkeeper.tls import ClientTls
from quire.bookkeeper.wire3 import BookieAnswer, Operation
from quire.entry import HEADER, LAC_HEADER, NO_ENTRY, EntryId, LedgerId
from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    InvalidRequestError,
    QuireError,
    UnsupportedError,
)
from quire.outline import Outline
from quire.wire.adds import AddKind, RunEncoder

REQUEST_SECONDS: Final = 5.0
LIST_SECONDS: Final = 1.0
"""Time for a list of entries: some storages never answer."""

POLL_SECONDS: Final = 1.5
"""Longest time of one poll: a bookie that has forgotten a ledger's LAC lets it run out."""

POLL_PAUSE_SECONDS: Final = 0.05
"""Pause after a poll that was answered at once and in vain: for a ledger never seen, or by a bookie
that has told of news which the tail did not show.
"""

WAIT_SECONDS_MAX: Final = 300.0

LOOKED_UP_MAX: Final = 4096
"""Entries that one list looks for; the next call goes on after the last."""

RECONNECT: Final = Backoff(first=0.05, last=1.0)

LACS_MAX: Final = 65_536
"""Ledgers to remember the last explicit LAC of."""


class ApacheBookie:
    """The bookie at an address. Needs a running event loop and belongs to it.

    Implements `quire.bookie.Bookie`, and `RunLink` beside it. Connecting is on demand; after a
    failure requests fail at once for a while (50 ms, growing to 1 s).
    """

    def __init__(
        self,
        address: BookieAddress,
        *,
        request_timeout: float = REQUEST_SECONDS,
        list_timeout: float = LIST_SECONDS,
        tls: ClientTls | None = None,
        connect: OpenTransport | None = None,
        adds: SharedAdds | None = None,
    ) -> None:
        """`adds` are shared by all links of a client."""
        self._adds = adds or SharedAdds()
        self.address = address
        self._bookie = address.bookie
        self._timeout = request_timeout
        self._list_timeout = list_timeout
        self._endpoint = Endpoint.of(address, request_timeout, tls, connect)
        self._connection: BookieConnection | None = None
        self._entries = SingleReads(self._error)
        self._ranges = RangeReads(self._endpoint, self._entries, self._error)
        self._acknowledged = Acknowledged()
        self._failures = RECONNECT.pauses()
        self._not_before = 0.0
        self._writable = address.writable
        self._lists = True
        self._lacs: dict[LedgerId, EntryId] = {}
        self._closed = False

    # The connection.

    def _link(self) -> BookieConnection:
        """Return the connection, a new one after it broke."""
        if self._closed:
            raise BookieUnavailableError(self._bookie, "its link was closed")
        now = asyncio.get_running_loop().time()
        held = self._connection
        if held is not None and held.over is None:
            return held
        if held is not None and held.is_open:
            self._failures.reset()
        if held is not None and now < self._not_before:
            raise BookieUnavailableError(self._bookie, held.over or "it cannot be reached")
        self._not_before = now + self._failures.next()
        self._acknowledged = Acknowledged()
        self._connection = BookieConnection(self._endpoint, self._adds.transactions)
        return self._connection

    async def close(self) -> None:
        """Break calls under way and release the connection. Harmless when called again."""
        self._closed = True
        if self._connection is not None:
            await self._connection.close()
        await self._ranges.close()

    def _error(self, ledger: LedgerId, entry: EntryId, answer: BookieAnswer) -> QuireError:
        if answer.status == Status.UNAUTHORIZED and not answer.part.has(1):
            return ClientRefusedError(
                self._bookie,
                "it wants TLS with a certificate (bookie-tls=yes in the store's URI), or "
                "authentication by SASL or a plugin, which quire lacks",
            )
        if answer.status == Status.READ_ONLY:
            self._writable = False
        return error_of(answer.status, self._bookie, ledger, entry)

    @contextmanager
    def _reading_answers(self) -> Iterator[None]:
        """Let an answer whose fields are of other kinds be the failure of this bookie: the others
        are asked then, as after any failure.
        """
        try:
            yield
        except MalformedError as error:
            reason = f"it does not speak BookKeeper's protocol: {error}"
            raise BookieUnavailableError(self._bookie, reason) from error

    # Writing.

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> asyncio.Future[None]:
        """See `Bookie.add`. Cancelling leaves the run in its place in the connection."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._add(AddKind(ledger, key, recovery, deferred), run, partial(resolve, answer))
        except QuireError as error:
            return refused(error)
        return answer

    def send(self, encoder: RunEncoder, run: bytes, answered: Answered) -> None:
        """See `RunLink.send`."""
        self._add(encoder.kind, run, answered)

    def _add(self, kind: AddKind, run: bytes, answered: Answered) -> None:
        bundle, link = self._adds.prepare(self, kind, run), self._link()
        if kind.deferred:
            noted = partial(self._acknowledged.note, kind.ledger, bundle.entries)
            answered = partial(_tell_both, noted, answered)
        link.add(bundle, answered, partial(self._error, kind.ledger, bundle.entries[0]))

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """See `Bookie.write_lac`. A fence is not looked at; lower LACs are not sent."""
        if len(packet) < LAC_HEADER.size or LAC_HEADER.unpack_from(packet)[0] != ledger:
            raise InvalidRequestError(f"not a LAC packet of ledger {ledger}")
        lac = LAC_HEADER.unpack_from(packet)[1]
        if lac <= self._lacs.get(ledger, NO_ENTRY - 1):
            return
        self._lacs.pop(ledger, None)
        self._lacs[ledger] = lac
        for old in list(islice(self._lacs, max(len(self._lacs) - LACS_MAX, 0))):
            del self._lacs[old]
        try:
            answer = await self._link().call(
                lambda number: wire3.write_lac(number, ledger, lac, key, packet)
            )
            if answer.status != Status.OK:
                raise self._error(ledger, lac, answer)
        except BaseException:
            # The bookie may have it, so none below it follows. It may be sent again: to take it
            # for written would hide the last entry from followers.
            if self._lacs.get(ledger) == lac:
                self._lacs[ledger] = lac - 1
            raise

    # Reading.

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        """See `Bookie.read`."""
        check_range(first, last)
        wanted = WantedRange(ledger, first, last, bytes_max, stride)
        with self._reading_answers():
            return await self._ranges.read(self._link(), wanted, fence_key)

    # The end of a ledger.

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """See `Bookie.read_tail`. `fenced` is None."""
        link = self._link()
        read_lac = partial(wire3.of_ledger, Operation.READ_LAC, ledger=ledger)
        with self._reading_answers():
            if fence_key is not None:
                await self._entries.highest(link, ledger, fence_key)
            last, explicit = await link.call_many([*readings(ledger, [NO_ENTRY]), read_lac])
            if isinstance(last, QuireError):
                raise last
            if isinstance(explicit, QuireError):
                raise explicit
            return self._tail(ledger, last, explicit)

    def _tail(self, ledger: LedgerId, last: BookieAnswer, explicit: BookieAnswer) -> LedgerTail:
        if last.status not in (Status.OK, *ABSENT):
            raise self._error(ledger, NO_ENTRY, last)
        frame, hint = None, last.part.number(5, NO_ENTRY)
        if last.status == Status.OK:
            frame = last_frame(ledger, last)
            hint = max(hint, HEADER.unpack_from(frame)[2])
        # A ledger without entries has its packet beside an error.
        packet = explicit.part.data(3, b"") or None
        if packet is None and explicit.status not in (Status.OK, *ABSENT):
            raise self._error(ledger, NO_ENTRY, explicit)
        if packet is not None and len(packet) >= LAC_HEADER.size:
            hint = max(hint, LAC_HEADER.unpack_from(packet)[1])
        return LedgerTail(frame, packet, hint, None)

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """See `Bookie.wait_tail`. A fence does not end it; it returns after `WAIT_SECONDS_MAX` at
        the latest.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(timeout, 0.0), WAIT_SECONDS_MAX)
        misled = False
        while True:
            tail = await self.read_tail(ledger)
            left = until - loop.time()
            if tail.hint > above or left <= 0:
                return tail
            seconds = min(left, POLL_SECONDS)
            asked_at = loop.time()
            has_news = await self._poll(ledger, above, seconds)
            is_early = loop.time() - asked_at < POLL_PAUSE_SECONDS
            if is_early and (misled or not has_news):
                await asyncio.sleep(min(left, POLL_PAUSE_SECONDS))
            # News that the tail shows end the wait. After other news, polls are not believed.
            misled = misled or has_news

    async def _poll(self, ledger: LedgerId, above: EntryId, seconds: float) -> bool:
        """Have the bookie answer when its LAC is above an entry, or in time; return whether it says
        that it is.
        """
        answer = await self._link().call(
            partial(
                wire3.poll, ledger=ledger, above=above, milliseconds=round(seconds * 1000) or 1
            ),
            seconds + self._timeout,
        )
        if answer.status in ABSENT:
            return False
        if answer.status != Status.OK:
            raise self._error(ledger, NO_ENTRY, answer)
        with self._reading_answers():
            return answer.part.number(5, NO_ENTRY) > above

    # Entries held.

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.sync`. Neither key nor fence are looked at."""
        check_range(first, last)
        link = self._link()
        held = self._acknowledged.within(ledger, first, last)
        self._acknowledged.forget_before(ledger, first)
        with self._reading_answers():
            missing = held.missing(first, min(last, await self._entries.highest(link, ledger)))
            async with aclosing(self._entries.held(link, ledger, missing)) as found:
                async for entry, frame in found:
                    if frame is not None:
                        held.add(entry)
            # On the connection that vouches for the entries.
            await self._entries.force(link, ledger)
        return held.ranges()

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        """See `Bookie.list_entries`."""
        link = self._link()
        if self._lists and (found := await self._listed(link, ledger)) is not None:
            return [(max(low, first), high) for low, high in found if high >= first]
        held = HeldIds()
        with self._reading_answers():
            wanted = range(first, await self._entries.highest(link, ledger) + 1)
            async with aclosing(self._entries.held(link, ledger, wanted)) as frames:
                async for entry, frame in frames:
                    if frame is not None:
                        held.add(entry)
                    if held and entry - first >= LOOKED_UP_MAX:
                        break
        return held.ranges()

    async def _listed(
        self, link: BookieConnection, ledger: LedgerId
    ) -> list[tuple[EntryId, EntryId]] | None:
        """Return the entries that a bookie lists, None if it lists none."""
        try:
            answer = await link.call(
                partial(wire3.of_ledger, Operation.LIST_ENTRIES, ledger=ledger),
                self._list_timeout,
            )
        except BookieUnavailableError:
            if link.over is not None:
                raise
            self._lists = False
            return None
        if answer.status in ABSENT:
            return []
        if answer.status == Status.BAD_REQUEST:
            self._lists = False
            return None
        if answer.status != Status.OK:
            raise self._error(ledger, NO_ENTRY, answer)
        with self._reading_answers():
            return wire3.read_availability(answer.part.data(3))

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        """Raise `UnsupportedError`: these bookies list no ledgers."""
        raise UnsupportedError(f"bookie {self._bookie} of BookKeeper", "a list of its ledgers")

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """Raise `UnsupportedError`: these bookies tell no outlines."""
        raise UnsupportedError(f"bookie {self._bookie} of BookKeeper", "outlines of ledgers")

    async def info(self) -> BookieInfo:
        """See `Bookie.info`. It tells its space; whether it is writable, as last heard."""
        answer = await self._link().call(wire3.info)
        if answer.status != Status.OK:
            raise self._error(0, NO_ENTRY, answer)
        with self._reading_answers():
            total, free = answer.part.number(2, 0), answer.part.number(3, 0)
            return BookieInfo(self._bookie, self._writable, free, total, None, None)


def _tell_both(first: Answered, second: Answered, outcome: Exception | None) -> None:
    first(outcome)
    second(outcome)
