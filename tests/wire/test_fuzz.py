"""Wrong messages: what a server does is what the message says, or nothing.

The oracle is a second bookie in memory to which each wrong message is applied directly, if it
still is one. After every exchange both must hold the same, and the server must still answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from typing import Any, NamedTuple

import grpc.aio
import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.bookie import READ_ANSWER_BYTES_MAX
from quire.entry import DigestKind, Sealer
from quire.errors import QuireError
from quire.ledger.remote import RemoteBookie
from quire.run import pack_run
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.transport import CHANNEL_OPTIONS, EOF, RpcError

SEALER = Sealer(7, DigestKind.CRC32C, b"secret")
KEY = SEALER.access_key
RUN = pack_run([SEALER.seal(entry, entry - 1, 2**40, b"payload") for entry in (0, 1, 2)])


class Request(NamedTuple):
    method: str
    message: Message


REQUESTS = [
    Request(
        "Add",
        pb.AddRequest(
            bookie="b1",
            first=1,
            runs=[
                pb.AddRun(ledger=7, key=KEY, run=RUN),
                pb.AddRun(ledger=7, key=KEY, run=RUN, recovery=True),
                pb.AddRun(ledger=7, key=KEY, lac_packet=SEALER.seal_lac(2)),
            ],
        ),
    ),
    Request("Read", pb.ReadRequest(bookie="b1", ledger=7, first=0, last=2, bytes_max=1000)),
    Request("Read", pb.ReadRequest(bookie="b1", ledger=7, last=2, fence_key=KEY, bytes_max=1)),
    Request("ReadTail", pb.ReadTailRequest(bookie="b1", ledger=7, fence_key=KEY)),
    Request("WaitTail", pb.WaitTailRequest(bookie="b1", ledger=7, above=-2, timeout_ms=0)),
    Request("Sync", pb.SyncRequest(bookie="b1", ledger=7, key=KEY, first=0, last=2)),
    Request("ListEntries", pb.ListEntriesRequest(bookie="b1", ledger=7)),
    Request("ListLedgers", pb.ListLedgersRequest(bookie="b1", first=1)),
    Request("Outlines", pb.OutlinesRequest(bookie="b1", ledgers=[7, 1])),
    Request("Info", pb.InfoRequest(bookie="b1")),
]


NUMBERS = st.sampled_from([0, 1, 2, 7, 8, -1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63)])
VALUES: dict[type, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    bool: st.booleans(),
    str: st.sampled_from(["", "b1", "b2", "b1b1"]),
    bytes: st.sampled_from([b"", KEY, KEY[:-1], RUN, RUN[:-1], SEALER.seal_lac(5)]) | st.binary(),
}


REPEATED = frozenset({"ledgers"})
"""Fields with several numbers."""


@st.composite
def altered(draw: st.DrawFn) -> tuple[str, bytes]:
    """A valid request with one field set to another value of its type."""
    request = draw(st.sampled_from(REQUESTS))
    message = type(request.message).FromString(request.message.SerializeToString())
    part: Any = message
    if isinstance(message, pb.AddRequest) and draw(st.booleans()):
        part = draw(st.sampled_from(list(message.runs)))
    names = [name for name in part.DESCRIPTOR.fields_by_name if name != "runs"]
    name = draw(st.sampled_from(names))
    with contextlib.suppress(ValueError):  # out of the field's range: it stays as it was
        if name in REPEATED:
            getattr(part, name)[:] = draw(st.lists(NUMBERS))
        else:
            setattr(part, name, draw(VALUES[type(getattr(part, name))]))
    return request.method, message.SerializeToString()


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A valid request with bytes changed, removed, put in or cut off; or with another's bytes."""
    request = draw(st.sampled_from(REQUESTS))
    sent = request if draw(st.integers(0, 9)) else draw(st.sampled_from(REQUESTS))
    data = bytearray(sent.message.SerializeToString())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "insert", "remove", "cut"]))
        if kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=12))
        elif kind == "cut":
            del data[at:]
        elif kind == "remove":
            del data[at : at + draw(st.integers(1, 12))]
        elif at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
    return request.method, bytes(data)


def holdings(bookie: MemoryBookie) -> dict[int, tuple[object, ...]]:
    return {
        ledger: (
            state.key,
            state.fenced,
            state.frames,
            state.deferred,
            state.lac_packet,
            state.hint,
        )
        for ledger, state in bookie.ledgers.items()
        if state.key is not None
    }


