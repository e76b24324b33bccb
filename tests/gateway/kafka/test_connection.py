"""One connection of a client, in memory: order, what is carried out at its end, and what is not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from quire.errors import InvalidRequestError
from quire.gateway.kafka.connection import GRACE_SECONDS, PIPELINED_MAX, KafkaConnection
from quire.gateway.kafka.messages import API_VERSIONS, PRODUCE, Header
from quire.gateway.kafka.server import KafkaServer

if TYPE_CHECKING:
    from quire.gateway.kafka.broker import Broker
    from quire.gateway.kafka.coordinating import Coordinators

FETCH = 1


class Pipe:
    """The side of the client: what it has sent, and what it got."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.got = b""
        self.is_closed = False
        self.is_broken = False

    def write(self, data: bytes) -> None:
        self.got += data

    async def drain(self) -> None:
        if self.is_broken:
            raise ConnectionResetError

    def close(self) -> None:
        self.is_closed = True

    def send(self, *requests: tuple[int, int]) -> None:
        for key, number in requests:
            message = request(key, number)
            self.reader.feed_data(len(message).to_bytes(4) + message)


def request(key: int, number: int) -> bytes:
    """A request with a correlation."""
    version = {PRODUCE: 3, FETCH: 4, API_VERSIONS: 0}[key]
    bodies = {
        PRODUCE: b"\xff\xff" + (1).to_bytes(2) + bytes(4) + bytes(4),
        FETCH: (2**32 - 1).to_bytes(4) + bytes(12) + b"\0" + bytes(4),
        API_VERSIONS: b"",
    }
    header = key.to_bytes(2) + version.to_bytes(2) + number.to_bytes(4) + b"\xff\xff"
    return header + bodies[key]


class Work:
    """Answers requests when it is told to."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self.done: dict[int, asyncio.Event] = {}

    async def answer(self, header: Header, body: Any) -> bytes | None:
        number = header.correlation
        self.begun.append(number)
        try:
            await self.done.setdefault(number, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        if number == 13:
            raise InvalidRequestError("thirteen")
        return b"%d " % number

    def finish(self, *numbers: int) -> None:
        for number in numbers:
            self.done.setdefault(number, asyncio.Event()).set()


class Served:
    def __init__(self) -> None:
        self.pipe, self.work = Pipe(), Work()
        self.connection = KafkaConnection(
            self.pipe.reader,
            cast("asyncio.StreamWriter", self.pipe),
            self.work.answer,
            admits=lambda key: key != API_VERSIONS,
        )
        self.task = asyncio.ensure_future(self.connection.serve())


async def settle() -> None:
    """Let everything happen that needs no more than a moment."""
    await asyncio.sleep(0.001)


async def test_appends_go_side_by_side_and_are_answered_in_order() -> None:
    served = Served()
    served.pipe.send((PRODUCE, 1), (PRODUCE, 2), (FETCH, 3), (PRODUCE, 4))
    await settle()
    assert served.work.begun == [1, 2, 3], "a request after a fetch waits for it"
    served.work.finish(2, 3)
    await settle()
    assert (served.pipe.got, served.work.begun) == (b"", [1, 2, 3, 4])
    served.work.finish(1, 4)
    await settle()
    assert served.pipe.got == b"1 2 3 4 "
    served.pipe.reader.feed_eof()
    await served.task
    assert served.pipe.is_closed


async def test_only_so_many_requests_are_worked_on_at_once() -> None:
    served = Served()
    numbers = range(100, 100 + 2 * PIPELINED_MAX)
    served.pipe.send(*((PRODUCE, number) for number in numbers))
    await settle()
    assert served.work.begun == list(numbers)[:PIPELINED_MAX]
    served.work.finish(*numbers)
    await settle()
    assert served.work.begun == list(numbers)
    served.connection.end()
    await served.task


async def test_what_a_client_sent_before_it_went_is_carried_out() -> None:
    """A producer that asks for no answers may close as soon as it has sent."""
    served = Served()
    served.pipe.send((PRODUCE, 1), (PRODUCE, 2))
    served.pipe.reader.feed_eof()
    await settle()
    assert not served.task.done()
    before = asyncio.get_running_loop().time()
    served.work.finish(1, 2)
    await served.task
    assert (served.work.cancelled, served.pipe.got) == ([], b"1 2 ")
    assert asyncio.get_running_loop().time() - before < GRACE_SECONDS, "nothing is left to do"


async def test_an_end_answers_appends_and_gives_up_what_waits() -> None:
    served = Served()
    served.pipe.send((PRODUCE, 1), (FETCH, 2), (PRODUCE, 3))
    await settle()
    served.connection.end()
    await settle()
    assert (served.work.cancelled, served.pipe.is_closed) == ([2], False)
    served.work.finish(1)
    await served.task
    assert (served.pipe.got, served.work.begun) == (b"1 ", [1, 2])
    assert served.pipe.is_closed


async def test_an_append_that_never_ends_holds_the_end_for_a_grace() -> None:
    served = Served()
    served.pipe.send((PRODUCE, 1))
    await settle()
    served.connection.end()
    before = asyncio.get_running_loop().time()
    await served.task
    assert asyncio.get_running_loop().time() - before == pytest.approx(GRACE_SECONDS)
    assert served.work.cancelled == [1]


async def test_a_broken_connection_gives_everything_up() -> None:
    served = Served()
    served.pipe.is_broken = True
    served.pipe.send((PRODUCE, 1), (PRODUCE, 2))
    served.work.finish(1)
    await served.task
    assert served.work.cancelled == [2]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"\xff\xff\xff\xff", id="size below nothing"),
        pytest.param(b"\x7f\xff\xff\xff", id="size of 2 GiB"),
        pytest.param(b"\0\0\0\x01\0", id="no header"),
        pytest.param(b"\0\0\0\x0b" + request(FETCH, 9)[:11], id="half of a body"),
        pytest.param(b"\0\0\0\x0a" + request(API_VERSIONS, 9), id="not admitted"),
    ],
)
async def test_a_request_that_is_none_ends_the_connection_after_answers(bad: bytes) -> None:
    served = Served()
    served.pipe.send((PRODUCE, 1))
    served.pipe.reader.feed_data(bad)
    await settle()
    assert not served.pipe.is_closed
    served.work.finish(1)
    await served.task
    assert (served.pipe.got, served.work.begun) == (b"1 ", [1])


async def test_a_request_that_fails_ends_the_connection() -> None:
    served = Served()
    served.pipe.send((PRODUCE, 12), (PRODUCE, 13), (PRODUCE, 14))
    served.work.finish(12, 13, 14)
    await served.task
    assert served.pipe.got == b"12 "


async def test_a_connection_that_is_accepted_while_the_port_closes_is_ended() -> None:
    """Its client would ask a gateway forever that has ended, and be told to come again."""
    broker = cast("Broker", SimpleNamespace(tokens=()))
    server = KafkaServer(broker, cast("Coordinators", None))
    await server.close()
    pipe = Pipe()
    await server.connected(pipe.reader, cast("asyncio.StreamWriter", pipe))
    assert pipe.is_closed
