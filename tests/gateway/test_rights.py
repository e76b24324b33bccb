"""A gateway acts with the rights of its callers, and tells them nothing of other logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from quire.gateway.app import CALLS
from quire.gateway.reads import stream_events
from quire.gateway.tokens import Token, caller
from quire.rights.calls import HTTP
from quire.rights.roles import Action, Role
from quire.rights.scopes import Reach
from quire.rights.table import AccessRule, Effect
from quire.testing.cluster import MemoryCluster
from quire.wire.identity import ANONYMOUS, client_identity
from tests.gateway.test_app import RECORDS, Served, serving
from tests.rights.scene import Scene, scene

TOKENS = tuple(Token(name, client_identity(name)) for name in ("reader", "writer", "operator"))
ALL = (*TOKENS, Token("nameless"))
ROLES = {"reader": Role.READER, "writer": Role.WRITER, "operator": Role.OPERATOR}
ON_ORDERS = tuple(
    AccessRule(client_identity(name).name, role, Reach(log="orders"))
    for name, role in ROLES.items()
)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@asynccontextmanager
async def guarded(cluster: MemoryCluster) -> AsyncIterator[tuple[Served, Scene]]:
    async with scene() as rights, serving(cluster, tokens=ALL, guard=rights.guard) as served:
        yield served, rights


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def filled(path: str, log: str) -> str:
    return path.format(name=log, place="0", cursor="c")


async def test_without_a_table_a_token_is_enough(cluster: MemoryCluster) -> None:
    async with guarded(cluster) as (one, _):
        answer = await one.http.post(RECORDS, json={"value": "a"}, headers=bearer("nameless"))
        assert answer.status_code == 201


async def test_each_call_needs_the_right_of_its_caller(cluster: MemoryCluster) -> None:
    async with guarded(cluster) as (one, rights):
        await one.http.post(RECORDS, json={"value": "a"}, headers=bearer("writer"))
        await rights.set(*ON_ORDERS)
        for call in CALLS:
            action = HTTP[call.method, call.path]
            if action is None or "{name}" not in call.path or call.path.endswith("/tail"):
                continue
            for token, role in {**ROLES, "nameless": None}.items():
                may = role is not None and action in role.actions
                for log in ("orders", "bills"):
                    answer = await one.http.request(
                        call.method, filled(call.path, log), json={}, headers=bearer(token)
                    )
                    is_denied = answer.status_code == 403
                    assert is_denied is not (may and log == "orders"), (call, token, log)
                    if is_denied and call.method != "HEAD":  # its answer has no body
                        assert answer.json()["error"] == "not_permitted"
                        assert str(action) in answer.json()["message"]
        listed = await one.http.get("/v1/logs", headers=bearer("operator"))
        assert listed.json() == {"logs": ["orders"]}, "a denied call has created no log"


async def test_the_list_has_the_logs_that_the_caller_may_observe(cluster: MemoryCluster) -> None:
    async with guarded(cluster) as (one, rights):
        for log in ("orders", "bills"):
            await one.http.put(f"/v1/logs/{log}", headers=bearer("writer"))
        await rights.set(*ON_ORDERS)
        found = {}
        for token in ("reader", "writer", "nameless"):
            found[token] = (await one.http.get("/v1/logs", headers=bearer(token))).json()["logs"]
        assert found == {"reader": ["orders"], "writer": [], "nameless": []}


async def test_an_open_stream_ends_with_its_right(cluster: MemoryCluster) -> None:
    async with guarded(cluster) as (one, rights):
        await rights.set(*ON_ORDERS)
        await one.http.post(RECORDS, json={"value": "a"}, headers=bearer("writer"))
        check = rights.guard.recheck(client_identity("reader"), Action.READ, "orders")
        events = stream_events(one.gateway.client, "orders", 0, check)
        async with aclosing(events):
            assert (await anext(events)).startswith(b": the stream begins")
            assert b"data: " in await anext(events)
            await rights.set(*ON_ORDERS, AccessRule("*", Role.OPERATOR, effect=Effect.DENY))
            assert await anext(events) == b": quiet\n\n", "another rule changed"
            await rights.set(*ON_ORDERS[1:])
            assert (await anext(events)).startswith(b"event: error\ndata: not_permitted: ")
            with pytest.raises(StopAsyncIteration):
                await anext(events)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Bearer reader", client_identity("reader")),
        ("bearer reader", client_identity("reader")),
        ("Bearer nameless", ANONYMOUS),
        ("Bearer read", None),
        ("Bearer reader ", None),
        ("Basic reader", None),
        ("reader", None),
        ("", None),
        ("Bearer \udcff", None),
    ],
)
def test_a_header_proves_one_identity(header: str, found: object) -> None:
    assert caller(ALL, header) == found


def test_without_tokens_each_caller_is_anonymous() -> None:
    assert caller((), "") is ANONYMOUS


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(Token("secret"))


async def test_a_refused_request_is_not_permitted_to_hold_a_connection(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    permitted: list[str] = []
    monkeypatch.setattr("quire.gateway.app.permit", lambda scope: permitted.append(scope["path"]))
    async with guarded(cluster) as (one, rights):
        await rights.set(*ON_ORDERS)
        for path, token, status in (
            ("/livez", "reader", 200),
            ("/v1/nothing", "reader", 404),
            ("/v1/logs", "wrong", 401),
            ("/v1/logs/bills/end", "reader", 403),
            ("/v1/logs/orders/end", "reader", 404),
        ):
            answer = await one.http.get(path, headers=bearer(token))
            assert answer.status_code == status, path
    assert permitted == ["/v1/logs/orders/end"]
