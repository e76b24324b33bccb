"""Frames in answers about the ends of ledgers: gathered by turns, and counted until they are sent.

An entry may have 4 MiB, and each of thousands of clients that wait is told of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import grpc
import pytest

from quire.entry import LedgerId
from quire.ledger.remote import RemoteBookie
from quire.storage.serving import limits as service_limits
from quire.storage.serving.grpc_service import BookieService, serve_bookie
from quire.storage.serving.handing_over import GATHERED_BYTES_MAX
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.refusals import Refusals
from quire.storage.serving.subscriptions import NewsStream
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.transport import ServerContext
from tests.support.virtual import virtually
from tests.wire.link import KEY, SOON, run_of

TURNS_MAX = GATHERED_BYTES_MAX // (4 * 2**20) // 2
"""Turns of one peer for the largest entry."""

ASKED = 4 * TURNS_MAX

WAIT = pb.WaitTailRequest(bookie="b1", ledger=7, above=-1, timeout_ms=60_000)
READ = pb.ReadTailRequest(bookie="b1", ledger=7)


class SlowDisk(MemoryBookie):
    """A bookie that brings the end of a ledger when the test says so."""

    def __init__(self) -> None:
        super().__init__("b1")
        self.may_bring = asyncio.Event()
        self.bringing = 0
        self.before = self._bring

    async def _bring(self, method: str, _: LedgerId) -> None:
        if method not in ("wait_tail", "read_tail"):
            return
        self.bringing += 1
        try:
            await self.may_bring.wait()
        finally:
            self.bringing -= 1


class Call:
    """A caller's end of a unary call over gRPC."""

    def __init__(self, number: int = 1) -> None:
        self._number = number
        self._over: list[Callable[[object], None]] = []

    def peer(self) -> str:
        return f"ipv4:192.0.2.1:{self._number}"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        self._over.append(callback)

    def end(self) -> None:
        for callback in self._over:
            callback(self)


def ask(service: BookieService, request: Any, call: Call) -> asyncio.Future[pb.TailReply]:
    method = service.WaitTail if request is WAIT else service.ReadTail
    return asyncio.ensure_future(method(request, cast("ServerContext", call)))


class DeafClient:
    """A client's end of a connection for news that takes nothing until the test says so."""

    def __init__(self) -> None:
        self.takes = asyncio.Event()
        self.replies: list[pb.NewsReply] = []
        self.read_from = 0
        self._said: asyncio.Queue[pb.NewsRequest] = asyncio.Queue()

    def say(self, *numbers: int) -> None:
        asked = [
            pb.Subscribe(subscription=each, ledger=7, above=-1, bytes=1, quiet_ms=60_000)
            for each in numbers
        ]
        self._said.put_nowait(pb.NewsRequest(bookie="b1", subscribe=asked))

    async def read(self) -> pb.NewsRequest:
        """See `NewsContext.read`."""
        message = await self._said.get()
        self.read_from += 1
        return message

    async def write(self, message: pb.NewsReply, /) -> None:
        """See `NewsContext.write`."""
        await self.takes.wait()
        self.replies.append(message)

    def end(self) -> None:
        raise AssertionError("it does not stall")

    @property
    def news(self) -> list[pb.News]:
        """All that the client took."""
        return [each for reply in self.replies for each in reply.news]


async def settled() -> None:
    await asyncio.sleep(0.001)


def test_subscribers_are_brought_an_entry_by_turns() -> None:
    async def main() -> None:
        bookie, client = SlowDisk(), DeafClient()
        reception = Reception(bookie, "b1")
        client.takes.set()
        serving = asyncio.create_task(NewsStream(reception, client).serve())
        client.say(*range(1, ASKED + 1))
        await settled()
        assert bookie.bringing == 0, "nothing has changed"
        await bookie.add(7, KEY, run_of(0))
        await bookie.add(7, KEY, run_of(1))
        await settled()
        assert 1 < bookie.bringing <= TURNS_MAX
        bookie.may_bring.set()
        await settled()
        assert {each.subscription for each in client.news} == set(range(1, ASKED + 1))
        assert all(each.run for each in client.news)
        serving.cancel()
        await asyncio.wait([serving])
        assert reception.gathering.free == reception.gathering.size
        assert (reception.unread.total, reception.waits.taken) == (0, 0)

    virtually(main)


