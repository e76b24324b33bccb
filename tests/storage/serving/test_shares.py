"""One peer takes its share of a bookie, and no more: calls, places, streams, runs in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import ConfigurationError
from quire.storage.serving.add_stream import AddStream
from quire.storage.serving.grpc_service import BookieService
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.stream_account import RUN_COST, Origin
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.grpc_calls import at_door
from quire.wire.identity import ANONYMOUS, Identity, IdentityKind, owner_of
from quire.wire.transport import EOF, ServerContext
from tests.support.virtual import virtually
from tests.wire.link import KEY, GatedBookie, run_of

STRANGER, FRIEND = "ipv4:192.0.2.1", "ipv4:192.0.2.2"


class AbortedError(Exception):
    """A call that its server ended."""


class Call:
    """A caller's end of a call over gRPC, on a connection of a host."""

    def __init__(self, host: str, message: object = EOF) -> None:
        self._host = host
        self.message: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        if message is not None:
            self.message.set_result(message)

    def peer(self) -> str:
        return f"{self._host}:{id(self) % 60_000}"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def add_done_callback(self, _: Callable[[object], None]) -> None: ...

    async def read(self) -> object:
        return await self.message

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise AbortedError(f"{code.name}: {details}")


def context(host: str, message: object = EOF) -> ServerContext:
    return cast("ServerContext", Call(host, message))


def test_one_peer_does_not_take_the_places_of_all() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        service = BookieService(Reception(bookie, "b1", ServiceLimits(tails=4)))
        request = pb.ReadTailRequest(bookie="b1", ledger=7)

        def ask(host: str) -> asyncio.Future[pb.TailReply]:
            return asyncio.ensure_future(service.ReadTail(request, context(host)))

        asked = [ask(STRANGER) for _ in range(3)]
        friend = ask(FRIEND)
        await bookie.arrived(3)
        assert (await asked[2]).failure.status == pb.BUSY
        assert "2 reads of tails are under way for 192.0.2.1" in (await asked[2]).failure.reason
        assert service.reception.refusals.counts == {"busy": 1}
        bookie.gate.set()
        for each in (*asked[:2], friend):
            assert not (await each).HasField("failure")

    virtually(main)


def test_calls_of_a_peer_are_bounded_and_must_bring_their_message() -> None:
    async def main() -> None:
        limits = ServiceLimits(calls=4, first_message_seconds=10.0)
        reception = Reception(MemoryBookie("b1"), "b1", limits)

        async def answer(request: Any, _: object) -> object:
            return request

        serve = at_door(answer, reception, bytes.decode, 1)

        def call(host: str, message: object = None) -> asyncio.Future[Any]:
            return asyncio.ensure_future(serve(None, context(host, message)))

        silent = [call(STRANGER) for _ in range(3)]
        await asyncio.sleep(1)
        with pytest.raises(AbortedError, match=r"EXHAUSTED: 2 calls of 192\.0\.2\.1 are open"):
            await silent[2]
        assert await call(FRIEND, b"hello") == "hello"
        await asyncio.sleep(8)
        assert not silent[0].done()
        await asyncio.sleep(1)
        for each in silent[:2]:
            with pytest.raises(AbortedError, match="DEADLINE_EXCEEDED"):
                await each
        assert reception.calls.free == 4

    virtually(main)


async def test_a_message_that_cannot_be_decoded_is_refused() -> None:
    reception = Reception(MemoryBookie("b1"), "b1")

    async def answer(request: Any, _: object) -> object:
        return request

    serve = at_door(answer, reception, pb.InfoRequest.FromString, 1)
    with pytest.raises(AbortedError, match="INVALID_ARGUMENT: a message of 2 bytes"):
        await serve(None, context(STRANGER, b"\xff\xff"))


class Stream:
    """A client's end of a stream of runs, one in each message."""

    def __init__(self, ledger: int, runs: int) -> None:
        self._left = [
            pb.AddRequest(
                bookie="b1", first=number + 1, runs=[pb.AddRun(ledger=ledger, key=KEY, run=b"x")]
            )
            for number in range(runs)
        ]
        self.answered = 0

    async def read(self) -> object:
        if self._left:
            return self._left.pop(0)
        await asyncio.Event().wait()
        return EOF

    async def write(self, message: pb.AddReply) -> None:
        self.answered = message.settled


def test_runs_in_flight_of_one_peer_leave_room_for_others() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        limits = ServiceLimits(pending_bytes=8 * (RUN_COST + 1))
        reception = Reception(bookie, "b1", limits)
        tasks = list[asyncio.Task[None]]()

        def stream(owner: str, runs: int) -> Stream:
            found = Stream(7, runs)
            serving = AddStream(reception, found, ANONYMOUS, Origin(owner=owner)).serve()
            tasks.append(asyncio.create_task(serving))
            return found

        for _ in range(3):
            stream("stranger", 3)
        friend = stream("friend", 2)
        await asyncio.sleep(1)
        assert reception.pending.held("stranger") == 4 * (RUN_COST + 1)
        assert reception.pending.held("friend") == 2 * (RUN_COST + 1)
        bookie.gate.set()
        await asyncio.sleep(1)
        assert friend.answered == 2
        assert reception.pending.free == limits.pending_bytes

        bookie.gate.clear()
        stream("stranger", 9)
        await asyncio.sleep(1)
        assert reception.pending.held("stranger") == 4 * (RUN_COST + 1)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert reception.pending.free == limits.pending_bytes, "what a broken stream holds is free"

    virtually(main)


def test_a_run_larger_than_the_share_is_taken_alone() -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        reception = Reception(bookie, "b1", ServiceLimits(pending_bytes=1))
        message = pb.AddRequest(
            bookie="b1", first=1, runs=[pb.AddRun(ledger=7, key=KEY, run=run_of(0, 5000))] * 2
        )
        stream = Stream(7, 0)
        stream._left.append(message)
        serving = asyncio.create_task(AddStream(reception, stream).serve())
        await asyncio.sleep(1)
        assert stream.answered == 2
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        assert reception.pending.free == 1

    virtually(main)


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1%eth0", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("unix", "unix"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_a_peer_without_a_certificate_is_known_by_its_host(host: str, owner: str) -> None:
    assert owner_of(ANONYMOUS, host) == owner
    assert owner_of(Identity("quire://client/a", IdentityKind.URI), host) == "quire://client/a"


@pytest.mark.parametrize("share", [0.0, -1.0, 1.01, float("nan")])
def test_a_share_is_a_part_of_the_whole(share: float) -> None:
    with pytest.raises(ConfigurationError, match="give a number above 0"):
        ServiceLimits(peer_share=share)


@given(st.integers(1, 10**9), st.floats(0, 1, exclude_min=True))
def test_a_share_is_never_nothing_and_never_more_than_all(size: int, share: float) -> None:
    assert 1 <= ServiceLimits(peer_share=share).share(size) <= size
