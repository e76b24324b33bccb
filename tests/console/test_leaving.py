"""Clients that leave, that stall, or that are refused: the application alone, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from quire.console.app import LOGIN_SECONDS
from quire.testing.cluster import MemoryCluster
from tests.console.pages import TOKEN, Shown, console_of, fill


def scope_of(method: str, path: str, query: bytes = b"") -> dict[str, Any]:
    """A request with a token, by a server that tells of a client that left when it sends."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())],
        "scheme": "http",
        "server": ("one", 80),
        "asgi": {"version": "3.0", "spec_version": "2.4"},
    }


async def leave() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def test_tails_that_come_together_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quire.console.app.STREAMS_MAX", 2)
    statuses: list[int] = []

    async def note(message: Any) -> None:
        await asyncio.sleep(0)  # the others come before the first one has begun
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    def tail(shown: Shown) -> asyncio.Future[None]:
        scope = scope_of("GET", "/tail", b"log=orders")
        return asyncio.ensure_future(shown.console.app(scope, leave, note))

    async with console_of(MemoryCluster()) as shown:
        await fill(shown)
        open_tails = [tail(shown) for _ in range(5)]
        await asyncio.sleep(1)
        assert sorted(statuses) == [200, 200, 429, 429, 429]
        open_tails[0].cancel()
        await asyncio.wait(open_tails[:1])
        open_tails.append(tail(shown))
        await asyncio.sleep(1)
        assert statuses[-1] == 200, "one that has ended is not counted"
        await shown.console.end()
        await asyncio.gather(*open_tails, return_exceptions=True)


@pytest.mark.parametrize("parts", [0, 1, 2])
async def test_a_tail_whose_client_leaves_is_closed(
    monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    """Whatever the client has by then: the head of the answer, or parts of it."""
    made: list[AsyncGenerator[str, None]] = []
    takes = iter(range(parts))

    async def take(message: Any) -> None:
        if next(takes, None) is None:
            raise OSError("the client left")

    async with console_of(MemoryCluster()) as shown:
        await fill(shown)
        make_events = shown.console._events

        def keep(*given: Any) -> AsyncGenerator[str, None]:
            made.append(make_events(*given))
            return made[-1]

        monkeypatch.setattr(shown.console, "_events", keep)
        with pytest.raises(ClientDisconnect):
            await shown.console.app(scope_of("GET", "/tail", b"log=orders&from=0"), leave, take)
        (events,) = made
        assert await anext(events, None) is None


async def test_a_token_that_does_not_come_is_not_waited_for() -> None:
    async def stalling() -> AsyncIterator[bytes]:
        yield b"token="
        await asyncio.Event().wait()

    async with console_of(MemoryCluster(), token="") as shown:
        begun = asyncio.get_running_loop().time()
        answer = await shown.http.post("/login", content=stalling())
        assert (answer.status_code, answer.json()["error"]) == (408, "stalled")
        assert answer.headers["connection"] == "close"
        assert asyncio.get_running_loop().time() - begun == pytest.approx(LOGIN_SECONDS, abs=0.1)


async def test_a_client_that_leaves_its_login_is_no_defect() -> None:
    async def ignore(message: Any) -> None: ...

    async with console_of(MemoryCluster()) as shown:
        await shown.console.app(scope_of("POST", "/login"), leave, ignore)


async def test_a_refused_request_is_not_permitted_to_hold_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    permitted: list[str] = []
    monkeypatch.setattr("quire.console.app.permit", lambda scope: permitted.append(scope["path"]))
    async with console_of(MemoryCluster(), token="wrong") as shown:
        for path, status in (("/livez", 200), ("/login", 405), ("/logs", 401)):
            assert (await shown.http.get(path)).status_code == status
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await shown.http.get("/logs", headers=bearer)).status_code == 200
    assert permitted == ["/logs"]