def test_an_entry_that_a_subscriber_does_not_take_is_counted_and_not_gathered() -> None:
    async def main() -> None:
        bookie, client = SlowDisk(), DeafClient()
        bookie.may_bring.set()
        reception = Reception(bookie, "b1")
        for entry in range(2):
            await bookie.add(7, KEY, run_of(entry, 1000))
        serving = asyncio.create_task(NewsStream(reception, client).serve())
        client.say(1, 2, 3)
        await settled()
        assert reception.unread.total > 3000
        assert reception.gathering.free == reception.gathering.size
        serving.cancel()
        await asyncio.wait([serving])

    virtually(main)


@pytest.mark.parametrize("request_", [WAIT, READ], ids=["WaitTail", "ReadTail"])
def test_calls_are_brought_an_entry_by_turns_and_it_is_counted_until_they_end(
    request_: Any,
) -> None:
    async def main() -> None:
        bookie = SlowDisk()
        reception = Reception(bookie, "b1")
        service = BookieService(reception)
        for entry in range(2):
            await bookie.add(7, KEY, run_of(entry, 1000))
        calls = [Call() for _ in range(ASKED)]
        asked = [ask(service, request_, each) for each in calls]
        await settled()
        assert 1 < bookie.bringing <= TURNS_MAX
        bookie.may_bring.set()
        assert all(len(reply.frame) > 1000 for reply in await asyncio.gather(*asked))
        assert reception.gathering.free == reception.gathering.size
        assert reception.unread.total > ASKED * 1000, "gRPC has the answers"
        for each in calls:
            each.end()
        assert reception.unread.total == 0

    virtually(main)


def test_a_connection_that_does_not_take_its_tails_gets_no_more() -> None:
    async def main() -> None:
        bookie = SlowDisk()
        bookie.may_bring.set()
        await bookie.add(7, KEY, run_of(0, 10_000))
        reception = Reception(bookie, "b1", ServiceLimits(unread_bytes=70_000))
        service, calls = BookieService(reception), [Call() for _ in range(3)]
        taken = [await ask(service, READ, each) for each in calls]
        assert [each.HasField("failure") for each in taken] == [False, False, True]
        assert taken[2].failure.status == pb.BUSY
        calls[0].end()
        assert not (await ask(service, READ, Call(2))).HasField("failure")

    virtually(main)


def test_what_is_refused_has_no_task_and_a_client_that_takes_nothing_is_not_read() -> None:
    async def main() -> None:
        client = DeafClient()
        reception = Reception(MemoryBookie("b1"), "b1", ServiceLimits(waits=4))
        before = len(asyncio.all_tasks())
        serving = asyncio.create_task(NewsStream(reception, client).serve())
        for first in range(1, 1000, 100):
            client.say(*range(first, first + 100))
        await settled()
        assert len(asyncio.all_tasks()) - before < 10
        assert client.read_from == 1
        client.takes.set()
        await settled()
        refused = [each.subscription for each in client.news if each.HasField("failure")]
        assert refused == list(range(3, 1001))
        assert reception.waits.taken == 2
        serving.cancel()
        await asyncio.wait([serving])
        assert reception.waits.taken == 0

    virtually(main)


@pytest.mark.real_time
@pytest.mark.parametrize("request_", [WAIT, READ], ids=["WaitTail", "ReadTail"])
async def test_a_client_that_takes_no_tail_loses_its_connection(
    request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_limits, "GRACE_SECONDS", 0.0)
    bookie, refusals, size = MemoryBookie("b1"), Refusals(), 2**21
    for entry in range(2):
        await bookie.add(7, KEY, run_of(entry, size))
    limits = ServiceLimits(unread_bytes=7 * size)  # two answers with their copies
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.http2.lookahead_bytes", 65536),
        ("grpc.http2.bdp_probe", 0),  # the window stays small
    ]
    serving = serve_bookie(bookie, "b1", limits=limits, refusals=refusals)
    async with asyncio.timeout(SOON), serving as address:
        async with grpc.aio.insecure_channel(address.address, options=options) as channel:
            name = "WaitTail" if request_ is WAIT else "ReadTail"
            path = f"/quire.v1.Bookie/{name}"
            # As a stream: of a unary call gRPC takes the answer by itself.
            method = channel.unary_stream(path, type(request_).SerializeToString, bytes)
            stalled = [method(request_) for _ in range(16)]
            codes = await asyncio.gather(*(each.code() for each in stalled))
            assert grpc.StatusCode.UNAVAILABLE in codes, "the connection has ended"
        assert refusals.counts["unread"] >= 1
        friend = RemoteBookie(address)
        assert (await friend.read_tail(7)).frame is not None
        await friend.close()
