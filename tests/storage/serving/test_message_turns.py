"""One peer's cheap messages, on however many connections, leave each turn of the loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from quire.storage.serving.limits import Reception
from quire.storage.serving.message_turns import MESSAGES_MAX, MessageTurns
from quire.storage.serving.read_stream import ReadStream, decode_reads
from quire.storage.serving.stream_account import Origin
from quire.storage.serving.subscriptions import NewsStream, decode_subscriptions
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.framed_reads import encode_give_up, encode_question
from quire.wire.identity import ANONYMOUS
from quire.wire.transport import EOF

SHARE = MESSAGES_MAX // 2
MESSAGES = 20 * SHARE


class Flood:
    """A connection whose messages are all there: reading one never waits."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = messages
        self.taken = 0

    async def read(self) -> Any:
        if self.taken == len(self._messages):
            return EOF
        self.taken += 1
        return self._messages[self.taken - 1]

    async def send(self, *parts: bytes) -> None:
        """See `ReadContext.send`."""

    async def write(self, message: pb.NewsReply, /) -> None:
        """See `NewsContext.write`."""

    def end(self) -> None:
        raise AssertionError("it takes what it is sent")


def questions(**fields: Any) -> list[Any]:
    given: dict[str, Any] = {"bookie": "b1", "ledger": 99, "bytes_max": 1}
    request = pb.ReadRequest(**(given | fields))
    body = request.SerializeToString()
    numbers = range(1, MESSAGES + 1)
    return [decode_reads(b"".join(encode_question(each, "", body))) for each in numbers]


def give_ups() -> list[Any]:
    return [*questions()[:1], *[decode_reads(encode_give_up(1))] * (MESSAGES - 1)]


def news(**parts: Any) -> list[Any]:
    message = pb.NewsRequest(bookie="b1", **parts).SerializeToString()
    return [decode_subscriptions(message)] * MESSAGES


FLOODS: dict[str, tuple[Any, Callable[[], list[Any]]]] = {
    "give-ups": (ReadStream, give_ups),
    "reads of no ledger": (ReadStream, questions),
    "reads of another bookie": (ReadStream, lambda: questions(bookie="b9")),
    "credit for nothing": (NewsStream, lambda: news(credit=[pb.Credit(subscription=9)])),
    "ends of nothing": (NewsStream, lambda: news(unsubscribe=[9])),
}


@pytest.mark.parametrize("kind", FLOODS)
@pytest.mark.parametrize("connections", [1, 64])
def test_a_flood_takes_its_share_of_a_turn_and_another_peer_is_heard(
    kind: str, connections: int
) -> None:
    use, messages = FLOODS[kind]

    async def main() -> None:
        reception, flood = Reception(MemoryBookie("b1"), "b1"), messages()
        size = len(flood) // connections
        ends = [Flood(flood[:size]) for _ in range(connections)]
        other = Flood(flood[:SHARE])

        def serving(end: Flood, owner: str) -> asyncio.Task[None]:
            stream = use(reception, end, ANONYMOUS, Origin(owner=owner))
            return asyncio.create_task(stream.serve())

        streams = [serving(each, "flood") for each in ends]
        seen, turns = 0, 0
        while seen < connections * size:
            await asyncio.sleep(0)
            taken = sum(each.taken for each in ends)
            # The share, and one message in the hands of each connection that waits.
            assert taken - seen <= SHARE + connections
            seen, turns = taken, turns + 1
            if turns == 3:
                streams.append(serving(other, "other"))
        assert other.taken == SHARE, "it was heard long before the flood was over"
        await asyncio.gather(*streams)

    asyncio.run(main())


def test_parts_of_one_message_count_one_by_one() -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        message = pb.NewsRequest(bookie="b1", unsubscribe=range(1, MESSAGES))
        end = Flood([message])
        serving = asyncio.create_task(NewsStream(reception, end).serve())
        for _ in range(MESSAGES // MESSAGES_MAX):
            await asyncio.sleep(0)
            assert not serving.done()
        await serving

    asyncio.run(main())


def test_a_peer_within_its_share_never_waits() -> None:
    async def main() -> None:
        turns = MessageTurns(8, 4)
        is_next = asyncio.Event()
        asyncio.get_running_loop().call_soon(is_next.set)
        for peer in ("a", "b"):
            for _ in range(4):
                await turns.wait(peer)
        assert not is_next.is_set(), "no turn of the loop passed"
        await turns.wait("a")
        assert is_next.is_set()

    asyncio.run(main())


def test_a_charge_ends_with_its_turn() -> None:
    async def main() -> None:
        turns, passed = MessageTurns(8, 4), 0

        def count() -> None:
            nonlocal passed
            passed += 1

        for _ in range(10):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(count)
            before = passed
            for _ in range(4):
                await turns.wait("a")
            assert passed == before, "it did not wait"

    asyncio.run(main())
