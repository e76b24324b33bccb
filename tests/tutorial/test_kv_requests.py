"""What the key-value server lets into its log, and what it says to the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest

import quire
from quire.errors import EntryTooLargeError
from quire.service import Applied, Role
from tests.tutorial.test_kv import free_ports
from tutorial.kv import server
from tutorial.kv.server import Face, make_app
from tutorial.kv.store import Store


class Alone:
    """A service of one replica without a log: a command is applied at once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.commands: list[bytes] = []
        self.ended = asyncio.Event()

    async def submit(self, command: bytes) -> dict[str, Any]:
        if len(command) > 1000:
            raise EntryTooLargeError(len(command), 1000)
        self.commands.append(command)
        at = Applied(quire.Position(1, 0, 0), 0, 1)
        return self.store.apply(command, at)

    async def barrier(self) -> None:
        """Nobody else leads."""

    async def wait_role(self, role: Role) -> None:
        assert role is Role.STOPPED
        await self.ended.wait()


def face_of(service: Alone) -> Face:
    return Face(cast("quire.Service[dict[str, object]]", service), service.store)


def ask(method: str, url: str, **request: Any) -> tuple[httpx.Response, list[bytes]]:
    service = Alone(Store())
    app = make_app(face_of(service))

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://kv") as http:
            return await http.request(method, url, **request)

    return asyncio.run(main()), service.commands


@pytest.mark.parametrize(
    "body",
    [
        "garbage",
        "",
        "\xff",
        "[]",
        "7",
        "[" * 100_000,
        '{"value": "red"}',
        '{"value": "red", "id": null}',
        '{"value": "red", "id": ["no key of a dictionary"]}',
        '{"value": "red", "id": 1}',  # "1" once it was in a snapshot: another id
        '{"value": NaN, "id": "1"}',
        '{"value": {"a": 1}, "id": "1"}',
        '{"value": "red", "id": "1", "expected": [1]}',
        '{"value": "\\ud800", "id": "1"}',
    ],
)
def test_what_the_store_could_not_carry_out_is_refused_before_the_log(body: str) -> None:
    answer, commands = ask("PUT", "/kv/colour", content=body.encode("latin-1"))
    assert (answer.status_code, commands) == (400, [])
    assert "not a request" in answer.json()["error"]


def test_deleting_needs_an_id_and_writes_nothing() -> None:
    assert ask("DELETE", "/kv/colour")[0].status_code == 400
    answer, commands = ask("DELETE", "/kv/colour?id=1&value=red")
    assert answer.json()["value"] is None
    assert [json.loads(each)["value"] for each in commands] == [None]


def test_a_value_that_is_too_large_is_not_to_be_tried_again() -> None:
    answer, _ = ask("PUT", "/kv/colour", json={"value": "x" * 2000, "id": "1"})
    assert answer.status_code == 400
    assert "exceeds the limit of 1000 bytes" in answer.json()["error"]


def test_a_proper_request_is_carried_out() -> None:
    answer, _ = ask("PUT", "/kv/colour", json={"value": "rot ü €", "id": "1"})
    assert (answer.status_code, answer.json()["value"]) == (200, "rot ü €")


def test_who_asks_slowly_does_not_keep_a_leader_from_resigning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resigned = asyncio.Event()

    @contextlib.asynccontextmanager
    async def replica(*_: object) -> AsyncIterator[Face]:
        yield face_of(Alone(Store()))
        resigned.set()

    async def main() -> None:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        serving = asyncio.create_task(server.serve("memory:", address, 100))
        async with httpx.AsyncClient() as http:
            while True:
                with contextlib.suppress(httpx.ConnectError):
                    assert (await http.get(f"http://{address}/kv/a")).status_code == 404
                    break
                await asyncio.sleep(0.01)
        _, slow = await asyncio.open_connection(*address.split(":"))
        slow.write(b"PUT /kv/a HTTP/1.1\r\nHost: kv\r\nContent-Length: 100\r\n\r\n{")
        await slow.drain()
        async with httpx.AsyncClient() as http:  # answered when the slow request was seen as well
            await http.get(f"http://{address}/kv/a")
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(20):
            await resigned.wait()
            await serving
        slow.close()

    monkeypatch.setattr(server, "replica", replica)
    monkeypatch.setattr(server, "ANSWER_SECONDS", 1)
    previous = signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn hands it on at the end
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_the_server_ends_with_its_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Alone(Store())

    @contextlib.asynccontextmanager
    async def replica(*_: object) -> AsyncIterator[Face]:
        service.ended.set()
        yield face_of(service)

    async def main() -> None:
        async with asyncio.timeout(20):
            await server.serve("memory:", f"127.0.0.1:{free_ports(1)[0]}", 100)

    monkeypatch.setattr(server, "replica", replica)
    asyncio.run(main())
