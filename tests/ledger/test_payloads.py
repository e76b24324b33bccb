"""What is no payload is refused at the call; what the caller changes later is as it was then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.errors import InvalidRequestError
from quire.ledger.numbered import NumberedWriter
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, Writing

WRONG: list[Any] = ["text", None, 5, 1.5, [1, 2]]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_no_payload_is_refused_at_the_call_and_holds_nobody_up(wrong: Any) -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=2) as world:
            writer = world.writer
            gates = [world.bookies[name].hold() for name in "abc"]
            waiting = world.entries(4)
            await asyncio.sleep(0.01)
            for call in (writer.append(wrong), writer.submit(wrong), writer.append_many([wrong])):
                with pytest.raises(TypeError, match="a payload is bytes"):
                    await call
            with pytest.raises(TypeError, match="a payload is bytes"):
                await writer.append_many([b"good", wrong])
            for gate in gates:
                gate.set()
            assert await asyncio.gather(*waiting) == [0, 1, 2, 3]
            assert await writer.append(b"next") == 4

    virtually(main)


def test_what_waits_is_as_it_was_when_it_was_given() -> None:
    async def main() -> None:
        async with Writing(entries_in_flight_max=1) as world:
            gates = [world.bookies[name].hold() for name in "abc"]
            data = bytearray(b"one")
            words = memoryview(b"abcdefgh").cast("I")
            appends = [
                asyncio.create_task(world.writer.append_many([b"first", data])),  # type: ignore[list-item]
                asyncio.create_task(world.writer.append_many([data, words])),  # type: ignore[list-item]
            ]
            await asyncio.sleep(0.01)
            data[:] = b"two"
            for gate in gates:
                gate.set()
            await asyncio.gather(*appends)
            frames = world.bookies["a"].ledgers[LEDGER].frames
            found = [world.sealer.unseal(entry, frames[entry]).payload for entry in range(4)]
            assert found == [b"first", b"one", b"one", b"abcdefgh"]
            assert world.writer.length == 19

    virtually(main)


@pytest.mark.parametrize("entry", [-1, 1.5, True, "1", 2**63])
def test_what_is_no_entry_id_is_refused(entry: Any) -> None:
    async def main() -> None:
        async with Writing() as world:
            writer = NumberedWriter(world.writer)
            with pytest.raises(InvalidRequestError, match="entry id"):
                await writer.submit(entry, b"x")
            with pytest.raises(TypeError):
                await writer.submit(0, "text")  # type: ignore[arg-type]
            assert await writer.append(0, b"x") == 0

    virtually(main)
