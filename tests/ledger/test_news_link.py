"""A client's end of a connection for subscriptions: what breaks it, and what follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.errors import BookieUnavailableError, ClientRefusedError
from quire.ledger import news_link
from quire.ledger.news_link import NewsLink, PushedTail
from quire.ledger.subscription import PushedNews
from quire.wire import bookie_pb2 as pb
from quire.wire.hello import Refusal
from quire.wire.reads import NoMessageError
from quire.wire.run_calls import StreamOverError, StreamRefusedError
from tests.support.virtual import virtually


class Call:
    """A connection whose bookie says what the test puts in."""

    end = None

    def __init__(self, offer: bool | Exception | None = True) -> None:
        """`offer` is the answer to hello; None: the bookie is silent."""
        self._offer = offer
        self.written: list[pb.NewsRequest] = []
        self.said: asyncio.Queue[pb.NewsReply | Exception | None] = asyncio.Queue()
        self.is_cancelled = False
        self.stream = "5e"

    async def is_offered(self) -> bool:
        await asyncio.sleep(0.001)
        if isinstance(self._offer, Exception):
            raise self._offer
        if self._offer is None:
            await asyncio.sleep(1e6)
            return True
        return self._offer

    async def write(self, *parts: bytes) -> None:
        self.written.append(pb.NewsRequest.FromString(b"".join(parts)))

    async def read(self) -> pb.NewsReply | None:
        said = await self.said.get()
        if isinstance(said, Exception):
            raise said
        return said

    def say(self, **news: object) -> None:
        found = pb.News(**{"subscription": 1, **news})  # type: ignore[arg-type]
        self.said.put_nowait(pb.NewsReply(news=[found]))

    def cancel(self) -> None:
        self.is_cancelled = True


Body = Callable[[NewsLink, list[Call]], Awaitable[None]]


def linked(body: Body, *offers: bool | Exception | None) -> None:
    async def main() -> None:
        calls: list[Call] = []

        def open_call() -> Call:
            calls.append(Call(offers[len(calls)] if offers else True))
            return calls[-1]

        link = NewsLink("b1", open_call, timeout=2.0)
        await body(link, calls)
        await link.close()
        assert all(each.is_cancelled for each in calls)

    virtually(main)


async def subscribe(link: NewsLink) -> PushedTail:
    found = await link.subscribe(7, 3, 4, 10.0)
    assert found is not None
    await asyncio.sleep(0.001)
    return found


def test_it_says_what_it_wants_and_hears_news_in_order() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        (request,) = calls[0].written
        asked = request.subscribe[0]
        assert (request.bookie, asked.ledger, asked.above, asked.first) == ("b1", 7, 3, 4)
        assert (asked.bytes, asked.quiet_ms) == (news_link.CREDIT_BYTES, 10_000)
        calls[0].say(run=b"a run", hint=4)
        calls[0].say(lac_packet=b"a packet", hint=5)
        assert await tail.next() == PushedNews(b"a run", None, 4)
        assert await tail.next() == PushedNews(b"", b"a packet", 5)

    linked(body)


def test_credit_is_given_back_in_halves() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        for _ in range(3):
            calls[0].say(run=bytes(news_link.CREDIT_BYTES // 4))
            await tail.next()
            tail.give_back(9)
            await asyncio.sleep(0.001)
        assert [list(each.credit) for each in calls[0].written[:1]] == [[]]
        (credit,) = [each for request in calls[0].written for each in request.credit]
        assert (credit.subscription, credit.first) == (1, 9)
        assert credit.bytes >= news_link.CREDIT_BYTES // 2

    linked(body)


@pytest.mark.parametrize("subscription", [0, 2])
def test_news_of_no_subscription_break_the_connection(subscription: int) -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        calls[0].say(subscription=subscription)
        with pytest.raises(BookieUnavailableError, match="does not exist"):
            await tail.next()
        assert (await subscribe(link)) is not tail
        assert len(calls) == 2

    linked(body)


def test_a_bookie_that_sends_more_than_its_credit_is_left() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        calls[0].say(run=bytes(news_link.CREDIT_BYTES + 1))
        calls[0].say(run=b"x")
        assert len((await tail.next()).run) == news_link.CREDIT_BYTES + 1
        with pytest.raises(BookieUnavailableError, match="no credit is left"):
            await tail.next()
        assert tail.is_over

    linked(body)


def test_silence_breaks_the_connection_and_all_its_subscriptions() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail, other = await subscribe(link), await subscribe(link)
        now = asyncio.get_running_loop().time
        begun = now()
        with pytest.raises(BookieUnavailableError, match="not even empty ones"):
            await tail.next()
        assert 11 < now() - begun < 13
        assert other.is_over
        assert calls[0].is_cancelled

    linked(body)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "it closed the connection"),
        (StreamOverError("connection reset"), "connection reset"),
        (NoMessageError("junk"), "not a message: junk"),
        (
            pb.NewsReply(
                refusal=pb.Failure(status=pb.INVALID_REQUEST, reason="subscription 1 after 1")
            ),
            "subscription 1 after 1",
        ),
    ],
)
def test_any_end_of_the_connection_ends_its_subscriptions(
    said: pb.NewsReply | Exception | None, reason: str
) -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        calls[0].say(hint=4)
        calls[0].said.put_nowait(said)
        assert (await tail.next()).hint == 4, "what came before is not lost"
        with pytest.raises(Exception, match=reason):
            await tail.next()

    linked(body)


def test_a_failure_ends_one_subscription() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail, other = await subscribe(link), await subscribe(link)
        failure = pb.Failure(status=pb.ENTRY_UNKNOWN, ledger=7, entry=-1, reason="limbo")
        calls[0].say(failure=failure)
        with pytest.raises(Exception, match="limbo"):
            await tail.next()
        assert not other.is_over
        calls[0].say(subscription=1, hint=9)  # on its way when it ended
        calls[0].say(subscription=2, hint=8)
        assert (await other.next()).hint == 8

    linked(body)


def test_a_fence_is_heard_and_ends_it() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        calls[0].say(fenced=True)
        assert (await tail.next()).fenced
        assert tail.is_over

    linked(body)


def test_a_bookie_without_subscriptions_is_left_alone_for_a_while() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        assert await link.subscribe(7, 3, 4, 10.0) is None
        assert await link.subscribe(7, 3, 4, 10.0) is None
        assert len(calls) == 1
        await asyncio.sleep(news_link.LEFT_ALONE_SECONDS)
        await subscribe(link)

    linked(body, False, True)


def test_a_bookie_without_a_place_is_asked_instead() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        assert await link.subscribe(7, 3, 4, 10.0) is None

    linked(body, StreamRefusedError(Refusal("4096 connections are open", is_passing=True)))


def test_a_bookie_that_refuses_this_program_is_an_error() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        with pytest.raises(ClientRefusedError, match="too old"):
            await link.subscribe(7, 3, 4, 10.0)

    linked(body, StreamRefusedError(Refusal("it is too old")))


def test_news_that_are_waited_for_survive_a_cancelled_wait() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        waiting = asyncio.create_task(tail.next())
        await asyncio.sleep(0.001)
        calls[0].say(hint=4)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await tail.next()).hint == 4

    linked(body)


def test_a_link_that_is_closed_makes_no_connection() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        subscribing = asyncio.create_task(link.subscribe(7, 3, 4, 10.0))
        while not calls:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await link.close()
        with pytest.raises(BookieUnavailableError, match="closed"):
            await subscribing

    linked(body)


def test_a_closed_link_opens_no_connection_for_a_later_subscriber() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        await subscribe(link)
        await link.close()
        with pytest.raises(BookieUnavailableError, match=news_link.CLOSED):
            await link.subscribe(7, 3, 4, 10.0)
        assert len(calls) == 1

    linked(body)


def test_subscribers_at_a_silent_bookie_wait_together() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        now = asyncio.get_running_loop().time
        begun = now()
        subscribing = (link.subscribe(ledger, 3, 4, 10.0) for ledger in range(20))
        found = await asyncio.gather(*subscribing, return_exceptions=True)
        assert {str(each) for each in found} == {str(found[0])}
        assert isinstance(found[0], BookieUnavailableError)
        assert len({id(each) for each in found}) == 20, "a traceback belongs to one task"
        assert now() - begun < 3
        assert len(calls) == 1
        await subscribe(link)

    linked(body, None, True)


def test_a_subscriber_that_gives_up_leaves_the_connection_to_the_others() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        gone, other = (asyncio.create_task(link.subscribe(n, 3, 4, 10.0)) for n in (7, 8))
        await asyncio.sleep(0)
        gone.cancel()
        assert await other is not None
        assert len(calls) == 1
        assert not calls[0].is_cancelled

    linked(body)


def test_a_connection_without_subscriptions_is_ended() -> None:
    async def body(link: NewsLink, calls: list[Call]) -> None:
        tail = await subscribe(link)
        await asyncio.sleep(3 * news_link.IDLE_SECONDS)
        assert [each.is_cancelled for each in calls] == [False], "it has a subscription"
        await asyncio.sleep(0.9 * news_link.IDLE_SECONDS)
        tail.close()
        await asyncio.sleep(0.9 * news_link.IDLE_SECONDS)
        assert [each.is_cancelled for each in calls] == [False], "it had one a moment ago"
        await asyncio.sleep(1.1 * news_link.IDLE_SECONDS)
        assert [each.is_cancelled for each in calls] == [True]
        await subscribe(link)
        assert len(calls) == 2

    linked(body)
