"""The protocol in a bookie's address, and the stride that a read of a stripe carries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quire.bookie import BookieAddress, Stride
from quire.entry import LedgerId
from quire.errors import BookieUnavailableError, CorruptRecordError
from quire.ledger.links import link_bookie
from quire.ledger.quorum import Replication
from quire.ledger.roster import BookieRoster
from quire.metastore.layout import bookie_path
from quire.metastore.memory import MemoryStore
from quire.metastore.registration import FORMAT, decode_registration, encode_registration
from tests.ledger.recovering import scenario
from tests.ledger.test_roster import Link
from tests.support.memory_cluster import MemoryCluster
from tests.support.planted_ledger import PlantedLedger

FOREIGN = BookieAddress("b1", "host:3181", protocol="bookkeeper")


def test_a_registration_keeps_another_protocol_and_does_not_name_our_own() -> None:
    assert decode_registration("b1", encode_registration(FOREIGN)) == FOREIGN
    ours = encode_registration(BookieAddress("b1", "host:3181"))
    assert b"protocol" not in ours
    assert decode_registration("b1", ours).protocol == "quire"
    bad = FORMAT.encode({"address": "host:1", "writable": True, "protocol": 7})
    with pytest.raises(CorruptRecordError, match="protocol 7"):
        decode_registration("b1", bad)


def test_a_bookie_that_speaks_another_protocol_is_not_asked_in_ours() -> None:
    with pytest.raises(BookieUnavailableError, match="'bookkeeper'"):
        link_bookie(FOREIGN, request_timeout=1.0)


def test_recovery_and_readers_say_which_entries_are_a_bookie_s() -> None:
    async def body(cluster: MemoryCluster) -> None:
        replication = Replication(4, 2, 2)
        names = ["b0", "b1", "b2", "b3"]
        planted = await PlantedLedger.create(cluster, (0, " ".join(names)), replication=replication)
        for entry in range(8):
            await planted.add(" ".join(names[p] for p in replication.write_set(entry)), entry)
        seen: dict[str, set[Stride | None]] = {}

        def watch(name: str) -> None:
            bookie, read = cluster.bookies[name], cluster.bookies[name].read

            async def noted(ledger: LedgerId, first: int, last: int, **more: Any) -> bytes:
                seen.setdefault(name, set()).add(more.get("stride"))
                return await read(ledger, first, last, **more)

            bookie.read = noted  # type: ignore[method-assign]

        for name in names:
            watch(name)
        assert await planted.read_all() == list(range(8))
        assert seen == {name: {Stride(4, 2, at)} for at, name in enumerate(names)}
        for at in range(4):
            mine = [entry for entry in range(8) if at in replication.write_set(entry)]
            assert [entry for entry in range(8) if Stride(4, 2, at).gives(entry)] == mine

    scenario(4, body)


def test_a_bookie_of_another_protocol_is_known_and_takes_no_entries() -> None:
    async def body() -> None:
        store = MemoryStore()
        for address in (FOREIGN, BookieAddress("b2", "host:3181")):
            path = bookie_path(address.bookie)
            await store.create(path, encode_registration(address))
        for speaks, expected in ((("quire",), ["b2"]), (("quire", "bookkeeper"), ["b1", "b2"])):
            roster = BookieRoster(store, Link, speaks)
            await roster.refresh()
            assert roster.writable() == expected
            assert [each.bookie for each in roster.candidates()] == expected
            assert [each.bookie for each in roster.known()] == ["b1", "b2"]
            await roster.close()

    asyncio.run(body())
