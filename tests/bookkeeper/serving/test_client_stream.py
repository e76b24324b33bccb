"""A bookie's end of a connection of Apache's: how long an answer counts, and against which budget.

In virtual time: the client's end is moved by hand, and takes an answer when the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

from quire.bookie import READ_BYTES_MAX
from quire.bookkeeper import wire2, wire3
from quire.bookkeeper.protobuf import encode
from quire.bookkeeper.serving.client_stream import ClientStream
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import SIZE, Operation
from quire.entry import DigestKind, Sealer
from quire.run import pack_run
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.message_turns import MessageTurns
from quire.testing.bookie import MemoryBookie
from quire.wire.framed import ConnectionOverError, FramedConnection
from quire.wire.reads import PART_BYTES_MAX
from quire.wire.tls import Peer
from tests.contract.bookie.subjects import Ported
from tests.support.virtual import virtually

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")
KEY = SEALER.access_key
LARGE = 100_000


def frame(entry: int, size: int = LARGE) -> bytes:
    return SEALER.seal(entry, entry - 1, 1 << 40, b"x" * size)


LAC = wire3.of_ledger(Operation.READ_LAC, 1, LEDGER)
LIST = wire3.of_ledger(Operation.LIST_ENTRIES, 1, LEDGER)
WITH_BODY = {
    "read": wire3.read(1, LEDGER, 0),
    "read last": wire3.read(1, LEDGER, -1),
    "poll": wire3.poll(1, LEDGER, -1, 60_000),
    "read LAC": LAC,
    "list": LIST,
    "second read": wire2.read(LEDGER, 0),
    "batch": wire2.batch_read(1, LEDGER, 0, 2, 0),
}


class Client:
    """A client's end, and the connection as the bookie's end has it."""

    def __init__(self, reception: Reception, bookie: MemoryBookie, owner: str) -> None:
        self.owner = owner
        self.address = f"{owner}:1"
        self.peer = Peer()
        self.room = asyncio.Event()
        self.room.set()
        self.said: list[bytes] = []
        self.writes: list[int] = []
        self._is_over = False
        self._asked: asyncio.Queue[bytes | None] = asyncio.Queue()
        connection = cast("FramedConnection", self)
        self.stream = ClientStream(reception, Ported(bookie), connection, lambda: None)
        self.serving = asyncio.create_task(self.stream.serve())

    # The connection.

    async def read(self) -> bytes | None:
        return await self._asked.get()

    async def write_packed(self, pieces: Sequence[bytes]) -> None:
        await self.room.wait()
        if self._is_over:
            raise ConnectionOverError("it was ended")
        self.writes.append(sum(map(len, pieces)))
        self.said.extend(pieces)

    def abort(self) -> None:
        self._is_over = True
        self._asked.put_nowait(None)
        self.room.set()

    # The client.

    async def ask(self, *messages: bytes) -> None:
        for message in messages:
            self._asked.put_nowait(message[SIZE.size :])
        await settled()

    def heard(self) -> list[bytes]:
        """Return the messages that came since the last look."""
        data, at, found = b"".join(self.said), 0, []
        while at < len(data):
            (size,) = SIZE.unpack_from(data, at)
            found.append(data[at + SIZE.size : at + SIZE.size + size])
            at += SIZE.size + size
        assert at == len(data), "no message is cut"
        self.said.clear()
        return found

    def statuses(self) -> list[int]:
        return [wire3.read_answer(each).status for each in self.heard()]


async def settled() -> None:
    await asyncio.sleep(0.001)  # virtual: everything that can run has run


class Scene:
    def __init__(self, bookie: MemoryBookie, limits: ServiceLimits | None) -> None:
        self.bookie = bookie
        self.reception = Reception(bookie, "b1", limits)

    @asynccontextmanager
    async def client(self, owner: str = "10.0.0.1") -> AsyncIterator[Client]:
        client = Client(self.reception, self.bookie, owner)
        try:
            yield client
        finally:
            client.abort()
            await client.serving

    @property
    def gathered(self) -> int:
        return self.reception.gathering.size - self.reception.gathering.free


def served(body: Callable[[Scene], Awaitable[None]], limits: ServiceLimits | None = None) -> None:
    async def main() -> None:
        scene = Scene(MemoryBookie("b1"), limits)
        await scene.bookie.add(LEDGER, KEY, pack_run([frame(0), frame(1)]))
        await body(scene)
        assert (scene.gathered, scene.reception.unread.total) == (0, 0)
        places = scene.reception
        assert [each.taken for each in (places.reads, places.tails, places.lists)] == [0, 0, 0]

    virtually(main)


@pytest.mark.parametrize("kind", WITH_BODY)
def test_an_answer_that_is_not_taken_counts_as_unread_and_not_as_gathered(kind: str) -> None:
    async def body(scene: Scene) -> None:
        async with scene.client() as client:
            client.room.clear()
            await client.ask(*[WITH_BODY[kind]] * 3)
            assert scene.gathered == 0
            held = scene.reception.unread.total
            client.room.set()
            await settled()
            heard = client.heard()
            assert (len(heard), sum(map(len, heard))) == (3, held)
            assert scene.reception.unread.total == 0

    served(body)


@pytest.mark.parametrize("kind", ["poll", "read LAC"])
def test_answers_that_are_not_taken_are_bounded_by_their_bytes(kind: str) -> None:
    async def body(scene: Scene) -> None:
        async with scene.client() as client:
            client.room.clear()
            await client.ask(*[WITH_BODY[kind]] * 200)
            assert 9 * LARGE < scene.reception.unread.total <= 10 * LARGE
            client.room.set()
            await settled()
            statuses = client.statuses()
            assert sorted(statuses) == [Status.OK] * 9 + [Status.TOO_MANY_REQUESTS] * 191

    served(body, ServiceLimits(unread_bytes=10 * LARGE))


def test_clients_that_take_nothing_hold_up_no_other() -> None:
    async def body(scene: Scene) -> None:
        async with scene.client("10.0.0.2") as one, scene.client("10.0.0.3") as two:
            for client in (one, two):
                client.room.clear()
                await client.ask(*[WITH_BODY["read"]] * 250)
            async with scene.client() as other:
                await other.ask(WITH_BODY["read"])
                assert other.statuses() == [Status.OK]

    served(body)


def test_what_is_gathered_at_once_is_bounded_for_each_kind() -> None:
    async def body(scene: Scene) -> None:
        gathering = scene.reception.gathering
        async with gathering.turn("10.0.0.1", gathering.peer_max), scene.client() as client:
            kinds = ("read", "read last", "read LAC", "list", "poll")
            await client.ask(*(WITH_BODY[each] for each in kinds))
            assert client.heard() == [], "their turn has not come"

    served(body)


def test_a_read_of_one_entry_waits_for_the_space_of_the_largest() -> None:
    async def body(scene: Scene) -> None:
        gathering = scene.reception.gathering
        almost_all = gathering.peer_max - READ_BYTES_MAX
        async with gathering.turn("10.0.0.1", almost_all), scene.client() as client:
            await client.ask(WITH_BODY["read"])
            assert client.heard() == []

    served(body)


def test_a_long_poll_that_waits_gathers_nothing() -> None:
    async def body(scene: Scene) -> None:
        async with scene.client() as client:
            await client.ask(*[wire3.poll(1, LEDGER, 0, 60_000)] * 100)
            assert (scene.reception.waits.taken, scene.gathered) == (100, 0)
            await scene.bookie.add(LEDGER, KEY, pack_run([frame(2)]))
            await settled()
            assert client.statuses() == [Status.OK] * 100

    served(body)


def test_a_client_that_takes_nothing_loses_its_connection() -> None:
    async def body(scene: Scene) -> None:
        async with scene.client() as client:
            client.room.clear()
            await client.ask(WITH_BODY["read LAC"])
            await asyncio.sleep(scene.reception.limits.stalled_seconds + 1)
            assert client.serving.done()
            assert scene.reception.refusals.counts["unread"] == 1

    served(body)


def test_one_that_takes_a_little_keeps_it() -> None:
    async def body(scene: Scene) -> None:
        async with scene.client() as client:
            client.room.clear()
            await client.ask(*[WITH_BODY["read"]] * 5)
            for _ in range(5):
                await asyncio.sleep(0.7 * scene.reception.limits.stalled_seconds)
                client.room.set()
                await asyncio.sleep(0)
                client.room.clear()
            client.room.set()
            await settled()
            assert client.statuses() == [Status.OK] * 5

    served(body)


def test_a_large_answer_is_handed_over_in_parts() -> None:
    """The transport counts as a part, however much it holds back."""

    async def body(scene: Scene) -> None:
        large = frame(2, 3 * PART_BYTES_MAX)
        await scene.bookie.add(LEDGER, KEY, pack_run([large]))
        async with scene.client() as client:
            await client.ask(wire3.read(1, LEDGER, 2))
            assert len(client.writes) == 4
            assert max(client.writes) <= SIZE.size + PART_BYTES_MAX
            (message,) = client.heard()
            assert wire3.read_answer(message).part.data(4) == large

    served(body)


def adds(count: int) -> list[bytes]:
    encode = wire3.AddEncoder(LEDGER, KEY, recovery=False, deferred=False).encode
    return [b"".join(encode(each, [(each, frame(each, 10))])) for each in range(2, 2 + count)]


def test_acks_that_are_not_taken_hold_up_the_adds_of_their_client() -> None:
    async def body(scene: Scene) -> None:
        async with scene.client() as client:
            client.room.clear()
            await client.ask(*adds(100))
            stored = len(scene.bookie.ledgers[LEDGER].frames) - 2
            assert stored <= 3 * scene.reception.limits.runs_per_stream
            client.room.set()
            await settled()
            assert client.statuses() == [Status.OK] * 100

    served(body, ServiceLimits(runs_per_stream=8))


def test_a_client_that_leaves_instead_leaves_nothing() -> None:
    async def body(scene: Scene) -> None:
        async with scene.client() as client:
            client.room.clear()
            await client.ask(*adds(100))
        assert scene.reception.pending.free == scene.reception.pending.size

    served(body, ServiceLimits(runs_per_stream=8))


class Turns:
    """Turns of messages that only count them."""

    def __init__(self) -> None:
        self.charged: list[str] = []

    async def wait(self, peer: str) -> None:
        self.charged.append(peer)


def test_requests_that_cost_little_are_charged_to_their_peer() -> None:
    """Else a peer with many connections keeps the loop from all others."""

    async def body(scene: Scene) -> None:
        turns = Turns()
        scene.reception.messages = cast("MessageTurns", turns)
        async with scene.client() as client:
            await client.ask(LAC, LIST, wire3.of_ledger(Operation.INFO, 1, LEDGER))
            assert turns.charged == 3 * [client.owner]
            wrong = encode([(1, LEDGER), (2, 2), (3, KEY), (4, frame(3))])
            await client.ask(wire3.message(Operation.ADD, 1, wrong))
            assert turns.charged == 4 * [client.owner], "a refused add"
            right = encode([(1, LEDGER), (2, 2), (3, KEY), (4, frame(2))])
            await client.ask(wire3.message(Operation.ADD, 1, right))
            assert turns.charged == 4 * [client.owner]
            assert client.statuses()[-2:] == [Status.BAD_REQUEST, Status.OK]

    served(body)
