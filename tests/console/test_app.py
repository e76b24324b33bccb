"""The pages and calls of a console, over a cluster in memory and in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import quire
from quire.console.access import HEADERS
from quire.console.calls import CALLS, Query
from quire.console.openapi import openapi
from quire.console.records import follow, record_row
from quire.errors import InvalidRequestError
from quire.log.records.position import BEGINNING, Record
from quire.testing.cluster import MemoryCluster
from tests.console import scene
from tests.console.pages import ANNOUNCED, TOKEN, console_of, fill, parse

DOCUMENT = openapi()

GIVEN: dict[str, dict[str, str]] = {
    "log": {"name": "orders"},
    "records": {"log": "orders", "from": "beginning"},
    "ledger": {"id": "0"},
}


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def test_a_page_and_its_call_say_the_same(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        await fill(shown)
        for call in CALLS:
            given = GIVEN.get(call.name, {})
            answer = await shown.http.get(call.path, params=given)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            page = await shown.http.get(call.page, params=given)
            assert (page.status_code, page.headers["content-type"]) == (
                *(200, "text/html; charset=utf-8"),
            )
            text = parse(page.text).text
            for value in list(texts(answer.json()))[:40]:
                assert " ".join(value.split()) in text, f"{call.page} does not show {value!r}"


def texts(value: object) -> list[str]:
    """The texts of a call that every page shows: names and headlines."""
    shown = {"headline", "summary", "question", "bookie", "state", "payload", "title"}
    if isinstance(value, dict):
        own = [each for key, each in value.items() if key in shown and isinstance(each, str)]
        return own + [each for part in value.values() for each in texts(part)]
    if isinstance(value, list):
        return [each for part in value for each in texts(part)]
    return []


async def test_every_answer_has_its_schema(cluster: MemoryCluster) -> None:
    document = DOCUMENT
    schemas = document["components"]["schemas"]
    async with console_of(cluster) as shown:
        await fill(shown)
        assert (await shown.http.get("/api/v1/openapi.json")).json() == json.loads(
            json.dumps(document)
        )
        for call in CALLS:
            answer = (await shown.http.get(call.path, params=GIVEN.get(call.name))).json()
            described = document["paths"][call.path]["get"]
            check(answer, described["responses"]["200"]["content"]["application/json"]["schema"])
            assert {each["name"] for each in described["parameters"]} == set(call.parameters)
    assert all(each["description"] for each in schemas.values())


def check(value: object, schema: Any) -> None:
    """Compare a value with a schema, as far as ours go."""
    schemas = DOCUMENT["components"]["schemas"]
    if "$ref" in schema:
        schema = schemas[str(schema["$ref"]).rpartition("/")[2]]
    match schema:
        case {"anyOf": [*choices]}:
            if value is not None:
                check(value, choices[0])
        case {"type": "object", "properties": dict(properties)}:
            assert isinstance(value, dict)
            assert set(value) == set(properties)
            for name, each in value.items():
                check(each, properties[name])
        case {"type": "object", "additionalProperties": dict(inner)}:
            assert isinstance(value, dict)
            for each in value.values():
                check(each, inner)
        case {"type": "array", "items": dict(inner)}:
            assert isinstance(value, list)
            for each in value:
                check(each, inner)
        case {"type": str(kind)}:
            kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
            assert isinstance(value, kinds[kind]), (value, schema)  # type: ignore[arg-type]
        case _:
            raise AssertionError(schema)


async def test_the_four_troubles_are_on_the_first_page(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        shown.show(scene.all_troubles(scene.healthy()))
        page = await shown.page("/")
        assert page.one("h1").text == "Look at this"
        tiles = [each.text for each in page.all("a") if "tile" in each.classes]
        assert len(tiles) == 4
        for tile, names in zip(tiles, ("b03", "b03", "payments", "fraud-check"), strict=True):
            assert names in tile
        shown.show(scene.waiting_appends(scene.healthy()))
        page = await shown.page("/")
        assert page.one("h1").text == "Act now"
        assert "Appends wait" in page.all("a", class_="tile tile-critical")[0].text


@pytest.mark.parametrize(("bookies", "logs"), [(0, 0), (3, 1), (50, 1_000)])
async def test_every_page_works_at_any_size(
    bookies: int, logs: int, cluster: MemoryCluster
) -> None:
    async with console_of(cluster) as shown:
        shown.show(scene.healthy(bookies, logs))
        for path in ("/", "/bookies", "/logs", "/healing", "/ledgers", "/growth", "/connections"):
            page = await shown.page(path)
            for body in page.all("tbody"):
                rows = [each for each in body.all("tr") if "group" not in each.classes]
                assert len(rows) <= 100, path
        assert (await shown.page("/logs", order="growth", page="10")).one("h1")


async def test_a_page_of_many_ledgers_reads_a_hundred(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        for _ in range(130):
            async with await shown.source.client.create_ledger():
                pass
        first = (await shown.http.get("/api/v1/ledgers")).json()
        assert (len(first["rows"]), first["next"]) == (100, 100)
        page = await shown.page("/ledgers", **{"from": "100"})
        assert len(page.one("tbody").all("tr")) == 30
        assert not page.all("a", rel="next")
        empty = await shown.page("/ledgers", **{"from": "5000"})
        assert "No ledger has an id from 5000 on" in empty.text


async def test_records_are_found_by_offset_time_position_and_txid(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        client = shown.source.client
        async with await client.open_log("orders") as log:
            for number in range(150):
                await log.append(b"record %d" % number, txid=10 * number)
            await asyncio.sleep(ANNOUNCED)

            async def offsets(start: str) -> list[int]:
                found = await shown.http.get(
                    "/api/v1/records", params={"log": "orders", "from": start}
                )
                assert found.json()["trouble"] == ""
                return [each["offset"] for each in found.json()["rows"]]

            assert await offsets("beginning") == list(range(100))
            assert await offsets("latest") == list(range(50, 150)), "the last page"
            assert await offsets("120") == list(range(120, 150))
            assert (await offsets("txid:1205"))[0] == 121
            assert (await offsets("1970-01-01T00:00:00"))[0] == 0, "a time without a zone is UTC"
            first = (await shown.http.get("/api/v1/records?log=orders&from=0")).json()
            assert (await offsets(first["next"]))[0] == 100
            page = await shown.page("/records", log="orders", **{"from": first["next"]})
            assert "record 149" in page.text


@pytest.mark.parametrize("start", ["yesterday", "1.2", "99.99.99", "txid:x", "-1"])
async def test_a_wrong_place_says_how_to_write_one(start: str, cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        await fill(shown)
        page = await shown.page("/records", log="orders", **{"from": start})
        assert page.one("p", role="alert").text


async def test_a_log_with_a_strange_name_has_its_page(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        for name in ("a/b", "..", "<b>&\"'", "ä ö", "a%2Fb"):
            await shown.source.client.create_log(name)
        await shown.source.sampler.look()
        page = await shown.page("/logs")
        links = [
            each.attributes["href"]
            for each in page.all("a")
            if each.attributes["href"].startswith("/log?")
        ]
        assert len(links) == 5
        for link in links:
            assert (await shown.http.get(link)).status_code == 200, link


async def test_payloads_are_text_or_digits_and_never_markup(cluster: MemoryCluster) -> None:
    evil = b"<script>alert(1)</script>"
    async with console_of(cluster) as shown:
        await fill(shown, [evil, b"\xff\x00", b"", "ä".encode() * 5_000])
        answer = await shown.http.get("/records", params={"log": "orders", "from": "0"})
        assert "<script>alert" not in answer.text
        shown_texts = [each.text for each in parse(answer.text).all("pre")]
        assert shown_texts[:3] == [evil.decode(), "ff 00", ""]
        assert shown_texts[3].endswith("…")
        assert len(shown_texts[3]) < 2_100


@pytest.mark.parametrize(
    ("payload", "form", "is_cut"),
    [
        (b"text\nlines\t", "text", False),
        (b"\x1b[31m", "hex", False),
        ("ä".encode() * 1_023 + b"xyz", "text", True),
        (b"x" + "ä".encode() * 2_000, "text", True),
        (b"\xff" * 4_000, "hex", True),
    ],
)
def test_a_payload_is_cut_between_characters(payload: bytes, form: str, is_cut: bool) -> None:
    record = Record(quire.Position(1, 0, 0), 0, 1, 0, payload)
    row = record_row(record)
    assert (row.form, row.is_cut, row.size) == (form, is_cut, len(payload))


async def test_a_tail_gives_records_as_they_come(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        await fill(shown, [b"first"])
        stopping = asyncio.Event()
        records = follow(shown.source.client, "orders", BEGINNING, stopping)
        first = await anext(records)
        assert first is not None
        assert first.payload == b"first"
        assert await anext(records) is None, "a quiet stream says so"
        await fill(shown, [b"second"])
        second = await anext(records)
        assert second is not None
        assert second.payload == b"second"
        stopping.set()
        assert [each async for each in records] == [], "a console that ends ends its tails"


@pytest.mark.real_time
async def test_a_tail_is_a_stream_of_rows(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        async with await shown.source.client.open_log("orders") as log:
            await log.append(b"<b>\r\nline\n\ndata: x")
            await log.seal()
        answer = await shown.http.get("/tail", params={"log": "orders", "from": "0"})
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [each for each in answer.text.split("\n\n") if each]
        assert [each.split("\n")[0] for each in events] == [
            *(": the stream begins", "event: record", "event: end"),
        ]
        assert "&lt;b&gt;" in events[1]
        missing = await shown.http.get("/tail", params={"log": "gone"})
        assert "event: end" in missing.text


async def test_a_request_needs_a_token_also_on_this_machine(cluster: MemoryCluster) -> None:
    async with console_of(cluster, token="") as shown:
        for call in CALLS:
            page = await shown.http.get(call.page)
            assert page.status_code == 401
            assert parse(page.text).one("form").attributes["action"] == "/login"
            assert "b00" not in page.text
            answer = await shown.http.get(call.path)
            assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
        for path in ("/tail?log=orders", "/readyz", "/api/v1/openapi.json", "/nothing"):
            assert (await shown.http.get(path)).status_code == 401, path
        wrong = {"Authorization": "Bearer another"}
        assert (await shown.http.get("/api/v1/logs", headers=wrong)).status_code == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert (await shown.http.get("/api/v1/logs", headers=right)).status_code == 200
        assert (await shown.http.get("/livez")).status_code == 200


async def test_a_token_becomes_a_cookie_that_does_not_hold_it(cluster: MemoryCluster) -> None:
    async with console_of(cluster, token="") as shown:
        wrong = await shown.http.post("/login", data={"token": "guess"})
        assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)
        right = await shown.http.post("/login", data={"token": TOKEN})
        cookie = right.headers["set-cookie"]
        assert (right.status_code, right.headers["location"]) == (303, "/")
        assert TOKEN not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert (await shown.http.get("/")).status_code == 200, "the client sends the cookie"
        shown.http.cookies.clear()
        link = await shown.http.get(f"/open?token={TOKEN}")
        assert (link.status_code, link.headers["location"]) == (303, "/")
        assert (await shown.http.post("/login", content=b"x" * 5_000)).status_code == 413


async def test_another_name_of_this_machine_is_refused(cluster: MemoryCluster) -> None:
    """A page of another site cannot reach the console under a name of that site's own."""
    async with console_of(cluster) as shown:
        for host in (
            "evil.example",
            "evil.example:8190",
            "10.0.0.1:8190",
            "127.0.0.1.evil.example",
        ):
            answer = await shown.http.get("/", headers={"Host": host})
            assert (answer.status_code, answer.json()["error"]) == (421, "wrong_host"), host
        for host in ("127.0.0.1:8190", "localhost:8190", "[::1]:8190", "[::1]", "localhost"):
            assert (await shown.http.get("/", headers={"Host": host})).status_code == 200, host


