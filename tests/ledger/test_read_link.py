"""A client's end of a connection for reads: whose answer is whose, and what breaks it."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    BookieUnavailableError,
    NoSuchEntryError,
    WrongBookieError,
)
from quire.ledger.read_link import (
    IDLE_SECONDS,
)
from quire.wire import bookie_pb2 as pb
from quire.wire.framed_reads import (
    REFUSAL,
    Question,
)
from quire.wire.reads import NoMessageError
from quire.wire.run_calls import StreamOverError
from tests.support.read_links import ASKED, SIZE_MAX, TIMEOUT, Scene, linked


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
