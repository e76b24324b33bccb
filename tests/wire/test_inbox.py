"""Whole messages wait for space that all connections share, and their senders with them."""

from __future__ import annotations

import asyncio
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.quota import Quota
from quire.testing.bookie import MemoryBookie
from quire.wire.framed import GREETING, FramedConnection
from quire.wire.inbox import MESSAGE_COST, Inbox
from tests.support.virtual import virtually
from tests.wire.test_costly_peers import budgets_of
from tests.wire.test_framed import Wire, frame

PEERS = ("a", "b", "c")


class Side:
    """A connection, its messages by number, and what was read of it."""

    def __init__(self, space: Quota, peer: str) -> None:
        self.inbox = Inbox(space, lambda: peer, lambda: None)
        self.sent: deque[bytes] = deque()
        self.cost = 0

    def put(self, size: int) -> None:
        message = bytes([len(self.sent) % 256]) * size
        self.sent.append(message)
        self.inbox.put(message)

    def take(self) -> None:
        self.inbox.done()
        if self.inbox:
            assert self.inbox.take() == self.sent.popleft()


@given(
    st.integers(1, 3000),
    st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 900)), max_size=60),
)
def test_messages_are_read_in_order_within_the_space(
    size: int, steps: list[tuple[int, int | None]]
) -> None:
    async def main() -> None:
        space = Quota(size, max(1, size // 2))
        sides = [Side(space, PEERS[number % 3]) for number in range(5)]
        for number, step in steps:
            if step is None:
                sides[number].take()
            else:
                sides[number].put(step)
            await asyncio.sleep(0)
            assert 0 <= space.free <= size
            assert all(space.held(each) <= space.peer_max for each in PEERS)
        sides.pop().inbox.close()  # a connection that is lost
        for _ in range(200):
            for side in sides:
                side.take()
            await asyncio.sleep(0)
        assert not any(each.sent for each in sides), "each message was read in the end"
        for side in sides:
            side.inbox.close()
        await asyncio.sleep(0)
        assert space.free == size, "what was held is free"

    virtually(main)


class PeerWire(Wire):
    def __init__(self, host: str) -> None:
        super().__init__()
        self._extra["peername"] = (host, 1)  # type: ignore[attr-defined]


def connected(reception: Reception, host: str) -> tuple[FramedConnection, PeerWire]:
    connection = FramedConnection(on_greeted=lambda _: None, budgets=budgets_of(reception))
    wire = PeerWire(host)
    connection.connection_made(wire)
    connection.data_received(GREETING)
    return connection, wire


def test_a_sender_waits_while_there_is_no_space_for_its_messages() -> None:
    async def main() -> None:
        cost = 1000 + MESSAGE_COST
        reception = Reception(MemoryBookie("b1"), "b1", ServiceLimits(received_bytes=4 * cost))
        strangers = [connected(reception, "192.0.2.1") for _ in range(4)]
        for number, (connection, _) in enumerate(strangers):
            connection.data_received(frame(bytes([number]) * 1000))
        assert [wire.is_paused for _, wire in strangers] == [False, False, True, True]
        assert reception.unfinished.total == 2 * cost, "what waits for space is bounded, too"
        friend, its = connected(reception, "192.0.2.2")
        friend.data_received(frame(b"hello"))
        assert (its.is_paused, await friend.read()) == (False, b"hello")
        reads = [asyncio.create_task(connection.read()) for connection, _ in strangers]
        await asyncio.sleep(0)
        assert [each.done() for each in reads] == [True, True, False, False]
        # The runs of the first messages have begun: their space is free.
        reads += [asyncio.create_task(each.read()) for each, _ in strangers[:2]]
        await asyncio.sleep(1)
        assert [await each for each in reads[:4]] == [bytes([each]) * 1000 for each in range(4)]
        assert not any(wire.is_paused for _, wire in strangers)
        assert reception.unfinished.total == 0
        for connection, _ in (*strangers, (friend, its)):
            connection.connection_lost(None)
        await asyncio.gather(*reads, return_exceptions=True)
        assert reception.received.free == 4 * cost

    virtually(main)
