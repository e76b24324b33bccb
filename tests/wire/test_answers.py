"""Whatever a server answers, a stub makes an answer or an unavailable bookie of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import pytest

from quire.errors import BookieUnavailableError
from quire.ledger.remote import RemoteBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.transport import EOF, bind, open_server
from tests.wire.link import KEY, far, run_of

NO_MESSAGE: Final = b"\xff\xff"
GRPC_NOISE: Final = "PollerCompletionQueue._handle_events"
"""What gRPC complains of where several loops of one process use it. It means nothing."""

CALLS: Final[dict[str, Callable[[RemoteBookie], Awaitable[Any]]]] = {
    "Add": lambda bookie: bookie.add(7, KEY, run_of(0)),
    "ReadTail": lambda bookie: bookie.read_tail(7),
    "WaitTail": lambda bookie: bookie.wait_tail(7, 0, 1.0),
    "Sync": lambda bookie: bookie.sync(7, KEY, 0, 1),
    "ListEntries": lambda bookie: bookie.list_entries(7),
    "ListLedgers": lambda bookie: bookie.list_ledgers(),
    "Outlines": lambda bookie: bookie.outlines([7]),
    "Info": lambda bookie: bookie.info(),
}


def run_against(method: str, answer: bytes) -> list[str]:
    """Make a call that gets some bytes for an answer; return what the loop complained of."""
    complaints: list[str] = []

    def note(message: str) -> None:
        if GRPC_NOISE not in message:
            complaints.append(message)

    async def unary(_: bytes, __: object) -> bytes:
        return answer

    async def stream(requests: AsyncIterator[bytes], context: Any) -> None:
        if await context.read() is not EOF:
            await context.write(answer)
            await context.read()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: note(what["message"]))
        server = open_server()
        address = bind(server, "127.0.0.1:0")
        handler = (
            grpc.stream_stream_rpc_method_handler(stream)
            if method == "Add"
            else grpc.unary_unary_rpc_method_handler(unary)
        )
        service = grpc.method_handlers_generic_handler("quire.v1.Bookie", {method: handler})
        server.add_generic_rpc_handlers((service,))
        await server.start()
        bookie = far(address)
        try:
            with pytest.raises(BookieUnavailableError, match="is not a message"):
                await CALLS[method](bookie)
        finally:
            await bookie.close()
            await server.stop(None)

    asyncio.run(main())
    return complaints


@pytest.mark.parametrize("method", CALLS)
def test_an_answer_that_is_none_is_an_unavailable_bookie(method: str) -> None:
    assert run_against(method, NO_MESSAGE) == []


@pytest.mark.parametrize("method", ["Sync", "ListEntries"])
def test_a_range_without_an_end_is_no_answer(method: str) -> None:
    run_against(method, pb.ListEntriesReply(bounds=[0, 4, 9]).SerializeToString())


def test_the_failure_of_a_run_that_was_not_sent_is_no_answer() -> None:
    reply = pb.AddReply(settled=1, failures=[pb.AddFailure(number=9)])
    assert run_against("Add", reply.SerializeToString()) == []


def test_the_acknowledgement_of_a_run_that_was_not_sent_is_no_answer() -> None:
    assert run_against("Add", pb.AddReply(settled=2).SerializeToString()) == []
