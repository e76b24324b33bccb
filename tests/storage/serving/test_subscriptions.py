"""A bookie's end of a connection for subscriptions: what it sends, when, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quire.entry import DigestKind, Sealer
from quire.errors import CorruptEntryError, EntryUnknownError, UnauthorizedError
from quire.rights.roles import Action
from quire.run import pack_run, split_run
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.subscriptions import NewsStream, decode_subscriptions
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import decode_failure
from quire.wire.news import CREDIT_BYTES_MAX, NEWS_COST
from tests.rights.test_doors import Keeper
from tests.support.news_pipe import NewsPipe
from tests.support.virtual import virtually

SEALER = Sealer(7, DigestKind.CRC32C, b"")
FRAME = len(SEALER.seal(0, -1, 1, b"x" * 100)) + 4


async def add(bookie: MemoryBookie, *entries: int, lac: int = -1) -> None:
    frames = (SEALER.seal(each, min(lac, each - 1), 2**30, b"x" * 100) for each in entries)
    await bookie.add(7, SEALER.access_key, pack_run(frames))


class Talk:
    """A client's end that is moved by hand."""

    def __init__(self, reception: Reception) -> None:
        self.pipe = NewsPipe(reception)

    async def say(self, **parts: object) -> None:
        await self.pipe.write(pb.NewsRequest(bookie="b1", **parts).SerializeToString())  # type: ignore[arg-type]
        await self.settled()

    async def subscribe(self, **fields: int | bytes) -> None:
        given: dict[str, Any] = {
            "subscription": 1,
            "ledger": 7,
            "above": -1,
            "bytes": 10_000,
            "quiet_ms": 60_000,
        }
        await self.say(subscribe=[pb.Subscribe(**(given | fields))])

    async def settled(self) -> None:
        await asyncio.sleep(0.001)

    def heard(self) -> list[tuple[list[int], int, bool]]:
        """Return entries, hint and fence of all news since the last look."""
        found = [
            (
                [entry for entry, _ in split_run(each.run)] if each.run else [],
                each.hint,
                each.fenced,
            )
            for each in self.pipe.news
        ]
        self.pipe.replies.clear()
        return found


Body = Callable[[MemoryBookie, Talk], Awaitable[None]]


@asynccontextmanager
async def talking(reception: Reception) -> AsyncIterator[Talk]:
    talk = Talk(reception)
    try:
        yield talk
    finally:
        await talk.pipe.closed()


def with_bookie(
    body: Body, limits: ServiceLimits | None = None, keeper: Keeper | None = None
) -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        async with talking(Reception(bookie, "b1", limits, doorkeeper=keeper)) as talk:
            await body(bookie, talk)

    virtually(main)


def test_each_entry_is_sent_once_and_what_proves_a_lac_with_it() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await add(bookie, 0, 1, 2, lac=0)
        await talk.subscribe()
        assert talk.heard() == [([0, 1, 2], 0, False)]
        await add(bookie, 3, lac=0)
        await talk.settled()
        assert talk.heard() == [], "no LAC has moved"
        await add(bookie, 4, lac=3)
        await bookie.write_lac(7, SEALER.access_key, SEALER.seal_lac(4))
        await talk.settled()
        entries, hints, _ = zip(*talk.heard(), strict=True)
        assert [each for run in entries for each in run] == [3, 4]
        assert hints[-1] == 4
        assert talk.pipe.news == []

    with_bookie(body)


def test_a_quiet_ledger_is_told_to_be_quiet() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe(quiet_ms=1000)
        await asyncio.sleep(3.5)
        assert talk.heard() == [([], -1, False)] * 3

    with_bookie(body)


def test_nothing_is_sent_without_credit_and_then_the_newest() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe(bytes=1)
        await add(bookie, 0, 1, lac=0)
        await talk.settled()
        assert talk.heard() == [([0], -1, False)], "one message overdraws"
        calls: list[str] = []

        async def before(method: str, _: int) -> None:
            calls.append(method)

        bookie.before = before
        for entry in range(2, 50):
            await add(bookie, entry, lac=entry - 1)
        await talk.settled()
        assert talk.heard() == []
        assert set(calls) == {"add"}, "a client without credit costs nothing"
        await talk.say(credit=[pb.Credit(subscription=1, bytes=5000, first=40)])
        assert talk.heard() == [(list(range(40, 50)), 48, False)]

    with_bookie(body)


