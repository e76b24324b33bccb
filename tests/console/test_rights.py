"""A console gives the holder of a token no more than the table of rights does."""

from __future__ import annotations

import pytest

from quire.console.calls import CALLS
from quire.log.records.position import BEGINNING
from quire.rights.guard import Guard
from quire.rights.roles import Action, Role
from quire.rights.scopes import Reach
from quire.rights.table import AccessRule
from quire.testing.cluster import MemoryCluster
from quire.wire.identity import client_identity
from tests.console.pages import console_of, fill
from tests.console.test_app import GIVEN
from tests.rights.scene import scene

ANNA = client_identity("anna")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def answered(cluster: MemoryCluster, guard: Guard) -> dict[str, int]:
    """The status of every page for Anna, whose right must not depend on that of the console."""
    async with console_of(cluster, holder=ANNA, rights=guard) as shown:
        await fill(shown)
        found = {}
        for call in CALLS:
            given = GIVEN.get(call.name, {})
            page = await shown.http.get(call.page, params=given)
            answer = await shown.http.get(call.path, params=given)
            assert page.status_code == answer.status_code
            if answer.status_code == 403:
                assert answer.json()["error"] == "not_permitted"
            found[call.name] = answer.status_code
        if found["records"] == 403:
            assert (await shown.http.get("/tail?log=orders&from=0")).status_code == 403
        return found


@pytest.mark.parametrize(
    ("rules", "open_pages"),
    [
        ((), {call.name for call in CALLS}),
        ((AccessRule("*", Role.ADMIN),), {call.name for call in CALLS}),
        ((AccessRule(ANNA.name, Role.OPERATOR),), {call.name for call in CALLS} - {"records"}),
        ((AccessRule(ANNA.name, Role.READER, Reach(log="orders")),), {"log", "records"}),
        ((AccessRule(ANNA.name, Role.READER, Reach(log="bills")),), set()),
        ((AccessRule("quire://client/root", Role.ADMIN),), set()),
    ],
    ids=["no table", "all", "operator", "reader of orders", "reader of bills", "nothing"],
)
async def test_a_page_needs_the_right_of_its_reader(
    rules: tuple[AccessRule, ...], open_pages: set[str], cluster: MemoryCluster
) -> None:
    async with scene() as rights:
        if rules:
            await rights.set(*rules)
        found = await answered(cluster, rights.guard)
    assert {name for name, status in found.items() if status == 200} == open_pages


async def test_an_open_tail_ends_with_its_right(cluster: MemoryCluster) -> None:
    async with (
        scene() as rights,
        console_of(cluster, holder=ANNA, rights=rights.guard) as shown,
    ):
        await fill(shown, [b"first"])
        await rights.set(AccessRule(ANNA.name, Role.READER))
        check = rights.guard.recheck(ANNA, Action.READ, "orders")
        events = shown.console._events("orders", BEGINNING, check)
        assert (await anext(events)).startswith(": the stream begins")
        assert "first" in await anext(events)
        await rights.set(AccessRule("quire://client/root", Role.ADMIN))
        assert (await anext(events)).startswith("event: end")
        assert [each async for each in events] == []
