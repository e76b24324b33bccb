"""Where a bookie is: an operator may say so, and the bookie's registration says it soon."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from quire.bookie import BookieAddress
from quire.errors import CorruptRecordError, WishRefusedError
from quire.healing import wishes
from quire.labels import NOWHERE, Labels
from quire.metastore.layout import standing_path
from quire.metastore.memory import MemoryStore
from quire.metastore.record import encode_record
from quire.metastore.standing import SERVING, Standing, Wish
from quire.storage.identity.registration import Registration
from quire.storage.identity.wish_watch import WishWatch
from quire.testing.bookie import MemoryBookie
from tests.support.virtual import virtually

STARTED = Labels(zone="a", rack="r1", host="h1")
MOVED = Labels(zone="a", rack="r9")
DRAIN = Standing(Wish.DRAIN, "old", "anna@desk", 7)


def test_a_standing_says_where_unless_it_does_not() -> None:
    assert SERVING.place(STARTED) == STARTED
    assert replace(SERVING, labels=MOVED).place(STARTED) == Labels(zone="a", rack="r9", host="h1")
    elsewhere = replace(MOVED, host="h2")
    assert replace(SERVING, labels=elsewhere).place(STARTED) == elsewhere
    assert replace(SERVING, labels=NOWHERE).place(STARTED) == Labels(host="h1")


@pytest.mark.parametrize("labels", [None, MOVED, NOWHERE])
def test_labels_survive_the_record_and_other_wishes(labels: Labels | None) -> None:
    standing = wishes.relabel("b1", labels)(DRAIN)
    assert standing == replace(DRAIN, labels=labels)
    assert Standing.decode("b1", standing.encode()) == standing
    back = wishes.serve("b1", Wish.DRAIN, 9, "bob@desk")(standing)
    assert (back.wish, back.labels) == (Wish.SERVE, labels)


def test_a_bookie_that_is_gone_is_nowhere() -> None:
    with pytest.raises(WishRefusedError, match="given up"):
        wishes.relabel("b1", MOVED)(Standing(Wish.GONE))


@pytest.mark.parametrize("labels", ["shelf=3", 7])
def test_labels_of_another_form_are_damage(labels: object) -> None:
    body = {"wish": "serve", "reason": "", "by": "", "since_ms": 0, "labels": labels}
    with pytest.raises(CorruptRecordError, match="labels"):
        Standing.decode("b1", encode_record("standing", 1, body))


def test_a_serving_bookie_is_registered_where_the_operator_says() -> None:
    async def main() -> None:
        store, bookie = MemoryStore(), MemoryBookie("b1")
        watch = WishWatch(store, "b1", lambda wish: None, asyncio.get_running_loop().time)
        registration = Registration(
            *(store, bookie, BookieAddress("b1", "host:1", labels=STARTED), random.Random(1)),
            place=lambda started: watch.standing.place(started),
        )
        await watch.look()
        watch.start()
        keeping = asyncio.create_task(registration.keep())
        await asyncio.sleep(1)
        for labels in (MOVED, Labels(host="h2")):
            standing = await wishes.change_standing(store, "b1", wishes.relabel("b1", labels))
            shown = await wishes.wait_placed(store, "b1", standing, 10.0)
            assert shown == standing.place(STARTED)
        version = (await store.get(standing_path("b1"))).version
        await store.delete(standing_path("b1"), version)
        assert await wishes.wait_placed(store, "b1", Standing(labels=STARTED), 10.0) == STARTED
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        assert await wishes.wait_placed(store, "b1", Standing(labels=STARTED), 1.0) is None
        await watch.close()

    virtually(main)