def test_a_long_stretch_comes_in_pieces_and_the_hint_with_its_proof() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await add(bookie, *range(10), lac=2)
        await add(bookie, 10, lac=9)
        await talk.subscribe(bytes=2 * FRAME + 2 * NEWS_COST)
        pieces = talk.heard()
        sent = [each for entries, _, _ in pieces for each in entries]
        assert sent == list(range(len(sent)))
        assert 1 < len(sent) < 10
        assert all(hint < entries[-1] and hint <= 2 for entries, hint, _ in pieces)
        await talk.say(credit=[pb.Credit(subscription=1, bytes=9999)])
        entries, hints, _ = zip(*talk.heard(), strict=True)
        assert [each for run in entries for each in run] == list(range(len(sent), 11))
        assert hints[-1] == 9

    with_bookie(body)


def test_damaged_entries_are_left_to_be_read() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await add(bookie, 0, 1, lac=0)

        async def read(*_: object, **__: object) -> bytes:
            raise CorruptEntryError(7, 0, "its digest does not match")

        bookie.read = read  # type: ignore[method-assign]
        await talk.subscribe()
        assert talk.heard() == [([], 0, False)]
        await add(bookie, 2, lac=1)
        await talk.settled()
        assert talk.heard() == [([2], 1, False)]

    with_bookie(body)


def test_a_fence_is_the_last_news() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe()
        await add(bookie, 0)
        await bookie.read_tail(7, fence_key=SEALER.access_key)
        await talk.settled()
        assert talk.heard() == [([0], -1, True)]
        await talk.say(credit=[pb.Credit(subscription=1, bytes=1)])
        await bookie.write_lac(8, b"k", Sealer(8, DigestKind.CRC32C, b"").seal_lac(0))
        assert talk.heard() == []

    with_bookie(body)


def test_a_dropped_ledger_ends_it_as_a_fence_does() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe()
        bookie.retire(7)
        await talk.settled()
        assert talk.heard() == [([], -1, True)]

    with_bookie(body)


def test_an_error_ends_one_subscription_and_no_other() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe()
        await talk.subscribe(subscription=2, ledger=8)

        async def before(method: str, ledger: int) -> None:
            if ledger == 8 and method == "wait_tail":
                raise EntryUnknownError(8, -1, "it is in limbo")

        bookie.before = before
        await bookie.add(8, b"k", pack_run([Sealer(8, DigestKind.CRC32C, b"").seal(1, 0, 9, b"y")]))
        await talk.settled()
        await talk.say(credit=[pb.Credit(subscription=2, bytes=1)])
        failed = [each for each in talk.pipe.news if each.HasField("failure")]
        assert [each.subscription for each in failed] == [2]
        talk.pipe.replies.clear()
        await add(bookie, 0, 1, lac=0)
        await talk.settled()
        assert [each.subscription for each in talk.pipe.news] == [1]

    with_bookie(body)


def test_a_subscription_that_is_ended_sends_no_more() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe()
        await talk.say(unsubscribe=[1])
        await add(bookie, 0, 1, lac=0)
        await talk.settled()
        assert talk.heard() == []
        assert not talk.pipe.serving.done()

    with_bookie(body)


def test_a_right_that_is_taken_away_ends_it() -> None:
    keeper = Keeper()

    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe()
        await add(bookie, 0, 1, lac=0)
        await talk.settled()
        assert talk.heard() == [([0, 1], 0, False)]
        assert sum(keeper.asked.values()) == 1
        keeper.denied = {Action.READ}
        await add(bookie, 2, lac=1)
        await talk.settled()
        (news,) = talk.pipe.news
        assert not news.run
        assert "Permitted" in type(decode_failure(news.failure)).__name__

    with_bookie(body, keeper=keeper)


def test_news_of_a_ledger_whose_reads_need_its_key_need_it_too() -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        reception = Reception(bookie, "b1", lets_read=lambda ledger, key: key == b"right")
        async with talking(reception) as talk:
            await add(bookie, 0, 1, lac=0)
            for number, key in ((1, b""), (2, b"wrong")):
                await talk.subscribe(subscription=number, key=key)
                (news,) = talk.pipe.news
                assert isinstance(decode_failure(news.failure), UnauthorizedError)
                talk.pipe.replies.clear()
            await talk.subscribe(subscription=3, key=b"right")
            assert talk.heard() == [([0, 1], 0, False)]

    virtually(main)


