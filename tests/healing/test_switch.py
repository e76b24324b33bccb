"""The switch and the summary in the store."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import CorruptRecordError
from quire.healing.summary import Summary, read_summary
from quire.healing.switch import Go, Switch, change_switch, read_switch
from quire.metastore.layout import HEALING_SUMMARY, HEALING_SWITCH
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from tests.golden.metadata import HEALING, SWITCH
from tests.support.virtual import virtually


def test_operators_at_once_lose_no_change() -> None:
    async def main() -> None:
        store = MemoryStore()
        assert await read_switch(store) == Switch()
        assert await read_summary(store) is None
        go, pause = SWITCH.go, SWITCH.pause
        assert go is not None
        await asyncio.gather(
            change_switch(store, lambda it: it.going(go)),
            change_switch(store, lambda it: it.paused(pause)),
        )
        assert await read_switch(store) == SWITCH
        version = (await store.get(HEALING_SWITCH)).version
        assert await change_switch(store, lambda it: it.paused(pause)) == SWITCH
        assert (await store.get(HEALING_SWITCH)).version == version
        assert await change_switch(store, lambda it: it.paused(None)) == Switch(None, go)

    virtually(main)


@pytest.mark.parametrize(
    "body",
    [
        {"pause": 7},
        {"pause": {"reason": "", "by": "", "since_ms": 5, "until_ms": 5}},
        {"go": {"by": "", "at_ms": 1, "bookies": [7]}},
        {"go": {"by": ""}},
    ],
)
def test_a_damaged_switch_is_told(body: dict[str, object]) -> None:
    with pytest.raises(CorruptRecordError, match=HEALING_SWITCH):
        Switch.decode(HEALING_SWITCH, encode_record("healing-switch", 1, body))


@pytest.mark.parametrize("name", HEALING.fields())
def test_a_damaged_summary_is_told(name: str) -> None:
    for wrong in ({**HEALING.fields(), name: None}, {**HEALING.fields(), name: {"a": "b"}}):
        with pytest.raises(CorruptRecordError, match=HEALING_SUMMARY):
            Summary.decode(HEALING_SUMMARY, encode_record("healing-summary", 1, wrong))


def test_a_damaged_switch_is_written_anew() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(HEALING_SWITCH, b"garbage")
        with pytest.raises(CorruptRecordError):
            await read_switch(store)
        await change_switch(store, lambda it: it.paused(None))
        assert await read_switch(store) == Switch()

    virtually(main)


def test_a_go_allows_no_other_bookie() -> None:
    switch = Switch(go=Go("anna", 1, ("a", "b")))
    assert switch.allows(["a"])
    assert not switch.allows(["a", "c"])
    assert not Switch().allows(["a"])