class Pair:
    """A served bookie, its oracle, and a channel that sends any bytes."""

    def __init__(self) -> None:
        self.served = MemoryBookie("b1")
        self.oracle = MemoryBookie("b1")
        self._serving = serve_bookie(self.served, "b1")

    async def open(self) -> None:
        address = await self._serving.__aenter__()
        self.stub = RemoteBookie(address)
        self.channel = grpc.aio.insecure_channel(address.address, options=CHANNEL_OPTIONS)

    async def close(self) -> None:
        await self.stub.close()
        await self.channel.close(None)
        await self._serving.__aexit__(None, None, None)

    async def exchange(self, method: str, data: bytes) -> None:
        for bookie in (self.served, self.oracle):
            bookie.ledgers.clear()
        await self._send(method, data)
        await self._apply(method, data)
        assert holdings(self.served) == holdings(self.oracle)
        await self.must_answer()

    async def must_answer(self) -> None:
        async with asyncio.timeout(10):
            assert (await self.stub.info()).bookie == "b1"

    async def _send(self, method: str, data: bytes) -> None:
        # A damaged WaitTail may ask to wait for minutes, and is right to be kept waiting.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2 if method == "WaitTail" else 10.0) as limit:
                code = await self._send_raw(f"/quire.v1.Bookie/{method}", method, data)
                assert code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
        assert method == "WaitTail" or not limit.expired()

    async def _send_raw(self, path: str, method: str, data: bytes) -> grpc.StatusCode:
        channel: Any = self.channel
        try:
            if method == "Add":
                call = channel.stream_stream(path)()
                await call.write(data)
                await call.done_writing()
            elif method == "Read":
                call = channel.unary_stream(path)(data)
            else:
                await channel.unary_unary(path)(data)
                return grpc.StatusCode.OK
            while await call.read() is not EOF:
                pass
        except RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    async def _apply(self, method: str, data: bytes) -> None:
        kind = next(type(request.message) for request in REQUESTS if request.method == method)
        try:
            request: Any = kind.FromString(data)
        except DecodeError:
            return
        if request.bookie != "b1":
            return
        if method != "Add":
            await self._apply_unary(method, request)
        elif request.first == 1:
            for run in request.runs:
                await self._apply_one(self._in_oracle(run))

    def _in_oracle(self, run: pb.AddRun) -> Awaitable[None]:
        if run.HasField("lac_packet"):
            return self.oracle.write_lac(run.ledger, run.key, run.lac_packet)
        return self.oracle.add(
            run.ledger, run.key, run.run, recovery=run.recovery, deferred=run.deferred
        )

    async def _apply_unary(self, method: str, request: Any) -> None:
        oracle = self.oracle
        fence_key = None
        if method in ("Read", "ReadTail") and request.HasField("fence_key"):
            fence_key = request.fence_key
        if method == "Read":
            size = min(request.bytes_max, READ_ANSWER_BYTES_MAX)
            await self._apply_one(
                oracle.read(
                    request.ledger,
                    request.first,
                    request.last,
                    fence_key=fence_key,
                    bytes_max=size,
                )
            )
        elif method == "ReadTail":
            await self._apply_one(oracle.read_tail(request.ledger, fence_key=fence_key))
        elif method == "Sync":
            await self._apply_one(
                oracle.sync(request.ledger, request.key, request.first, request.last)
            )

    async def _apply_one(self, call: Any) -> None:
        with contextlib.suppress(QuireError):
            await call


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[asyncio.Runner, Pair]]:
    with asyncio.Runner() as runner:

        async def build() -> Pair:
            pair = Pair()
            await pair.open()
            return pair

        pair = runner.run(build())
        yield runner, pair
        runner.run(pair.close())


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(request=altered() | damaged())
def test_wrong_messages_do_what_they_say_or_nothing(
    pair: tuple[asyncio.Runner, Pair], request: tuple[str, bytes]
) -> None:
    runner, both = pair
    runner.run(both.exchange(*request))


def test_the_oracle_sees_what_the_server_does(pair: tuple[asyncio.Runner, Pair]) -> None:
    runner, both = pair
    add = REQUESTS[0]
    runner.run(both.exchange(add.method, add.message.SerializeToString()))
    assert list(both.served.ledgers[7].frames) == [0, 1, 2]