def test_subscriptions_share_the_places_of_clients_that_wait() -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        await talk.subscribe()
        await talk.subscribe(subscription=2)
        (news,) = talk.pipe.news
        assert news.subscription == 2
        assert "reads wait for entries" in str(decode_failure(news.failure))

    with_bookie(body, ServiceLimits(waits=2))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"bookie": "b2"}, "b2"),
        ({}, "without parts"),
        ({"subscribe": [pb.Subscribe(subscription=0)]}, "numbers grow"),
        ({"subscribe": [pb.Subscribe(subscription=1, bytes=CREDIT_BYTES_MAX + 1)]}, "at most"),
        (
            {
                "subscribe": [pb.Subscribe(subscription=1, bytes=1)],
                "credit": [pb.Credit(subscription=1, bytes=CREDIT_BYTES_MAX)],
            },
            "at most",
        ),
    ],
)
def test_a_client_that_breaks_the_rules_is_refused(parts: dict[str, object], reason: str) -> None:
    async def body(bookie: MemoryBookie, talk: Talk) -> None:
        message = pb.NewsRequest(**({"bookie": "b1"} | parts))  # type: ignore[arg-type]
        await talk.pipe.write(message.SerializeToString())
        await talk.settled()
        assert reason in str(decode_failure(talk.pipe.replies[-1].refusal))
        assert talk.pipe.serving.done()

    with_bookie(body)


def test_the_end_of_a_connection_ends_all_its_subscriptions() -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        reception = Reception(bookie, "b1")
        async with talking(reception) as talk:
            await talk.subscribe()
            assert reception.waits.taken == 1
            assert [each.ledger for each in reception.in_use().uses] == [7]
        assert reception.waits.taken == 0
        await reception.ended()

    virtually(main)


def test_a_client_that_has_left_is_no_error_of_the_bookie(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A stranger could fill the log with tracebacks: it subscribes, and leaves before the news."""

    class Left:
        def __init__(self) -> None:
            ask = pb.Subscribe(subscription=1, ledger=7, above=-1, bytes=1000, quiet_ms=10)
            self.said = [pb.NewsRequest(bookie="b1", subscribe=[ask])]

        async def read(self) -> object:
            if self.said:
                return self.said.pop()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

        async def write(self, message: pb.NewsReply, /) -> None:
            raise ConnectionError("the connection is closed")

        def end(self) -> None:
            raise AssertionError("it takes what it is sent")

    async def main() -> None:
        bookie = MemoryBookie("b1")
        await add(bookie, 0, 1, lac=0)
        reception = Reception(bookie, "b1")
        with pytest.raises(ConnectionError, match="is closed"):
            await NewsStream(reception, Left()).serve()
        assert reception.waits.taken == 0

    virtually(main)
    assert [each.message for each in caplog.records if "internal error" in each.message] == []


def test_a_bookie_that_ends_tells_its_subscribers() -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        reception = Reception(bookie, "b1")
        async with talking(reception) as talk:
            await talk.subscribe()
            await reception.drain()
            await add(bookie, 0, 1, lac=0)
            await talk.settled()
            assert [bool(each.run) for each in talk.pipe.news] == [True, False]
            assert "shutting down" in str(decode_failure(talk.pipe.news[-1].failure))

    virtually(main)


def test_junk_is_refused_by_name() -> None:
    with pytest.raises(Exception, match="cannot be decoded"):
        decode_subscriptions(b"\xff\xff")


def test_followers_are_counted_and_those_without_credit() -> None:
    async def main() -> None:
        bookie, reception = MemoryBookie("b1"), Reception(MemoryBookie("b1"), "b1")
        reception.bookie = bookie
        async with talking(reception) as talk:
            await add(bookie, 0, 1, lac=0)
            await talk.subscribe(bytes=1)
            told = reception.news.counters()
            assert (told["subscription_clients"], told["subscriptions_open"]) == (1, 1)
            assert (told["subscriptions_without_credit"], told["subscription_credit_waits"]) == (
                1,
                1,
            )
            pushed = [told[f"subscription_{each}"] for each in ("messages", "entries")]
            assert pushed == [1, 1]
            assert told["subscription_bytes"] > 0
            await talk.say(credit=[pb.Credit(subscription=1, bytes=10_000, first=1)])
            assert reception.news.counters()["subscriptions_without_credit"] == 0
        told = reception.news.counters()
        assert (told["subscription_clients"], told["subscriptions_open"]) == (0, 0)
        assert told["subscription_credit_waits"] == 1, "what was counted stays"

    virtually(main)
