"""A client's end of a connection for reads: whose answer is whose, and what breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    NoSuchEntryError,
    UntrustedBookieError,
    WrongBookieError,
)
from quire.ledger.news_link import LEFT_ALONE_SECONDS
from quire.ledger.read_link import IDLE_SECONDS, PATIENCE_SECONDS, UNREACHED_SECONDS, ReadLink
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import encode_failure
from quire.wire.framed_reads import (
    REFUSAL,
    Question,
    decode_question,
    encode_answer,
    encode_failed,
)
from quire.wire.hello import Refusal
from quire.wire.reads import NoMessageError
from quire.wire.run_calls import StreamOverError, StreamRefusedError, StreamUntrustedError
from tests.support.virtual import virtually

TIMEOUT = 2.0
SIZE_MAX = 1000
ASKED = pb.ReadRequest(bookie="b1", ledger=7, first=3, last=9)

Offer = bool | float | Exception | None
"""None: it never says hello. A number: it does after so many seconds."""


class Call:
    """A connection whose bookie says what the test puts in."""

    end = None

    def __init__(self, offer: Offer = True) -> None:
        self._offer = offer
        self.asked: list[Question] = []
        self.said: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.is_cancelled = False
        self.ended = asyncio.Event()
        self.is_stuck = False
        """Whether nothing leaves any more."""
        self.over: StreamOverError | None = None
        self._met: asyncio.Future[None] | None = None

    async def is_offered(self) -> bool:
        await self._hello(0.001)
        if self._offer is None:
            await self._hello(1000)
        if type(self._offer) is float:
            await self._hello(self._offer)
        if isinstance(self._offer, Exception):
            raise self._offer
        return bool(self._offer)

    async def _hello(self, seconds: float) -> None:
        """Take some time, or until the connection is given up."""
        self._met = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._met, seconds)
            raise StreamOverError("closed by the client")

    async def write(self, *parts: bytes) -> None:
        if self.is_stuck:
            await self.ended.wait()
        if self.is_cancelled:
            raise StreamOverError("closed by the client")
        if self.over is not None:
            raise self.over
        self.asked.append(decode_question(b"".join(parts)))

    async def read(self) -> bytes | None:
        said = await self.said.get()
        if isinstance(said, Exception):
            raise said
        return said

    def say(self, number: int, run: bytes) -> None:
        for pieces in encode_answer(number, run):
            self.said.put_nowait(b"".join(pieces))

    def fail(self, number: int, error: Exception) -> None:
        self.said.put_nowait(b"".join(encode_failed(number, encode_failure(error, "b1"))))

    def cancel(self) -> None:
        self.is_cancelled = True
        self.ended.set()
        if self._met is not None and not self._met.done():
            self._met.set_result(None)
        self.said.put_nowait(StreamOverError("closed by the client"))


class Scene:
    """A link, and the calls that it opened."""

    def __init__(self, *offers: Offer) -> None:
        self._offers = offers
        self.calls: list[Call] = []
        self.outdated: list[Call] = []
        self.link = ReadLink(
            "b1", self._open, TIMEOUT, SIZE_MAX, lambda call: call in self.outdated
        )

    def _open(self) -> Call:
        at = len(self.calls)
        self.calls.append(Call(self._offers[at] if at < len(self._offers) else True))
        return self.calls[-1]

    def read(self, request_id: str = "") -> asyncio.Task[bytes | None]:
        return asyncio.create_task(self.link.read(ASKED, request_id))

    async def reading(self, count: int = 1) -> list[asyncio.Task[bytes | None]]:
        """Return reads that were asked."""
        found = [self.read() for _ in range(count)]
        await asyncio.sleep(0.01)
        return found


def now() -> float:
    return asyncio.get_running_loop().time()


Body = Callable[[Scene], Awaitable[None]]


def linked(body: Body, *offers: Offer) -> None:
    async def main() -> None:
        scene = Scene(*offers)
        before = asyncio.all_tasks()
        await body(scene)
        await scene.link.close()
        assert all(each.is_cancelled for each in scene.calls)
        await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == before, "no task is left"

    virtually(main)


def test_answers_find_their_questions_in_any_order() -> None:
    async def body(scene: Scene) -> None:
        reads = await scene.reading(3)
        (call,) = scene.calls
        assert [each.number for each in call.asked] == [1, 2, 3]
        assert all(each.request == ASKED for each in call.asked)
        call.say(3, b"three")
        call.fail(1, NoSuchEntryError(7, 3))
        call.say(2, b"two")
        with pytest.raises(NoSuchEntryError):
            await reads[0]
        assert [await each for each in reads[1:]] == [b"two", b"three"]

    linked(body)


def test_parts_of_two_answers_may_take_turns() -> None:
    async def body(scene: Scene) -> None:
        reads = await scene.reading(2)
        halves = [pb.ReadReply(size=4, part=each).SerializeToString() for each in (b"ab", b"cd")]
        for half in halves:
            for number in (b"\x02", b"\x01"):
                scene.calls[0].said.put_nowait(number + half)
        assert [await each for each in reads] == [b"abcd", b"abcd"]

    linked(body)


def test_an_answer_that_is_wanted_no_more_is_given_up() -> None:
    async def body(scene: Scene) -> None:
        given_up, kept = await scene.reading(2)
        given_up.cancel()
        await asyncio.sleep(0.01)
        assert scene.calls[0].asked[-1] == Question(1, "", None)
        scene.calls[0].say(1, b"one")  # it was on its way
        scene.calls[0].say(2, b"two")
        assert await kept == b"two"

    linked(body)


def test_a_late_answer_ends_its_read_only() -> None:
    async def body(scene: Scene) -> None:
        late, other = await scene.reading(2)
        await asyncio.sleep(TIMEOUT / 2)
        scene.calls[0].say(2, b"two")
        assert await other == b"two"
        with pytest.raises(BookieUnavailableError, match="no answer within 2 s"):
            await late
        (read,) = await scene.reading()
        scene.calls[0].say(3, b"three")
        assert await read == b"three"
        assert len(scene.calls) == 1

    linked(body)


def test_a_connection_without_a_word_is_used_no_more() -> None:
    async def body(scene: Scene) -> None:
        first = scene.read()
        await asyncio.sleep(TIMEOUT / 2)
        second = scene.read()
        with pytest.raises(BookieUnavailableError, match="no answer within"):
            await first
        (third,) = await scene.reading()
        scene.calls[0].say(2, b"two")  # it was slow, and has its own time
        scene.calls[1].say(1, b"one")
        assert (await second, await third) == (b"two", b"one")
        assert scene.calls[0].is_cancelled

    linked(body)


def test_a_question_that_cannot_leave_in_time_ends_the_connection() -> None:
    async def body(scene: Scene) -> None:
        (first,) = await scene.reading()
        scene.calls[0].is_stuck = True
        late = await scene.reading(3)
        for _ in range(4):  # other answers come meanwhile
            await asyncio.sleep(TIMEOUT / 4)
            scene.calls[0].say(1, b"one")
        assert await first == b"one"
        for each in late:
            with pytest.raises(BookieUnavailableError, match="no answer within"):
                await each
        assert scene.calls[0].is_cancelled

    linked(body)


def test_a_connection_without_use_is_ended() -> None:
    async def body(scene: Scene) -> None:
        (read,) = await scene.reading()
        await asyncio.sleep(TIMEOUT / 2)
        scene.calls[0].say(1, b"one")
        assert await read == b"one"
        await asyncio.sleep(IDLE_SECONDS / 2)
        assert [each.is_cancelled for each in scene.calls] == [False]
        await asyncio.sleep(2 * IDLE_SECONDS)
        assert [each.is_cancelled for each in scene.calls] == [True]
        (read,) = await scene.reading()
        scene.calls[1].say(1, b"one")
        assert await read == b"one"

    linked(body)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x02\x08\x01\x12\x01a", "was not asked"),
        (b"\x80", "cannot be decoded"),
        (b"\x01" + pb.ReadReply(size=5, part=b"").SerializeToString(), "0 of 5 bytes"),
        (b"\x01" + pb.ReadReply(size=1, part=b"ab").SerializeToString(), "2 of 1 bytes"),
        (b"\x01" + pb.ReadReply(size=SIZE_MAX + 1, part=b"a").SerializeToString(), "of 1001 bytes"),
        (b"\x00" + pb.ReadReply(size=1, part=b"a").SerializeToString(), "without a reason"),
        (StreamOverError("connection reset"), "connection reset"),
        (NoMessageError("bytes"), "bytes"),
        (None, "closed the connection"),
    ],
)
def test_what_breaks_a_connection(said: bytes | Exception | None, reason: str) -> None:
    async def body(scene: Scene) -> None:
        (read,) = await scene.reading()
        scene.calls[0].said.put_nowait(said)
        with pytest.raises(BookieUnavailableError, match=reason):
            await read
        assert scene.calls[0].is_cancelled
        (read,) = await scene.reading()
        scene.calls[1].say(1, b"one")
        assert await read == b"one"

    linked(body)


def test_a_refused_connection_says_why() -> None:
    async def body(scene: Scene) -> None:
        (read,) = await scene.reading()
        scene.calls[0].fail(REFUSAL, WrongBookieError("the server", "bookie b1", "bookie b2"))
        with pytest.raises(WrongBookieError):
            await read

    linked(body)


@pytest.mark.parametrize(
    ("offer", "seconds"),
    [
        (False, LEFT_ALONE_SECONDS),
        (StreamRefusedError(Refusal("it is full", is_passing=True)), LEFT_ALONE_SECONDS),
        (StreamOverError("connection refused"), UNREACHED_SECONDS),
    ],
)
def test_a_bookie_without_reads_is_asked_otherwise_for_a_while(
    offer: Offer, seconds: float
) -> None:
    async def body(scene: Scene) -> None:
        found = await asyncio.gather(scene.read(), scene.read())
        assert set(found) == {None}
        assert await scene.read() is None
        assert len(scene.calls) == 1
        await asyncio.sleep(seconds + 0.1)
        (read,) = await scene.reading()
        scene.calls[1].say(1, b"one")
        assert await read == b"one"

    linked(body, offer)


@pytest.mark.parametrize(
    ("offer", "error"),
    [
        (StreamRefusedError(Refusal("too old")), ClientRefusedError),
        (StreamUntrustedError("its certificate"), UntrustedBookieError),
        (NoMessageError("not a hello"), BookieUnavailableError),
    ],
)
def test_a_hello_that_denies_is_raised(offer: Offer, error: type[Exception]) -> None:
    async def body(scene: Scene) -> None:
        with pytest.raises(error):
            await scene.read()

    linked(body, offer)


def test_reads_that_wait_for_a_hello_share_its_outcome() -> None:
    async def body(scene: Scene) -> None:
        reads = [scene.read() for _ in range(5)]
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert {type(each) for each in found} == {ClientRefusedError}
        assert len(scene.calls) == 1

    linked(body, StreamRefusedError(Refusal("too old")))


def test_a_port_that_says_nothing_costs_a_moment_once_in_a_while() -> None:
    async def body(scene: Scene) -> None:
        begun = now()
        assert set(await asyncio.gather(*(scene.read() for _ in range(3)))) == {None}
        assert now() - begun == pytest.approx(PATIENCE_SECONDS, abs=0.01)
        for pause in (0.0, TIMEOUT, LEFT_ALONE_SECONDS - 1):  # it is being opened; it is left alone
            await asyncio.sleep(pause)
            begun = now()
            assert await scene.read() is None
            assert now() - begun < 0.01
            assert len(scene.calls) == 1
        assert scene.calls[0].is_cancelled
        await asyncio.sleep(1)
        (read,) = await scene.reading()
        scene.calls[1].say(1, b"one")
        assert await read == b"one"

    linked(body, None)


def test_a_slow_hello_sends_its_reads_another_way_and_serves_those_after_it() -> None:
    async def body(scene: Scene) -> None:
        assert await scene.read() is None
        await asyncio.sleep(TIMEOUT / 2)
        (read,) = await scene.reading()
        scene.calls[0].say(1, b"one")
        assert await read == b"one"
        assert len(scene.calls) == 1

    linked(body, TIMEOUT / 2)


def test_the_time_for_a_hello_is_taken_from_the_answers() -> None:
    async def body(scene: Scene) -> None:
        begun = now()
        with pytest.raises(BookieUnavailableError, match="no answer within 2 s"):
            await scene.read()
        assert now() - begun == pytest.approx(TIMEOUT, abs=0.01)
        (read,) = await scene.reading()
        scene.calls[0].say(2, b"two")  # the connection was silent for a part of that time only
        assert await read == b"two"
        assert len(scene.calls) == 1

    linked(body, 0.9 * PATIENCE_SECONDS)


def test_a_read_that_is_cancelled_while_it_connects_says_nothing_of_the_bookie() -> None:
    async def body(scene: Scene) -> None:
        first, second = scene.read(), scene.read()
        await asyncio.sleep(0.0005)
        first.cancel()
        await asyncio.sleep(0.01)
        (third,) = await scene.reading()
        (call,) = scene.calls
        call.say(1, b"two")
        call.say(2, b"three")
        assert (await second, await third) == (b"two", b"three")

    linked(body)


@pytest.mark.parametrize("offer", [None, 1.0, False])
def test_a_link_that_is_closed_while_it_connects_ends_its_reads(offer: Offer) -> None:
    async def body(scene: Scene) -> None:
        reads = [scene.read() for _ in range(3)]
        await asyncio.sleep(0.0005)
        await scene.link.close()
        done = asyncio.gather(*reads, return_exceptions=True)
        found = await asyncio.wait_for(done, 0.1)
        assert [type(each) for each in found] == [BookieUnavailableError] * 3
        assert "was closed" in str(found[0])

    linked(body, offer)


def test_new_certificates_begin_a_connection_and_the_old_one_answers_to_its_end() -> None:
    async def body(scene: Scene) -> None:
        (old,) = await scene.reading()
        first = scene.calls[0]
        scene.outdated.append(first)
        (new,) = await scene.reading()
        assert not first.is_cancelled
        scene.calls[1].say(1, b"new")
        first.say(1, b"old")
        assert (await old, await new) == (b"old", b"new")
        assert first.is_cancelled

    linked(body)


def test_a_link_that_is_closed_ends_its_reads() -> None:
    async def body(scene: Scene) -> None:
        reads = await scene.reading(2)
        await scene.link.close()
        for each in reads:
            with pytest.raises(BookieUnavailableError, match="was closed"):
                await each
        with pytest.raises(BookieUnavailableError, match="was closed"):
            await scene.read()

    linked(body)


def test_a_question_that_cannot_be_sent_is_an_unavailable_bookie() -> None:
    async def body(scene: Scene) -> None:
        (read,) = await scene.reading()
        scene.calls[0].say(1, b"one")
        assert await read == b"one"
        scene.calls[0].over = StreamOverError("broken pipe")
        with pytest.raises(BookieUnavailableError, match="broken pipe"):
            await scene.read()

    linked(body)