async def test_nothing_of_another_host_is_asked_for_and_nothing_in_a_page_runs(
    cluster: MemoryCluster,
) -> None:
    async with console_of(cluster) as shown:
        await fill(shown)
        shown.show(scene.all_troubles(scene.healthy()))
        for call in CALLS:
            answer = await shown.http.get(call.page, params=GIVEN.get(call.name))
            for name, value in HEADERS.items():
                assert answer.headers[name] == value
            for element in parse(answer.text).walk():
                assert "style" not in element.attributes
                assert not [name for name in element.attributes if name.startswith("on")]
                for name in ("href", "src", "action", "hx-get"):
                    target = element.attributes.get(name, "/")
                    assert target.startswith(("/", "#")), target
                    assert not target.startswith("//")
                if element.tag in ("script", "style"):
                    assert element.attributes.get("src", "").startswith("/static/")
                    assert element.text == ""
        refused = await shown.http.get("/api/v1/none")
        assert refused.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


async def test_only_reading_is_possible(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        await fill(shown)
        paths = [*(call.page for call in CALLS), *(call.path for call in CALLS), "/tail", "/open"]
        for path in paths:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                answer = await shown.http.request(method, path, params={"log": "orders"})
                assert answer.status_code in (404, 405), (method, path)


async def test_a_wrong_request_is_told_in_its_own_form(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        cases: list[tuple[str, dict[str, str], int]] = [
            ("log", {}, 400),
            ("log", {"name": "gone"}, 404),
            ("ledger", {"id": "x"}, 400),
            ("ledger", {"id": "7"}, 404),
            ("ledger", {"id": "9" * 30}, 400),
            ("logs", {"page": "-1"}, 400),
            ("ledgers", {"from": "x"}, 400),
            ("records", {}, 400),
        ]
        for name, query, status in cases:
            answer = await shown.http.get(f"/api/v1/{name}", params=query)
            assert answer.status_code == status, (name, query, answer.text)
            assert answer.json()["message"]
            page = await shown.http.get(f"/{name}", params=query)
            assert page.status_code == status
            assert parse(page.text).one("h1")
        assert (await shown.http.get("/nothing")).status_code == 404
        assert (await shown.http.get("/static/../app.py")).status_code == 404


async def test_a_console_without_records_shows_none(cluster: MemoryCluster) -> None:
    async with console_of(cluster, shows_records=False) as shown:
        await fill(shown, [b"secret"])
        assert (await shown.http.get("/tail?log=orders")).status_code == 403
        for path in ("/records?log=orders&from=0", "/api/v1/records?log=orders&from=0"):
            answer = await shown.http.get(path)
            assert "secret" not in answer.text
            assert "--no-records" in answer.text


async def test_a_console_is_ready_when_it_has_looked(cluster: MemoryCluster) -> None:
    async with console_of(cluster) as shown:
        assert (await shown.http.get("/readyz")).status_code == 503
        await shown.source.sampler.look()
        assert (await shown.http.get("/readyz")).json() == {"status": "ready"}


def test_a_number_has_its_form() -> None:
    query = Query({"id": "7", "bad": "1e3", "empty": ""})
    assert (query.whole("id"), query.whole("none", 4), query.text("none", "x")) == (7, 4, "x")
    for name in ("bad", "none"):
        with pytest.raises(InvalidRequestError, match=name):
            query.whole(name)
