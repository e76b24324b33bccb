"""One connection of a client, in memory: order, what is carried out at its end, and what is not."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from quire.errors import InvalidRequestError
from quire.gateway.kafka.connection import (
    ANSWER_SECONDS,
    CLOSE_SECONDS,
    COMMITS_MAX,
    CONNECTION_BYTES_MAX,
    FRAME_SECONDS,
    GRACE_SECONDS,
    LOGIN_SECONDS,
    PIPELINED_MAX,
    KafkaConnection,
)
from quire.gateway.kafka.messages import (
    API_VERSIONS,
    FIRST_BYTES_MAX,
    FRAME_BYTES_MAX,
    OFFSET_COMMIT,
    PRODUCE,
    Header,
)
from quire.gateway.kafka.server import KafkaServer
from quire.gateway.limits import Admission, GatewayLimits
from quire.gateway.space import ConnectionPlaces, Space
from quire.wire.issuing import DAY
from quire.wire.tls import serving_context
from tests.support.silent_tls import shake_hands
from tests.wire.certificates import authority

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
        self.is_aborted = False
        self.takes = asyncio.Event()
        self.takes.set()
        self.goes = asyncio.Event()
        self.goes.set()
        self.transport = self

    def write(self, data: bytes) -> None:
        self.got += data

    async def drain(self) -> None:
        if self.is_broken:
            raise ConnectionResetError
        await self.takes.wait()

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True

    async def wait_closed(self) -> None:
        await self.goes.wait()

    def send(self, *requests: tuple[int, int]) -> None:
        for key, number in requests:
            message = request(key, number)
            self.reader.feed_data(len(message).to_bytes(4) + message)


def request(key: int, number: int) -> bytes:
    """A request with a correlation."""
    version = {PRODUCE: 3, FETCH: 4, OFFSET_COMMIT: 3, API_VERSIONS: 0}[key]
    bodies = {
        PRODUCE: b"\xff\xff" + (1).to_bytes(2) + bytes(4) + bytes(4),
        OFFSET_COMMIT: bytes(2) + bytes(4) + bytes(2) + bytes(8) + bytes(4),
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
    def __init__(
        self, admission: Admission | None = None, space: Space | None = None, is_known: bool = True
    ) -> None:
        self.pipe, self.work = Pipe(), Work()
        self.admission = admission or Admission(GatewayLimits())
        self.is_known = is_known
        self.spoke = 0
        self.connection = KafkaConnection(
            *(self.pipe.reader, cast("asyncio.StreamWriter", self.pipe), self.work.answer),
            is_known=lambda: self.is_known,
            space=space or Space(self.admission),
            spoke=self.note,
        )
        self.task = asyncio.ensure_future(self.connection.serve())

    def note(self) -> None:
        self.spoke += 1

    async def over(self) -> float:
        """Wait for the end; return how long it took."""
        before = asyncio.get_running_loop().time()
        await self.task
        assert self.admission.bytes == 0, "all space was given back"
        return asyncio.get_running_loop().time() - before


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
    await served.over()
    assert served.pipe.is_closed


async def test_commits_go_side_by_side_and_other_requests_wait_for_them() -> None:
    served = Served()
    served.pipe.send((OFFSET_COMMIT, 1), (OFFSET_COMMIT, 2), (FETCH, 3), (OFFSET_COMMIT, 4))
    await settle()
    assert served.work.begun == [1, 2], "the fetch would not see what they write"
    served.work.finish(2)
    await settle()
    assert served.work.begun == [1, 2]
    served.work.finish(1)
    await settle()
    assert (served.work.begun, served.pipe.got) == ([1, 2, 3], b"1 2 ")
    served.work.finish(3)
    await settle()
    served.connection.end()
    served.work.finish(4)
    await served.over()
    assert (served.pipe.got, served.work.cancelled) == (b"1 2 3 4 ", [])


@pytest.mark.parametrize(("key", "most"), [(PRODUCE, PIPELINED_MAX), (OFFSET_COMMIT, COMMITS_MAX)])
async def test_only_so_many_requests_are_worked_on_at_once(key: int, most: int) -> None:
    served = Served()
    numbers = range(100, 100 + 2 * most)
    served.pipe.send(*((key, number) for number in numbers))
    await settle()
    assert served.work.begun == list(numbers)[:most]
    served.work.finish(*numbers)
    await settle()
    assert served.work.begun == list(numbers)
    served.connection.end()
    await served.over()


async def test_what_a_client_sent_before_it_went_is_carried_out() -> None:
    """A producer that asks for no answers may close as soon as it has sent."""
    served = Served()
    served.pipe.send((PRODUCE, 1), (PRODUCE, 2))
    served.pipe.reader.feed_eof()
    await settle()
    assert not served.task.done()
    served.work.finish(1, 2)
    assert await served.over() < GRACE_SECONDS, "nothing is left to do"
    assert (served.work.cancelled, served.pipe.got) == ([], b"1 2 ")


async def test_an_end_answers_appends_and_gives_up_what_waits() -> None:
    served = Served()
    served.pipe.send((PRODUCE, 1), (FETCH, 2), (PRODUCE, 3))
    await settle()
    served.connection.end()
    await settle()
    assert (served.work.cancelled, served.pipe.is_closed) == ([2], False)
    served.work.finish(1)
    await served.over()
    assert (served.pipe.got, served.work.begun) == (b"1 ", [1, 2])
    assert served.pipe.is_closed


async def test_an_append_that_never_ends_holds_the_end_for_a_grace() -> None:
    served = Served()
    served.pipe.send((PRODUCE, 1))
    await settle()
    served.connection.end()
    assert await served.over() == pytest.approx(GRACE_SECONDS)
    assert served.work.cancelled == [1]


async def test_a_broken_connection_gives_everything_up() -> None:
    served = Served()
    served.pipe.is_broken = True
    served.pipe.send((PRODUCE, 1), (PRODUCE, 2))
    served.work.finish(1)
    await served.over()
    assert served.work.cancelled == [2]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b"\xff\xff\xff\xff", id="size below nothing"),
        pytest.param(b"\x7f\xff\xff\xff", id="size of 2 GiB"),
        pytest.param(b"\0\0\0\x01\0", id="no header"),
        pytest.param(b"\0\0\0\x0b" + request(FETCH, 9)[:11], id="half of a body"),
        pytest.param((FRAME_BYTES_MAX + 1).to_bytes(4), id="size above the limit"),
    ],
)
async def test_a_request_that_is_none_ends_the_connection_after_answers(bad: bytes) -> None:
    served = Served()
    served.pipe.send((PRODUCE, 1))
    served.pipe.reader.feed_data(bad)
    await settle()
    assert not served.pipe.is_closed
    served.work.finish(1)
    await served.over()
    assert (served.pipe.got, served.work.begun) == (b"1 ", [1])


async def test_a_request_that_fails_ends_the_connection() -> None:
    served = Served()
    served.pipe.send((PRODUCE, 12), (PRODUCE, 13), (PRODUCE, 14))
    served.work.finish(12, 13, 14)
    await served.over()
    assert served.pipe.got == b"12 "


async def test_a_client_that_does_not_log_in_is_ended_soon_whatever_it_sends() -> None:
    served = Served(is_known=False)
    served.pipe.send((API_VERSIONS, 1))
    served.work.finish(1)
    assert await served.over() == pytest.approx(LOGIN_SECONDS)
    assert (served.pipe.got, served.spoke) == (b"1 ", 0)


async def test_a_client_that_says_nothing_is_ended_soon() -> None:
    served = Served()
    served.pipe.reader.feed_data(b"\0")
    assert await served.over() == pytest.approx(LOGIN_SECONDS)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param((FIRST_BYTES_MAX + 1).to_bytes(4), id="large"),
        pytest.param(len(request(FETCH, 9)).to_bytes(4) + request(FETCH, 9), id="fetch"),
    ],
)
async def test_a_client_that_did_not_log_in_gets_no_space_and_no_answer(bad: bytes) -> None:
    served = Served(is_known=False)
    served.pipe.reader.feed_data(bad)
    assert await served.over() < LOGIN_SECONDS
    assert served.work.begun == []


IDLE = 20.0


@pytest.fixture
def _soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quire.gateway.kafka.connection.IDLE_SECONDS", IDLE)


@pytest.mark.usefixtures("_soon_idle")
async def test_a_client_that_logged_in_may_be_silent_and_is_slow_for_some_time_only() -> None:
    served = Served(is_known=False)
    served.pipe.send((API_VERSIONS, 1))
    await settle()
    served.is_known = True
    served.work.finish(1, 2)
    served.pipe.send((PRODUCE, 2))
    await asyncio.sleep(IDLE - 1)
    assert (served.pipe.got, served.spoke) == (b"1 2 ", 1)
    served.pipe.reader.feed_data((100).to_bytes(4) + b"half")
    await settle()
    assert served.admission.bytes == 100
    assert await served.over() == pytest.approx(FRAME_SECONDS, abs=1)


@pytest.mark.usefixtures("_soon_idle")
async def test_a_connection_without_requests_is_closed_after_a_time() -> None:
    served = Served()
    served.pipe.send((API_VERSIONS, 1))
    served.work.finish(1)
    assert await served.over() == pytest.approx(IDLE, abs=1)


async def test_a_client_that_takes_no_answer_is_ended_and_its_answer_dropped() -> None:
    served = Served()
    served.pipe.takes.clear()
    served.pipe.send((PRODUCE, 1), (PRODUCE, 2))
    served.work.finish(1)
    assert await served.over() == pytest.approx(ANSWER_SECONDS, abs=1)
    assert served.pipe.is_aborted


async def test_a_client_that_takes_no_bytes_holds_a_closed_connection_for_a_moment() -> None:
    served = Served()
    served.pipe.goes.clear()
    served.pipe.reader.feed_eof()
    assert await served.over() == pytest.approx(CLOSE_SECONDS, abs=1)
    assert served.pipe.is_aborted


async def test_requests_wait_for_space_in_turn() -> None:
    admission = Admission(GatewayLimits(bytes=1000))
    admission.take(900, 900)
    space = Space(admission)
    first, second, too_large = (Served(admission, space) for _ in range(3))
    first.pipe.reader.feed_data((500).to_bytes(4))
    await settle()
    second.pipe.send((API_VERSIONS, 1))
    second.work.finish(1)
    await settle()
    assert second.work.begun == [], "the first has to wait, and those after it"
    admission.give_back(900)
    await settle()
    assert (second.work.begun, admission.bytes) == ([1], 500)
    too_large.pipe.reader.feed_data((1001).to_bytes(4))
    await too_large.task
    for each in (first, second):
        each.connection.end()
        await each.task
    assert admission.bytes == 0


async def test_one_connection_has_a_part_of_the_space() -> None:
    served = Served(Admission(GatewayLimits(bytes=4 * CONNECTION_BYTES_MAX)))
    message = request(PRODUCE, 1) + bytes(FRAME_BYTES_MAX - len(request(PRODUCE, 1)))
    served.work.finish(2)
    for number in (1, 2):
        header = message[:4] + number.to_bytes(4)
        served.pipe.reader.feed_data(len(message).to_bytes(4) + header + message[8:])
    served.pipe.send((PRODUCE, 3))
    await settle()
    assert (served.work.begun, served.admission.bytes) == ([1, 2], CONNECTION_BYTES_MAX)
    served.work.finish(1, 3)
    await settle()
    assert served.pipe.got == b"1 2 3 "
    served.connection.end()
    await served.over()


def test_a_port_has_so_many_connections_and_the_longest_silent_goes_first() -> None:
    places: ConnectionPlaces[str] = ConnectionPlaces(8)
    assert [places.enter(each) for each in "ab"] == [None, None]
    assert places.enter("c") == "a", "two of eight may be silent"
    for each in "bc":
        places.speak(each)
    for each in "defghi":
        assert places.enter(each) is None
        places.speak(each)
    assert places.enter("j") == "j", "all have logged in"
    places.leave("d")
    assert places.enter("k") is None
    assert places.enter("l") == "k", "a silent one makes room"
    places.leave("k")
    places.leave("never")


def server_of(**limits: int) -> KafkaServer:
    admission = Admission(GatewayLimits())
    parts = SimpleNamespace(tokens=(), admission=admission, limits=GatewayLimits(**limits))
    return KafkaServer(cast("Broker", parts), cast("Coordinators", None))


async def test_a_connection_that_is_accepted_while_the_port_closes_is_ended() -> None:
    """Its client would ask a gateway forever that has ended, and be told to come again."""
    server = server_of()
    await server.close()
    ours, theirs = socket.socketpair()
    server.welcome(ours)
    with closing(theirs):
        assert theirs.recv(1) == b""
    assert ours.fileno() == -1


@pytest.mark.real_time
async def test_a_handshake_that_is_not_made_has_the_place_of_a_silent_connection(
    tmp_path: Path,
) -> None:
    pair = authority().issue("gateway", None, ["127.0.0.1"], DAY).write(tmp_path, "gateway")
    server, loop = server_of(connections=8), asyncio.get_running_loop()
    with ExitStack() as stack:
        clients = []
        for _ in range(3):
            ours, theirs = socket.socketpair()
            theirs.setblocking(False)
            ours.setblocking(False)
            clients.append(stack.enter_context(closing(theirs)))
            server.welcome(ours, serving_context(*pair))
        assert await loop.sock_recv(clients[0], 1) == b"", "two of eight may be silent"
        await server.close()
        assert [await loop.sock_recv(each, 1) for each in clients[1:]] == [b"", b""]


@pytest.mark.real_time
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 20])
async def test_a_silent_connection_that_loses_its_place_is_cut(tmp_path: Path, turns: int) -> None:
    """Its client takes no part in the end of TLS, and may have ended its handshake just now."""
    issuer, loop = authority(), asyncio.get_running_loop()
    pair = issuer.issue("gateway", None, ["127.0.0.1"], DAY).write(tmp_path, "gateway")
    trusted = ssl.create_default_context(cadata=issuer.pair.certificate.decode())
    server = server_of(connections=4)
    with ExitStack() as stack:
        (ours, theirs), (later, other) = socket.socketpair(), socket.socketpair()
        for each in (ours, theirs, later, other):
            each.setblocking(False)
        stack.enter_context(closing(theirs))
        stack.enter_context(closing(other))
        server.welcome(ours, serving_context(*pair))
        await shake_hands(theirs, trusted, "127.0.0.1")
        for _ in range(turns):
            await asyncio.sleep(0)
        (serving,) = server._guests.values()
        server.welcome(later)
        await asyncio.wait([serving], timeout=CLOSE_SECONDS / 2)
        assert serving.done()
        with suppress(ConnectionResetError):
            while await loop.sock_recv(theirs, 65_536):
                pass
        selector: Any = vars(loop)["_selector"]
        for descriptor in selector.get_map():
            os.fstat(descriptor)  # none is closed under the loop, which would take another for it
    await server.close()
