"""An operator's wishes: what each becomes, what is refused, and what a change survives."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quire.bookie import BookieAddress
from quire.errors import (
    InvalidRequestError,
    NoSuchBookieError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    WishRefusedError,
)
from quire.healing import wishes
from quire.metastore.layout import (
    bookie_path,
    cookie_path,
    heartbeat_path,
    moves_path,
    standing_path,
)
from quire.metastore.memory import MemoryStore
from quire.metastore.record import decode_record, encode_record
from quire.metastore.registration import encode_registration
from quire.metastore.standing import SERVING, Standing, Wish
from tests.golden.metadata import HEARTBEAT
from tests.support.faulty_store import FaultyStore

NOW = 1_700_000_000_000
BY = "anna@desk"
AWAY = Standing(Wish.AWAY, "fan", BY, NOW, NOW + 60_000)
DRAIN = Standing(Wish.DRAIN, "old", BY, NOW)
BACK = Standing(Wish.SERVE, "", BY, NOW)
GONE = Standing(Wish.GONE, "", BY, NOW)

DECISIONS = {
    "away": wishes.away("b1", NOW, 60, "fan", BY),
    "drain": wishes.drain("b1", NOW, "old", BY),
    "back": wishes.serve("b1", Wish.AWAY, NOW, BY),
    "recommission": wishes.serve("b1", Wish.DRAIN, NOW, BY),
}
TABLE = {
    "away": {"serve": AWAY, "away": AWAY, "drain": "recommission b1", "gone": "format an empty"},
    "drain": {"serve": DRAIN, "away": DRAIN, "drain": DRAIN, "gone": "format an empty"},
    "back": {"serve": SERVING, "away": BACK, "drain": "recommission b1", "gone": "given up"},
    "recommission": {"serve": SERVING, "away": "back b1", "drain": BACK, "gone": "given up"},
}
CURRENT = {"serve": SERVING, "away": AWAY, "drain": DRAIN, "gone": GONE}


@pytest.mark.parametrize("command", TABLE)
@pytest.mark.parametrize("current", CURRENT)
def test_the_table_of_wishes(command: str, current: str) -> None:
    decide, wanted = DECISIONS[command], TABLE[command][current]
    if isinstance(wanted, str):
        with pytest.raises(WishRefusedError, match=wanted):
            decide(CURRENT[current])
    else:
        assert decide(CURRENT[current]) == wanted


@pytest.mark.parametrize(
    ("given", "found"), [("abcd1", "abcd1"), ("abcd12", "abcd12"), ("bbbb", "bbbb9")]
)
def test_a_bookie_is_named_by_its_id_or_its_begin(given: str, found: str) -> None:
    assert wishes.resolve(given, ["abcd1", "abcd12", "bbbb9"]) == found


def test_a_begin_that_is_too_short_or_of_several_is_refused() -> None:
    for given in ("bbb", "cccc", ""):
        with pytest.raises(NoSuchBookieError, match="is not known"):
            wishes.resolve(given, ["bbbb9"])
    with pytest.raises(InvalidRequestError, match="ids of 2 bookies: abcd1, abcd2; give more"):
        wishes.resolve("abcd", ["abcd2", "abcd1"])


def standing(store: MemoryStore) -> Standing:
    return Standing.decode("b1", store.tree.get(standing_path("b1")).value)


def test_a_change_survives_a_rival_and_a_lost_answer() -> None:
    async def main() -> None:
        inner = MemoryStore()
        store = FaultyStore(inner)
        left = ["rival", "unknown"]

        async def before(method: str, path: str) -> None:
            if method == "commit" and left[:1] == ["rival"]:
                left.pop(0)
                await inner.create(standing_path("b1"), BACK.encode())

        async def after(method: str, path: str) -> None:
            if method == "commit" and left[:1] == ["unknown"]:
                left.pop(0)
                raise StoreOutcomeUnknownError(path, "by order of the test")

        store.before, store.after = before, after
        assert await wishes.change_standing(store, "b1", DECISIONS["drain"]) == DRAIN
        assert left == []
        assert standing(inner) == DRAIN
        assert await wishes.change_standing(store, "b1", DECISIONS["recommission"]) == BACK
        await inner.close()

    asyncio.run(main())


def test_a_change_keeps_the_fields_of_a_later_program() -> None:
    async def main() -> None:
        store = MemoryStore()
        _, body = decode_record("/", "standing", DRAIN.encode())
        later = encode_record("standing", 1, {**body, "later": 1})
        await store.create(standing_path("b1"), later)
        await wishes.change_standing(store, "b1", DECISIONS["recommission"])
        _, after = decode_record("/", "standing", (await store.get(standing_path("b1"))).value)
        assert (after["wish"], after["later"]) == ("serve", 1)
        await store.close()

    asyncio.run(main())


def test_a_damaged_standing_is_written_anew() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(standing_path("b1"), b"garbage")
        await wishes.change_standing(store, "b1", DECISIONS["drain"])
        assert standing(store) == DRAIN
        await store.close()

    asyncio.run(main())


def test_a_bookie_is_forgotten_as_a_whole_and_again() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(cookie_path("b1"), b"")
        await store.create(heartbeat_path("b1"), HEARTBEAT.encode())
        await store.create(moves_path("b1"), b"")
        for _ in range(2):
            assert await wishes.forget(store, "b1", NOW, "", BY) == GONE
            assert standing(store) == GONE
            for path in (cookie_path("b1"), heartbeat_path("b1"), moves_path("b1")):
                with pytest.raises(NoSuchNodeError):
                    await store.get(path)
        await store.close()

    asyncio.run(main())


def test_obedience_is_waited_for() -> None:
    async def main() -> None:
        store = MemoryStore()
        assert not await wishes.wait_obeyed(store, "b1", Wish.AWAY, 5), "nothing to wait for"
        version = await store.create(heartbeat_path("b1"), HEARTBEAT.encode())
        assert await wishes.wait_obeyed(store, "b1", Wish.AWAY, 5)
        assert not await wishes.wait_obeyed(store, "b1", Wish.DRAIN, 0.01)
        waiting = asyncio.create_task(wishes.wait_obeyed(store, "b1", Wish.SERVE, 30))
        await asyncio.sleep(0)
        beat = replace(HEARTBEAT, wish=Wish.SERVE)
        await store.put(heartbeat_path("b1"), beat.encode(), version)
        assert await waiting
        await store.close()

    asyncio.run(main())


def test_a_bookie_is_obedient_when_clients_are_told_as_well() -> None:
    async def main() -> None:
        store, offered = MemoryStore(), BookieAddress("b1", "127.0.0.1:1")
        await store.create(heartbeat_path("b1"), HEARTBEAT.encode())
        version = await store.create(bookie_path("b1"), encode_registration(offered))
        assert not await wishes.wait_obeyed(store, "b1", Wish.AWAY, 0.01)
        waiting = asyncio.create_task(wishes.wait_obeyed(store, "b1", Wish.AWAY, 30))
        await asyncio.sleep(0)
        withdrawn = encode_registration(replace(offered, writable=False))
        await store.put(bookie_path("b1"), withdrawn, version)
        assert await waiting
        await store.close()

    asyncio.run(main())
