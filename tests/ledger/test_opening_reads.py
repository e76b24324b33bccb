"""How a client comes to a connection for reads, and how long its reads wait for one."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    UntrustedBookieError,
)
from quire.ledger.news_link import LEFT_ALONE_SECONDS
from quire.ledger.read_link import (
    MUTE_MAX,
    PATIENCE_SECONDS,
    PATIENCE_SHARE,
    UNREACHED_SECONDS,
)
from quire.wire.hello import Refusal
from quire.wire.reads import NoMessageError
from quire.wire.run_calls import StreamOverError, StreamRefusedError, StreamUntrustedError
from tests.support.read_links import TIMEOUT, Offer, Scene, linked, now


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


@pytest.mark.parametrize(
    "answer",
    [StreamRefusedError(Refusal("too old")), NoMessageError("http"), StreamOverError("end")],
)
def test_a_slow_denial_costs_a_moment_once_in_a_while(answer: Exception) -> None:
    async def body(scene: Scene) -> None:
        assert await scene.read() is None
        await asyncio.sleep(1.2 * PATIENCE_SECONDS)
        for pause in (0.0, UNREACHED_SECONDS, LEFT_ALONE_SECONDS / 2):
            await asyncio.sleep(pause)
            begun = now()
            assert await scene.read() is None
            assert now() - begun < 0.01
        assert len(scene.calls) == 1

    linked(body, (1.1 * PATIENCE_SECONDS, answer))


def test_a_read_leaves_time_for_the_other_way() -> None:
    async def body(scene: Scene) -> None:
        begun = now()
        assert await scene.read() is None
        assert now() - begun == pytest.approx(PATIENCE_SHARE * 0.4)

    linked(body, None, timeout=0.4)


def test_a_connection_that_breaks_behind_its_hello_sends_its_reads_another_way() -> None:
    async def body(scene: Scene) -> None:
        reads = [scene.read() for _ in range(5)]
        await asyncio.sleep(0)
        scene.calls[0].said.put_nowait(None)
        assert set(await asyncio.gather(*reads)) == {None}
        assert scene.calls[0].asked == []

    linked(body)


def test_a_port_that_says_hello_only_is_left_alone() -> None:
    async def body(scene: Scene) -> None:
        for each in range(MUTE_MAX):
            (read,) = await scene.reading()
            scene.calls[each].said.put_nowait(None)
            with pytest.raises(BookieUnavailableError, match="closed the connection"):
                await read
        assert await scene.read() is None
        assert len(scene.calls) == MUTE_MAX
        await asyncio.sleep(LEFT_ALONE_SECONDS + 0.1)
        (read,) = await scene.reading()
        scene.calls[MUTE_MAX].say(1, b"one")
        assert await read == b"one"

    linked(body)


def test_a_connection_that_answered_counts_as_none_that_said_hello_only() -> None:
    async def body(scene: Scene) -> None:
        for each in range(2 * MUTE_MAX):
            (first,) = await scene.reading()
            if each % MUTE_MAX:
                scene.calls[each].say(1, b"one")
                assert await first == b"one"
            (read,) = await scene.reading()
            scene.calls[each].said.put_nowait(None)
            done = await asyncio.gather(first, read, return_exceptions=True)
            assert isinstance(done[1], BookieUnavailableError)

    linked(body)


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


@pytest.mark.parametrize("offer", [None, 1.0, True])
@pytest.mark.parametrize("turns", range(4))
def test_a_link_that_is_closed_in_any_turn_of_a_first_read_keeps_nothing(
    turns: int, offer: Offer
) -> None:
    async def body(scene: Scene) -> None:
        begun, read = now(), scene.read()
        for _ in range(1 + turns):
            await asyncio.sleep(0)
        await scene.link.close()
        with pytest.raises(BookieUnavailableError, match="was closed"):
            await read
        assert now() == begun

    linked(body, offer)


def test_closing_that_is_cancelled_ended_the_connections() -> None:
    async def body(scene: Scene) -> None:
        (old,) = await scene.reading()
        scene.outdated.append(scene.calls[0])
        new = scene.read()
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(scene.link.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert [each.is_cancelled for each in scene.calls] == [True, True]
        for each in (old, new):
            with pytest.raises(BookieUnavailableError, match="was closed"):
                await each

    linked(body, True, None)
