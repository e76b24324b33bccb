"""Facts are gathered from every record there is, and no damaged record hides a bookie."""

from __future__ import annotations

import asyncio

from quire.bookie import BookieAddress, BookieInfo
from quire.entry import BookieId
from quire.errors import BookieUnavailableError
from quire.healing.facts import gather_facts
from quire.metastore.layout import bookie_path, cookie_path, heartbeat_path, standing_path
from quire.metastore.memory import MemoryStore
from quire.metastore.registration import encode_registration
from tests.golden.metadata import AWAY, HEARTBEAT

INFO = BookieInfo("b1", True, 1, 2, 3)


async def ask(bookie: BookieId) -> BookieInfo:
    if bookie == "b1":
        return INFO
    raise BookieUnavailableError(bookie, "by order of the test")


def test_every_record_counts() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(cookie_path("b0"), b"")
        for name in ("b1", "b2"):
            address = BookieAddress(name, f"{name}:1")
            await store.create(bookie_path(name), encode_registration(address))
        await store.create(heartbeat_path("b1"), HEARTBEAT.encode())
        await store.create(standing_path("b3"), AWAY.encode())
        found = await gather_facts(store, ask)
        assert [each.bookie for each in found] == ["b0", "b1", "b2", "b3"]
        b0, b1, b2, b3 = found
        assert (b0.registered, b0.heard_ms, b0.obeys) == (None, None, False)
        assert (b1.address, b1.heartbeat, b1.heard_ms, b1.info) == (
            *("b1:1", HEARTBEAT),
            *(HEARTBEAT.at_ms, INFO),
        )
        assert (b2.info, b2.silence) == (
            None,
            "bookie b2 is unavailable: by order of the test",
        )
        assert b3.standing == AWAY
        await store.close()

    asyncio.run(main())


def test_a_damaged_record_is_a_fact() -> None:
    async def main() -> None:
        store = MemoryStore()
        for path in (bookie_path("b1"), heartbeat_path("b1"), standing_path("b1")):
            await store.create(path, b"garbage")
        (found,) = await gather_facts(store)
        assert found.registered is None
        assert len(found.damaged) == 3
        await store.close()

    asyncio.run(main())
