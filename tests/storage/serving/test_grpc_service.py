"""Reads and tails over gRPC: the right and the key must hold when the answer is there, too."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from quire.errors import NotPermittedError, QuireError, UnauthorizedError
from quire.rights.roles import Action
from quire.storage.serving.grpc_service import BookieService
from quire.storage.serving.limits import LetsRead, Reception
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.codec import decode_failure
from quire.wire.reads import decode_part
from quire.wire.transport import ServerContext
from tests.rights.test_doors import Keeper
from tests.storage.serving.test_read_stream import SEALER, SlowBookie, run_of
from tests.storage.serving.test_shares import STRANGER, Call, context
from tests.support.virtual import virtually

REQUEST = pb.ReadRequest(bookie="b1", ledger=7, bytes_max=2**20)


class ReadCall(Call):
    """The caller's end of one read."""

    def __init__(self) -> None:
        super().__init__(STRANGER)
        self.heard: list[bytes | type[QuireError]] = []

    async def write(self, message: bytes) -> None:
        try:
            self.heard.append(bytes(decode_part(message).data))
        except QuireError as error:
            self.heard.append(type(error))


class Scene:
    """A bookie that answers when the test says so, and one read that has begun."""

    def __init__(self, *, lets_read: LetsRead | None = None, keeper: Keeper | None = None) -> None:
        self.bookie = SlowBookie()
        self.bookie.may_answer.clear()
        self.reception = Reception(self.bookie, "b1", doorkeeper=keeper, lets_read=lets_read)
        self._call = ReadCall()

    async def begin(self) -> None:
        await self.bookie.add(7, SEALER.access_key, run_of(0))
        context = cast("ServerContext", self._call)
        self._reading = asyncio.ensure_future(BookieService(self.reception).Read(REQUEST, context))
        await asyncio.sleep(0.001)

    async def heard(self) -> list[bytes | type[QuireError]]:
        """Let the bookie answer, and return what the caller hears."""
        self.bookie.may_answer.set()
        await self._reading
        assert self.reception.gathering.free == self.reception.gathering.size
        return self._call.heard


def test_a_read_is_answered() -> None:
    async def main() -> None:
        scene = Scene(lets_read=lambda *_: True, keeper=Keeper())
        await scene.begin()
        assert await scene.heard() == [run_of(0)]

    virtually(main)


def test_a_ledger_that_begins_while_a_read_waits_for_its_turn_keeps_its_password() -> None:
    async def main() -> None:
        begun = set[int]()
        scene = Scene(lets_read=lambda ledger, _: ledger not in begun)
        everything = scene.reception.gathering.peer_max
        assert scene.reception.gathering.take("192.0.2.1", everything)
        await scene.begin()
        assert scene.bookie.reading == 0
        begun.add(7)
        scene.reception.gathering.give_back("192.0.2.1", everything)
        assert await scene.heard() == [UnauthorizedError]

    virtually(main)


def test_a_ledger_that_begins_during_the_look_up_keeps_its_password() -> None:
    async def main() -> None:
        begun = set[int]()
        scene = Scene(lets_read=lambda ledger, _: ledger not in begun)
        await scene.begin()
        assert scene.bookie.reading == 1
        begun.add(7)
        assert await scene.heard() == [UnauthorizedError]

    virtually(main)


def test_a_right_that_is_taken_away_during_the_look_up_is_gone() -> None:
    async def main() -> None:
        keeper = Keeper()
        scene = Scene(keeper=keeper)
        await scene.begin()
        assert scene.bookie.reading == 1
        keeper.denied = {Action.READ}
        assert await scene.heard() == [NotPermittedError]

    virtually(main)


@pytest.mark.parametrize("request_type", [pb.ReadTailRequest, pb.WaitTailRequest])
def test_a_right_that_is_taken_away_while_a_tail_is_looked_up_is_gone(request_type: Any) -> None:
    async def main() -> None:
        keeper, bookie = Keeper(), MemoryBookie("b1")

        async def take_away(_: str, __: int) -> None:
            keeper.denied = {Action.READ}

        bookie.before = take_away
        service = BookieService(Reception(bookie, "b1", doorkeeper=keeper))
        call: Any = getattr(service, request_type.__name__.removesuffix("Request"))
        reply = await call(request_type(bookie="b1", ledger=7), context(STRANGER))
        assert isinstance(decode_failure(reply.failure), NotPermittedError)

    virtually(main)
