"""Rights at both ports of a bookie: what is checked, how often, and what a denied client does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from quire.entry import DigestKind, LedgerId, Sealer
from quire.errors import NotPermittedError
from quire.ledger.remote import RemoteBookie
from quire.rights.roles import Action
from quire.run import pack_run
from quire.storage.serving.add_stream import AddStream
from quire.storage.serving.grpc_service import BookieService, _answers, serve_bookie
from quire.storage.serving.limits import Reception
from quire.storage.serving.refusals import Refusals
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import decode_request, encode_request, encode_run
from quire.wire.identity import ANONYMOUS, Identity
from quire.wire.transport import EOF
from tests.rights.scene import APP
from tests.wire.link import KEY, SOON

HERE = "127.0.0.1:0"


class Keeper:
    """Denies some actions, and counts the questions that cost something."""

    def __init__(self, *denied: Action) -> None:
        self.denied = set(denied)
        self.asked: Counter[tuple[Identity, Action, LedgerId | None]] = Counter()
        self._known: set[tuple[Identity, Action, LedgerId | None]] = set()

    def admits(self, identity: Identity, action: Action, ledger: LedgerId | None) -> bool:
        return (identity, action, ledger) in self._known and action not in self.denied

    async def check(self, identity: Identity, action: Action, ledger: LedgerId | None) -> None:
        self.asked[identity, action, ledger] += 1
        await asyncio.sleep(0)
        if action in self.denied:
            raise NotPermittedError(str(identity), str(action), f"ledger {ledger}")
        self._known.add((identity, action, ledger))


@asynccontextmanager
async def served(
    keeper: Keeper, port: str
) -> AsyncIterator[tuple[RemoteBookie, MemoryBookie, Refusals]]:
    bookie, refusals = MemoryBookie("b1"), Refusals()
    runs = HERE if port == "frames" else None
    serving = serve_bookie(bookie, "b1", HERE, runs, refusals=refusals, doorkeeper=keeper)
    async with asyncio.timeout(SOON), serving as address:
        stub = RemoteBookie(address)
        try:
            yield stub, bookie, refusals
        finally:
            await stub.close()


def run_for(ledger: LedgerId, entry: int) -> bytes:
    sealer = Sealer(ledger, DigestKind.CRC32C, b"")
    return pack_run([sealer.seal(entry, entry - 1, entry, b"x")])


Call = Callable[[RemoteBookie, LedgerId], Awaitable[object]]

CALLS: list[tuple[Action, Call]] = [
    (Action.READ, lambda b, ledger: b.read(ledger, 0, 0)),
    (Action.READ, lambda b, ledger: b.read_tail(ledger)),
    (Action.READ, lambda b, ledger: b.wait_tail(ledger, -1, 0.0)),
    (Action.APPEND, lambda b, ledger: b.add(ledger, KEY, run_for(ledger, 1))),
    (Action.APPEND, lambda b, ledger: b.sync(ledger, KEY, 0, 0)),
    (
        Action.APPEND,
        lambda b, ledger: b.write_lac(
            ledger, KEY, Sealer(ledger, DigestKind.CRC32C, b"").seal_lac(0)
        ),
    ),
    (Action.OBSERVE, lambda b, ledger: b.list_entries(ledger)),
    (Action.OBSERVE, lambda b, _: b.list_ledgers()),
    (Action.OBSERVE, lambda b, _: b.outlines([7])),
    (Action.OBSERVE, lambda b, _: b.info()),
    (Action.RECOVER, lambda b, ledger: b.read(ledger, 0, 0, fence_key=KEY)),
    (Action.RECOVER, lambda b, ledger: b.read_tail(ledger, fence_key=KEY)),
    (Action.RECOVER, lambda b, ledger: b.add(ledger, KEY, run_for(ledger, 0), recovery=True)),
]


@pytest.mark.real_time
@pytest.mark.parametrize("port", ["grpc", "frames"])
async def test_each_call_needs_its_right_and_no_other(port: str) -> None:
    keeper = Keeper()
    async with served(keeper, port) as (stub, bookie, refusals):
        await bookie.add(7, KEY, run_for(7, 0))
        await bookie.add(8, KEY, run_for(8, 0))
        for number, (action, call) in enumerate(CALLS):
            keeper.denied = {action}
            before = await bookie.list_entries(7)
            with pytest.raises(NotPermittedError) as caught:
                await call(stub, 7)
            assert (caught.value.identity, caught.value.action) == ("anonymous", action)
            assert await bookie.list_entries(7) == before
            assert not (await bookie.read_tail(7)).fenced
            assert refusals.counts == {"rights": number + 1}
            keeper.denied = set(Action) - {action}
            await call(stub, 8)
        assert (await bookie.read_tail(8)).fenced


@pytest.mark.real_time
async def test_a_stream_is_asked_once_for_each_ledger() -> None:
    keeper = Keeper()
    async with served(keeper, "frames") as (stub, bookie, _):
        for entry in range(10):
            await asyncio.gather(
                *(stub.add(ledger, KEY, run_for(ledger, entry)) for ledger in (7, 8))
            )
        assert keeper.asked == {(ANONYMOUS, Action.APPEND, ledger): 1 for ledger in (7, 8)}
        keeper.denied = {Action.APPEND}  # the rights are taken away while the stream is open
        with pytest.raises(NotPermittedError):
            await stub.add(7, KEY, run_for(7, 10))
        assert await bookie.list_entries(7) == [(0, 9)]


class Stream:
    """A stream of one message, whose answers are kept."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = [decode_request(each) for each in messages]
        self.answers: list[pb.AddReply] = []

    async def read(self) -> object:
        return self._messages.pop(0) if self._messages else EOF

    async def write(self, message: pb.AddReply) -> None:
        self.answers.append(message)


async def test_the_identity_of_a_connection_is_the_one_that_is_asked_for() -> None:
    keeper = Keeper()
    reception = Reception(MemoryBookie("b1"), "b1", doorkeeper=keeper)
    stream = Stream(b"".join(encode_request(1, "b1", [encode_run(7, KEY, run_for(7, 0))])))
    await AddStream(reception, stream, APP).serve()
    assert keeper.asked == {(APP, Action.APPEND, 7): 1}


async def test_a_denied_run_fails_alone_and_in_its_place() -> None:
    keeper = Keeper(Action.RECOVER)
    reception = Reception(MemoryBookie("b1"), "b1", doorkeeper=keeper)
    runs = [
        encode_run(7, KEY, run_for(7, 0)),
        encode_run(7, KEY, run_for(7, 0), recovery=True),
        encode_run(7, KEY, run_for(7, 1)),
    ]
    stream = Stream(b"".join(encode_request(1, "b1", runs)))
    await AddStream(reception, stream, APP).serve()
    assert stream.answers[-1].settled == 3
    failures = [each for answer in stream.answers for each in answer.failures]
    assert [each.number for each in failures] == [2]
    assert await reception.bookie.list_entries(7) == [(0, 1)]


async def _forgotten(self: BookieService, request: object, owner: str) -> pb.InfoReply:
    return pb.InfoReply()


def test_a_call_without_a_row_has_no_handler() -> None:
    with pytest.raises(KeyError, match="_forgotten"):
        _answers(pb.InfoReply)(_forgotten)
