"""Answers on the stream of adds: many in one, refusals, the last ones, no details of defects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quire.bookie import BookieAddress
from quire.entry import LedgerId
from quire.errors import BookieUnavailableError
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import RUNS_PER_MESSAGE_MAX
from quire.wire.run_calls import FramedRuns, GrpcRuns, RunCall
from quire.wire.transport import open_channel
from tests.wire.link import KEY, SOON, GatedBookie, connected, run_of, served

by_each_carrier = pytest.mark.usefixtures("carrier")


@asynccontextmanager
async def raw_adds(address: BookieAddress) -> AsyncIterator[RunCall]:
    """The stream itself, without the stub."""
    channel = open_channel(address.address)
    call = GrpcRuns(channel) if address.runs is None else FramedRuns(address.runs)
    try:
        yield call
    finally:
        call.cancel()
        await channel.close(None)


def add_run(entry: int) -> pb.AddRun:
    return pb.AddRun(ledger=7, key=KEY, run=run_of(entry))


async def reply_of(call: RunCall) -> pb.AddReply:
    async with asyncio.timeout(SOON):
        reply = await call.read()
    assert isinstance(reply, pb.AddReply)
    return reply


@by_each_carrier
def test_runs_that_become_durable_together_are_acknowledged_by_one_message() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with served(bookie) as address, raw_adds(address) as call:
            runs = [add_run(0), add_run(1), pb.AddRun(ledger=7, key=KEY, run=b"junk"), add_run(2)]
            await call.write(pb.AddRequest(bookie="b1", first=1, runs=runs).SerializeToString())
            await bookie.arrived(4)
            bookie.gate.set()
            reply = await reply_of(call)
            assert reply.settled == 4
            assert [(f.number, f.failure.status) for f in reply.failures] == [
                (3, pb.INVALID_REQUEST)
            ]

    asyncio.run(main())


@by_each_carrier
@pytest.mark.parametrize(
    ("message", "status"),
    [
        (pb.AddRequest(bookie="b1", first=2, runs=[add_run(0)]), pb.INVALID_REQUEST),
        (pb.AddRequest(bookie="b1", first=0, runs=[add_run(0)]), pb.INVALID_REQUEST),
        (
            pb.AddRequest(bookie="b1", first=1, runs=[pb.AddRun()] * (RUNS_PER_MESSAGE_MAX + 1)),
            pb.INVALID_REQUEST,
        ),
        (pb.AddRequest(bookie="b1", first=1), pb.INVALID_REQUEST),
        (pb.AddRequest(first=1, runs=[add_run(0)]), pb.WRONG_BOOKIE),
    ],
)
def test_a_stream_that_breaks_the_rules_is_refused(message: pb.AddRequest, status: int) -> None:
    async def main() -> None:
        bookie = MemoryBookie("b1")
        async with served(bookie) as address, raw_adds(address) as call:
            await call.write(message.SerializeToString())
            assert (await reply_of(call)).refusal.status == status
            assert await call.read() is None
            assert not bookie.ledgers

    asyncio.run(main())


@by_each_carrier
def test_what_came_before_a_broken_rule_is_still_answered() -> None:
    async def main() -> None:
        async with served(MemoryBookie("b1")) as address, raw_adds(address) as call:
            await call.write(
                pb.AddRequest(bookie="b1", first=1, runs=[add_run(0)]).SerializeToString()
            )
            assert (await reply_of(call)).settled == 1
            await call.write(pb.AddRequest(first=1, runs=[add_run(1)]).SerializeToString())
            assert (await reply_of(call)).HasField("refusal")

    asyncio.run(main())


def test_a_client_that_finishes_gets_its_last_answers() -> None:
    async def main() -> None:
        bookie = GatedBookie()
        async with served(bookie) as address, raw_adds(address) as call:
            assert isinstance(call, GrpcRuns)
            await call.write(
                pb.AddRequest(bookie="b1", first=1, runs=[add_run(0)]).SerializeToString()
            )
            await call._call.done_writing()
            await bookie.arrived(1)
            bookie.gate.set()
            assert (await reply_of(call)).settled == 1
            assert await call.read() is None

    asyncio.run(main())


@by_each_carrier
def test_defects_of_a_bookie_go_to_its_log_only(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(method: str, ledger: LedgerId) -> None:
        raise RuntimeError("the secret detail")

    async def main() -> None:
        bookie = MemoryBookie("b1")
        bookie.before = fail
        async with connected(bookie) as stub:
            calls = [stub.add(7, KEY, run_of(0)), stub.read(7, 0, 0), stub.list_entries(7)]
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, BookieUnavailableError)
                assert "internal error" in str(result)
                assert "secret" not in str(result)

    asyncio.run(main())
    # Not their text: PySpark, once loaded, writes everybody's records as JSON.
    told = [str(each.exc_info[1]) for each in caplog.records if each.exc_info]
    assert told == ["the secret detail"], "once for its line of the program, in ten seconds"
