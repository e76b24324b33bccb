"""The page of gateways: what it says, how gateways are asked, and answers that lie."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, replace

import httpx
import pytest

from quire.console.asking import ANSWER_BYTES_MAX, GatewayAsker, GatewaySilentError
from quire.console.gateways import GatewayLooks
from quire.console.looks import GatewayLook
from quire.console.views.gateways import gateways
from quire.errors import InvalidRequestError
from quire.gateway.place import GatewayPlace
from quire.gateway.presence import GatewayPresence
from quire.gateway.status import (
    LOGS_MAX,
    TEXT_MAX,
    GatewayStatus,
    OwnedLog,
    SlowConsumer,
    decode_status,
)
from quire.testing.cluster import MemoryCluster
from quire.view.values import LeaderView
from tests.console import scene
from tests.console.pages import console_of
from tests.console.scene import NOW, healthy
from tests.gateway.test_app import RECORDS, serving

HERE = "http://127.0.0.1:8180"
SAID = json.dumps(asdict(GatewayStatus(version="1.0", up_seconds=5, requests=7))).encode()


def test_a_page_without_gateways_says_how_to_start_one() -> None:
    page = gateways(healthy())
    assert (page.gateways_total, page.logs, page.errors) == (0, [], [])


def test_gateways_are_listed_with_logs_clients_groups_and_errors() -> None:
    page = gateways(scene.with_gateways(healthy()))
    serves, silent = page.gateways
    assert (serves.state, serves.logs, serves.requests_per_second) == ("serves", 2, 120.5)
    assert serves.note == "1 slow consumer, 1 client over its quota"
    assert serves.since_ms == NOW - 3_600_000
    assert (silent.state, silent.note, silent.version) == ("silent", "no answer within 3 s", "–")
    assert [(each.log, each.since_ms) for each in page.logs] == [
        ("log-0000", NOW - 600_000),
        ("log-0001", NOW - 60_000),
    ]
    assert [(each.client, each.log, each.waits_seconds) for each in page.slow] == [
        ("10.0.0.9", "log-0001", 42.0)
    ]
    assert [(each.client, each.throttled) for each in page.late] == [("quire://client/shop", 7)]
    assert [(each.kind, each.count) for each in page.errors] == [
        ("quota_exceeded", 7),
        ("outcome_unknown", 1),
    ]


def test_a_group_has_its_lag_in_each_log_that_it_reads() -> None:
    late = (scene.cursor("billing", 1_250, moved=340),)
    value = scene.with_log(scene.with_gateways(healthy(6, 0)), scene.log("orders", cursors=late))
    rows = [(each.group, each.log, each.lag, each.moved) for each in gateways(value).groups]
    assert rows == [("billing", "orders", 1_250, "5 min 40 s ago"), ("idle", "", None, "–")]


def test_logs_of_a_silent_gateway_are_known_to_their_elections() -> None:
    leader = LeaderView(2, since_ms=NOW - 5_000, candidate=f"gateway {HERE} 127.0.0.1:9092")
    value = scene.with_log(healthy(6, 0), scene.log("orders", leader=leader))
    silent = GatewayLook(GatewayPlace(HERE), trouble="no answer within 3 s")
    page = gateways(replace(value, gateways=[silent]))
    assert [(each.log, each.gateway, each.since_ms) for each in page.logs] == [
        ("orders", HERE, NOW - 5_000)
    ]
    assert page.gateways[0].logs == 1
    unregistered = gateways(value).gateways
    assert [(each.gateway, each.state) for each in unregistered] == [(HERE, "silent")]
    assert "is not registered" in unregistered[0].note


def test_a_gateway_cannot_claim_a_log_that_another_one_leads() -> None:
    leader = LeaderView(2, candidate="gateway http://127.0.0.1:1")
    value = scene.with_log(healthy(6, 0), scene.log("orders", leader=leader))
    liar = GatewayLook(GatewayPlace(HERE), GatewayStatus(logs=[OwnedLog("orders", 9)]), NOW)
    assert gateways(replace(value, gateways=[liar])).logs[0].gateway == "http://127.0.0.1:1"


def test_ten_thousand_logs_come_in_pages_of_a_hundred() -> None:
    logs = [OwnedLog(f"l{number:05}", 1) for number in range(LOGS_MAX)]
    look = GatewayLook(GatewayPlace(HERE), GatewayStatus(logs=logs), NOW)
    page = gateways(replace(healthy(3, 0), gateways=[look]), 7)
    assert (len(page.logs), page.paging.pages, page.logs[0].log) == (100, 100, "l00600")


@pytest.mark.parametrize(
    "lie",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"<html>",
        b"[" * 100_000,
        b'{"up_seconds": ' + b"9" * 5_000 + b"}",
        b'{"up_seconds": ' + b"9" * 4_000 + b"}",
        b'{"up_seconds": NaN}',
        b'{"up_seconds": Infinity}',
        b'{"up_seconds": -1}',
        b'{"up_seconds": "1"}',
        b'{"up_seconds": true}',
        b'{"up_seconds": 1, "version": 7}',
        b'{"up_seconds": 1, "ending": 1}',
        b'{"up_seconds": 1, "logs": {}}',
        b'{"up_seconds": 1, "logs": ["orders"]}',
        b'{"up_seconds": 1, "errors": [{"kind": "x", "count": -3}]}',
        b'{"up_seconds": 1, "groups": null}',
    ],
)
def test_an_answer_of_another_form_is_refused(lie: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="the answer is n"):
        decode_status(lie)


def test_texts_and_lists_of_an_answer_have_a_bound() -> None:
    said = {
        "up_seconds": 1,
        "version": "v" * 10_000,
        "later": [1, 2],
        "slow": [{"client": "\ud800\x1b<b>", "log": "x", "waits_seconds": 1}] * 5_000,
    }
    found = decode_status(json.dumps(said).encode())
    assert (len(found.version), len(found.slow)) == (TEXT_MAX, 100)
    assert found.slow[0] == SlowConsumer("??<b>", "x", "", 1)


async def test_what_a_gateway_says_is_read_back() -> None:
    async with serving(MemoryCluster()) as one:
        await one.append("a", "b")
        await one.read()
        missing = await one.http.get("/v1/logs/gone/records")
        assert missing.status_code == 404
        await asyncio.sleep(10)
        found = decode_status((await one.http.get("/v1/status")).content)
        assert (found.append_records, found.read_records) == (2, 2)
        assert (found.append_bytes > 0, found.read_bytes) == (True, 2)
        assert found.requests == 3, "the fourth is under way"
        assert [(each.name, each.held_seconds >= 10) for each in found.logs] == [("orders", True)]
        assert [(each.kind, each.count) for each in found.errors] == [("not_found", 1)]
        assert (found.streams, found.kafka_connections, found.groups) == (0, 0, ())
        assert (await one.http.post(RECORDS)).status_code == 400


async def test_a_consumer_that_takes_nothing_is_slow() -> None:
    async with serving(MemoryCluster()) as one:
        consumers = one.gateway.consumers
        with consumers.stream("http", "reader", "orders") as stream:
            assert (len(consumers), consumers.slow()) == (1, [])
            with stream.handing():
                await asyncio.sleep(1.0)
                assert consumers.slow() == []
                await asyncio.sleep(4.0)
                found = decode_status((await one.http.get("/v1/status")).content)
                assert found.slow == (SlowConsumer("reader", "orders", "http", 5.0),)
            assert consumers.slow() == []
        assert len(consumers) == 0


def answering(*parts: bytes, status: int = 200, pause: float = 0) -> httpx.MockTransport:
    async def body() -> AsyncIterator[bytes]:
        for part in parts:
            await asyncio.sleep(pause)
            yield part

    return httpx.MockTransport(lambda request: httpx.Response(status, content=body()))


async def asked(url: str, transport: httpx.AsyncBaseTransport, token: str = "") -> GatewayStatus:
    asker = GatewayAsker(token, transport)
    try:
        return await asker.ask(url)
    finally:
        await asker.close()


async def test_a_gateway_on_this_machine_or_with_tls_is_asked() -> None:
    for url in (HERE, "http://[::1]:8180", "http://localhost:1", "https://gate.example/"):
        assert (await asked(url, answering(SAID))).requests == 7


@pytest.mark.parametrize(
    "url",
    [
        "http://gate.example:8180",
        "http://10.0.0.1:8180",
        "http://127.0.0.1.example",
        "http://localhost.example",
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "http://user:secret@127.0.0.1",
        "http://127.0.0.1/?x=1",
        "http://127.0.0.1:99999999",
        "",
        "nonsense",
        "http://[",
    ],
)
async def test_no_other_address_is_asked(url: str) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.url} was asked")

    with pytest.raises(GatewaySilentError):
        await asked(url, httpx.MockTransport(refuse), "secret")


@pytest.mark.parametrize(
    ("transport", "why"),
    [
        (lambda: answering(b"{}"), "not the status of a gateway"),
        (lambda: answering(SAID, status=404), "older than this console"),
        (lambda: answering(b"", status=302), "status 302"),
        (lambda: answering(b"", status=401), "pass --gateway-token-file"),
        (lambda: answering(*[b"x" * 65_536] * 64), f"more than {ANSWER_BYTES_MAX} bytes"),
        (lambda: answering(*[b" "] * 100, pause=1), "no answer within 3 s"),
    ],
)
async def test_an_answer_of_no_use_is_silence_with_its_reason(
    transport: Callable[[], httpx.MockTransport], why: str
) -> None:
    with pytest.raises(GatewaySilentError, match=why):
        await asked(HERE, transport())


async def test_only_the_token_for_gateways_is_shown() -> None:
    shown: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        shown.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(SAID))

    for token in ("", "watch"):
        await asked(HERE, httpx.MockTransport(note), token)
    assert [each.headers.get("authorization") for each in shown] == [None, "Bearer watch"]
    assert [str(each.url) for each in shown] == [f"{HERE}/v1/status"] * 2


async def test_rates_come_from_two_looks_and_begin_anew_with_the_process() -> None:
    told = [
        GatewayStatus(up_seconds=10, requests=100, append_bytes=1_000),
        GatewayStatus(up_seconds=20, requests=300, append_bytes=3_000),
        GatewayStatus(up_seconds=1, requests=5),
    ]
    times = iter([10_000, 20_000, 30_000])

    async def ask(url: str) -> GatewayStatus:
        return told.pop(0)

    looks = GatewayLooks(ask)
    place = GatewayPlace(HERE)
    rates = []
    for _ in range(3):
        (look,) = await looks.look([place], lambda: next(times))
        rates.append((look.requests_per_second, look.append_bytes_per_second))
    assert rates == [(None, None), (20.0, 200.0), (None, None)]


async def test_a_console_finds_a_registered_gateway_and_shows_that_it_is_silent() -> None:
    cluster = MemoryCluster()
    async with console_of(cluster) as shown:
        place = GatewayPlace("http://10.255.255.1:8180", "10.255.255.1:9092")
        presence = GatewayPresence(shown.source.client, place)
        presence.begin()
        try:
            await asyncio.sleep(1.0)  # virtual
            assert await presence.is_seen()
            assert (await shown.source.sampler.look()).trouble == ""
            page = (await shown.http.get("/api/v1/gateways")).json()
            assert [each["gateway"] for each in page["gateways"]] == [place.url]
            assert "without TLS" in page["gateways"][0]["note"]
        finally:
            await presence.leave()
        await shown.source.sampler.look()
        assert (await shown.http.get("/api/v1/gateways")).json()["gateways"] == []
