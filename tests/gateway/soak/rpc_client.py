"""A writer over gRPC in Python: `write ADDRESS,ADDRESS LOG`. Python's reader is quire's client."""

from __future__ import annotations

import asyncio
import sys
from itertools import cycle
from typing import Any

import grpc
import grpc.aio

from quire.gateway.rpc import logs_pb2 as pb
from quire.gateway.rpc import logs_pb2_grpc
from tests.gateway.soak.ending import Ending, acked, numbers

SECONDS_MAX = 5.0
"""A gateway that is paused answers nothing: then another is asked."""
PAUSE_SECONDS = 0.01
RECORDS = 3
FINAL = ("invalid_request", "sequence_conflict", "offset_conflict", "sealed", "not_permitted")


async def write(addresses: list[str], log: str) -> None:
    """Append numbered records until standard input ends; repeat what has no answer."""
    ending, take = Ending(), numbers()
    places = cycle(addresses)
    channels = {each: grpc.aio.insecure_channel(each) for each in addresses}
    place, sequence, call = next(places), 0, None
    while not ending.event.is_set():
        sequence += 1
        mine = take(RECORDS)
        request = pb.AppendRequest(
            log=log,
            records=[pb.NewRecord(payload=f"python-{number}".encode()) for number in mine],
            producer=pb.Producer(id="python", sequence=sequence),
        )
        while True:
            if call is None:
                call = _open(channels[place])
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    await call.write(request)
                    reply = await call.read()
                if isinstance(reply, pb.AppendReply):
                    break
                problem = await _problem(call)
            except TimeoutError:
                problem = {}
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                problem = await _problem(call)
            call.cancel()
            call = None
            if problem.get("quire-error") in FINAL:
                print("failed", mine[0], problem, flush=True)
                return
            sent = problem.get("quire-location")
            place = sent if sent in channels else next(places)
            await asyncio.sleep(PAUSE_SECONDS)
        acked(mine, reply.first_offset)
        await asyncio.sleep(PAUSE_SECONDS)
    for channel in channels.values():
        await channel.close(None)


def _open(channel: grpc.aio.Channel) -> Any:
    stub: Any = logs_pb2_grpc.LogsStub(channel)
    return stub.Append()


async def _problem(call: Any) -> dict[str, str]:
    try:
        async with asyncio.timeout(SECONDS_MAX):
            return dict(await call.trailing_metadata() or ())
    except TimeoutError:
        return {}


if __name__ == "__main__":
    _, served, name = sys.argv[1:]
    asyncio.run(write(served.split(","), name))
