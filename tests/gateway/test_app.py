"""The calls of a gateway, over a cluster in memory and in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry

import quire
from quire.gateway.app import CALLS, Gateway, openapi
from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners
from quire.gateway.tokens import Token
from quire.metrics.table import METRICS, Owner
from quire.rights.guard import Guard
from quire.testing.cluster import MemoryCluster

RECORDS = "/v1/logs/orders/records"
ANNOUNCED = 1.0
"""Virtual seconds after which every reader has learned of an appended record."""


class Served:
    """A gateway of this process, without sockets."""

    def __init__(self, gateway: Gateway, address: str) -> None:
        self.gateway = gateway
        transport = httpx.ASGITransport(app=gateway.app)
        self.http = httpx.AsyncClient(transport=transport, base_url=address)

    async def append(self, *records: object, **more: object) -> httpx.Response:
        answer = await self.http.post(RECORDS, json={"records": [*records], **more})
        await asyncio.sleep(ANNOUNCED)
        return answer

    async def read(self, **query: str) -> list[object]:
        answer = await self.http.get(RECORDS, params=query)
        assert answer.status_code == 200, answer.text
        return [each["value"] for each in answer.json()["records"]]


@asynccontextmanager
async def serving(
    cluster: MemoryCluster,
    address: str = "http://one",
    limits: GatewayLimits | None = None,
    tokens: tuple[Token, ...] = (),
    guard: Guard | None = None,
) -> AsyncIterator[Served]:
    limits = limits or GatewayLimits()
    async with quire.connect(cluster.store_uri) as client:
        owners = Owners(client, address, limits)
        served = Served(Gateway(client, owners, limits, tokens, guard), address)
        try:
            yield served
        finally:
            await owners.close()
            await served.http.aclose()


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def test_records_are_appended_and_read(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        answer = await one.append("a", {"base64": "/w=="}, {"json": [1]})
        assert answer.status_code == 201
        assert [each["offset"] for each in answer.json()["records"]] == [0, 1, 2]
        found = (await one.http.get(RECORDS)).json()
        assert [each["offset"] for each in found["records"]] == [0, 1, 2]
        assert [each.get("value") for each in found["records"]] == ["a", None, "[1]"]
        assert found["next"] == answer.json()["next"]
        assert (await one.http.get(RECORDS, params={"from": found["next"]})).json() == {
            "records": [],
            "next": found["next"],
        }


async def test_a_page_ends_at_its_limit_and_the_next_one_goes_on(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.append(*"abcdefg")
        found, place = "", "beginning"
        for _ in range(4):
            page = (await one.http.get(RECORDS, params={"from": place, "limit": "2"})).json()
            found += "".join(each["value"] for each in page["records"])
            place = page["next"]
        assert found == "abcdefg"
        assert await one.read(**{"from": "5"}) == ["f", "g"]


async def test_a_read_waits_for_the_first_record(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.append("a")
        for place in ("latest", "2"):
            reading = asyncio.ensure_future(one.read(**{"from": place, "wait": "50s"}))
            await asyncio.sleep(5)
            assert not reading.done()
            await one.append(place)
            assert await reading == [place]
        assert await one.read(**{"from": "latest", "wait": "2s"}) == []
        assert await one.read(**{"from": "latest"}) == []


async def test_a_stream_gives_records_as_they_come_and_goes_on_after_the_last(
    cluster: MemoryCluster,
) -> None:
    from quire.gateway.reads import stream_events

    async with serving(cluster) as one:
        await one.append("a")
        events = stream_events(one.gateway.client, "orders", 0)
        assert (await anext(events)).startswith(b":")
        first = (await anext(events)).decode()
        assert '"value": "a"' in first
        assert await anext(events) == b": quiet\n\n", "proxies end a connection that is silent"
        await one.append("b")
        second = (await anext(events)).decode()
        assert '"value": "b"' in second
        await events.aclose()
        place = quire.Position.parse(first.split("\n")[0].removeprefix("id: "))
        again = stream_events(one.gateway.client, "orders", place)
        await anext(again)
        assert (await anext(again)).decode() == second
        await again.aclose()
        missing = stream_events(one.gateway.client, "gone", 0)
        assert b"event: error\ndata: not_found" in b"".join([each async for each in missing])


async def test_a_repeated_request_with_a_producer_is_written_once(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        stamp = {"id": "shop", "sequence": 1}
        first = await one.append("a", producer=stamp)
        again = await one.append("a", producer=stamp)
        assert first.json() | {"repeated": True} == again.json()
        assert first.json()["repeated"] is False
        assert await one.read() == ["a"]
        late = await one.append("b", producer={"id": "shop", "sequence": 0})
        assert (late.status_code, late.json()["error"]) == (409, "sequence_conflict")
        assert late.json()["last"] == 1


async def test_one_of_two_requests_at_once_is_told_that_it_repeats(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        record = {"value": "a", "key": "k", "headers": {"h": "1"}}
        for sequence in range(3):
            stamp = {"id": "shop", "sequence": sequence}
            both = await asyncio.gather(*(one.append(record, producer=stamp) for _ in range(2)))
            told = [each.json() for each in both]
            assert sorted(each["repeated"] for each in told) == [False, True]
            assert told[0]["records"] == told[1]["records"]
        assert "repeated" not in (await one.append("b")).json()
        assert await one.read() == ["a", "a", "a", "b"]


async def test_a_condition_that_does_not_hold_writes_nothing(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        assert (await one.append("a", expected_offset=0)).status_code == 201
        refused = await one.append("b", expected_offset=0)
        assert (refused.status_code, refused.json()["error"]) == (412, "offset_conflict")
        assert await one.read() == ["a"]


async def test_records_of_one_request_can_be_atomic(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        answer = await one.append("a", "b", atomic=True)
        first, second = (each["position"] for each in answer.json()["records"])
        assert first.rpartition(".")[0] == second.rpartition(".")[0], "one entry"


async def test_a_second_gateway_sends_writers_to_the_first_and_reads_itself(
    cluster: MemoryCluster,
) -> None:
    async with serving(cluster) as one, serving(cluster, "http://two") as two:
        await one.append("a")
        sent = await two.http.post(RECORDS, params={"x": "y"}, json="b", follow_redirects=False)
        assert sent.status_code == 307
        assert sent.headers["location"] == f"http://one{RECORDS}?x=y"
        assert await two.read() == ["a"]


@pytest.mark.parametrize("name", ["a%2541", "a%252Fb", "%E6%97%A5", "a%3Fb%23", "a%20b"])
async def test_a_writer_is_sent_to_the_same_log_whatever_its_name(
    cluster: MemoryCluster, name: str
) -> None:
    async with serving(cluster) as one, serving(cluster, "http://two") as two:
        path = f"/v1/logs/{name}/records"
        assert (await one.http.post(path, json="a")).status_code == 201
        sent = await two.http.post(path, json="b", follow_redirects=False)
        assert sent.status_code == 307
        assert sent.headers["location"] == sent.json()["location"] == f"http://one{path}"
        followed = await one.http.post(sent.headers["location"], json="b")
        assert followed.json()["records"][0]["offset"] == 1
        made = await one.http.put(f"/v1/stream/s{name}", content="a")
        assert made.headers["location"] == f"http://one/v1/stream/s{name}"


async def test_a_slash_too_many_leads_to_no_other_log(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        sent = await one.http.post("/v1/logs/a%2541/records/", json="a", follow_redirects=False)
        assert (sent.status_code, sent.json()["error"]) == (404, "no_such_call")


async def test_a_log_goes_to_the_next_gateway_when_the_first_ends(cluster: MemoryCluster) -> None:
    async with serving(cluster, "http://two") as two:
        async with serving(cluster) as one:
            await one.append("a")
            await one.gateway.owners.close()
            refused = await one.append("x")
            assert (refused.status_code, refused.json()["error"]) == (503, "not_ready")
        assert (await two.append("b")).status_code == 201
        assert await two.read() == ["a", "b"]


async def test_a_log_that_is_idle_is_given_up(cluster: MemoryCluster) -> None:
    limits = GatewayLimits(idle_seconds=30)
    async with serving(cluster, limits=limits) as one, serving(cluster, "http://two") as two:
        await one.append("a")
        assert one.gateway.owners.written() == ["orders"]
        await asyncio.sleep(60)
        assert one.gateway.owners.written() == []
        assert (await two.append("b")).status_code == 201


async def test_requests_at_the_same_time_share_one_takeover(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        answers = await asyncio.gather(*(one.append(str(number)) for number in range(50)))
        assert {each.status_code for each in answers} == {201}
        info = (await one.http.get("/v1/logs/orders")).json()
        assert (info["epoch"], info["segments"]) == (1, 1)
        assert sorted(await one.read(), key=str) == sorted(map(str, range(50)))


async def test_two_gateways_that_are_asked_at_once_agree_on_one(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one, serving(cluster, "http://two") as two:
        answers = await asyncio.gather(*(each.append("a") for each in (one, two) * 5))
        codes = sorted(each.status_code for each in answers)
        assert codes == [201] * 5 + [307] * 5
        assert (await one.http.get("/v1/logs/orders")).json()["epoch"] == 1


async def test_a_log_that_a_service_leads_is_left_to_it(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one, quire.connect(cluster.store_uri) as client:
        async with client.lead_log("orders", candidate="the shop") as log:
            await log.append(b"a")
            refused = await one.append("b")
            assert (refused.status_code, refused.json()["error"]) == (409, "led_elsewhere")
            assert "the shop" in refused.json()["message"]
        assert (await one.append("b")).status_code == 201


async def test_a_gateway_that_was_deposed_does_not_call_it_a_failure(
    cluster: MemoryCluster,
) -> None:
    async with serving(cluster) as one, quire.connect(cluster.store_uri) as client:
        await one.append("a")
        async with await client.open_log("orders"):
            answer = await one.append("b")
        assert answer.status_code in (503, 504)
        assert "Retry-After" in answer.headers
        await asyncio.sleep(5)
        assert (await one.append("c")).status_code == 201
        assert (await one.read())[0] == "a"
        assert (await one.read())[-1] == "c"


async def test_more_logs_than_it_may_write_are_refused(cluster: MemoryCluster) -> None:
    async with serving(cluster, limits=GatewayLimits(logs=2)) as one:
        codes = []
        for name in "abc":
            answer = await one.http.post(f"/v1/logs/{name}/records", json="x")
            codes.append(answer.status_code)
        assert codes == [201, 201, 429]


async def test_logs_are_created_described_and_trimmed(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        made = await one.http.put("/v1/logs/orders", json={"retention_seconds": "60"})
        assert made.status_code == 201
        assert made.json()["options"] == {"retention_seconds": "60"}
        again = await one.http.put("/v1/logs/orders")
        assert (again.status_code, again.json()["error"]) == (409, "conflict")
        await one.append(*"abc")
        end = (await one.http.get("/v1/logs/orders/end", params={"linearizable": "true"})).json()
        assert end["offset"] == 3
        trimmed = await one.http.post("/v1/logs/orders/trim", json={"before": 2})
        assert trimmed.status_code == 204
        assert await one.read() == ["c"]
        gone = await one.http.get(RECORDS, params={"from": "0"})
        assert (gone.status_code, gone.json()["error"]) == (410, "trimmed")
        assert (await one.http.get("/v1/logs")).json() == {"logs": ["orders"]}


async def test_one_record_is_its_bytes(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        sent = await one.http.post(
            RECORDS, content=b"\x00\xff", headers={"Content-Type": "application/octet-stream"}
        )
        position = sent.json()["records"][0]["position"]
        await asyncio.sleep(ANNOUNCED)
        for place in ("0", position):
            answer = await one.http.get(f"{RECORDS}/{place}")
            assert (answer.content, answer.headers["quire-offset"]) == (b"\x00\xff", "0")
        for place in ("1", "beginning"):
            assert (await one.http.get(f"{RECORDS}/{place}")).status_code in (400, 404)


async def test_records_come_as_lines(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        lines = b'"a"\n{"value":"b"}\n'
        kind = {"Content-Type": "application/x-ndjson"}
        assert (await one.http.post(RECORDS, content=lines, headers=kind)).status_code == 201
        await asyncio.sleep(ANNOUNCED)
        answer = await one.http.get(RECORDS, headers={"Accept": "application/x-ndjson"})
        values = [json.loads(line)["value"] for line in answer.text.splitlines()]
        assert values == ["a", "b"]
        assert quire.Position.parse(answer.headers["quire-next"])


async def test_cursors_move_forward_only(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        await one.append(*"abc")
        place = "/v1/logs/orders/cursors/billing"
        assert (await one.http.get(place)).status_code == 404
        first = (await one.http.put(place, json={"position": 2})).json()["position"]
        back = (await one.http.put(place, json={"position": 1})).json()["position"]
        assert first == back == (await one.http.get(place)).json()["position"]
        assert await one.read(**{"from": first}) == ["c"]
        listed = (await one.http.get("/v1/logs/orders/cursors")).json()["cursors"]
        assert listed == [{"name": "billing", "position": first}]
        assert (await one.http.delete(place)).status_code == 204
        assert (await one.http.delete(place)).status_code == 404


async def test_a_token_is_needed_where_there_is_one(cluster: MemoryCluster) -> None:
    async with serving(cluster, tokens=(Token("right"), Token("other"))) as one:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic right"}):
            answer = await one.http.get("/v1/logs", headers=header)
            assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
        for token in ("right", "other"):
            answer = await one.http.get("/v1/logs", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 200
        assert (await one.http.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (RECORDS, {"from": "yesterday"}),
        (RECORDS, {"limit": "0"}),
        (RECORDS, {"limit": "many"}),
        (RECORDS, {"limit": "9" * 5000}),
        (RECORDS, {"from": "9" * 5000}),
        (RECORDS, {"from": "txid:" + "9" * 5000}),
        (RECORDS, {"from": "9" * 5000 + ".0.0"}),
        (f"{RECORDS}/{'9' * 5000}", {}),
        (RECORDS, {"wait": "soon"}),
        (RECORDS, {"wait": "-1"}),
        (RECORDS, {"wait": "nan"}),
        ("/v1/logs/orders/end", {"linearizable": "perhaps"}),
        ("/v1/logs/orders/records/txid:1", {}),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(
    cluster: MemoryCluster, path: str, query: dict[str, str]
) -> None:
    async with serving(cluster) as one:
        await one.append("a")
        answer = await one.http.get(path, params=query)
        assert answer.status_code == 400
        assert answer.json()["error"] == "invalid_request"


async def test_a_body_that_is_too_large_is_refused(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        answer = await one.http.post(
            RECORDS,
            content=b"x" * (16 * 2**20 + 1),
            headers={"Content-Type": "application/octet-stream"},
        )
        assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
        large = await one.http.post(
            RECORDS,
            content=b"x" * (8 * 2**20),
            headers={"Content-Type": "application/octet-stream"},
        )
        assert (large.status_code, large.json()["error"]) == (413, "too_large")


async def test_a_path_that_is_not_there_names_the_list(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        for method, path, status in (("GET", "/v2", 404), ("DELETE", "/v1/logs", 405)):
            answer = await one.http.request(method, path)
            assert answer.status_code == status
            assert "/v1/openapi.json" in answer.json()["message"]


async def test_readiness_says_why_not(cluster: MemoryCluster) -> None:
    async with serving(cluster) as one:
        assert (await one.http.get("/readyz")).json() == {"status": "ready", "writes": 0}
        await one.append("a")
        told = await one.http.get("/readyz")
        assert told.json() == {"status": "ready", "writes": 1}, "names are for callers with rights"
        one.gateway.is_ending = True
        answer = await one.http.get("/readyz")
        assert (answer.status_code, answer.json()["reasons"]) == (503, ["the gateway ends"])


def test_the_openapi_document_has_every_call() -> None:
    paths = openapi()["paths"]
    assert {(path, method) for path in paths for method in paths[path]} == {
        (call.path, call.method.lower()) for call in CALLS
    }
    for call in CALLS:
        described = paths[call.path][call.method.lower()]
        assert described["description"], call.path


async def test_the_figures_of_a_gateway_are_in_the_table(cluster: MemoryCluster) -> None:
    registry = CollectorRegistry()
    async with quire.connect(cluster.store_uri, metrics=registry) as client:
        limits = GatewayLimits()
        owners = Owners(client, "http://one", limits)
        served = Served(Gateway(client, owners, limits, registry=registry), "http://one")
        await served.append("a")
        answer = await served.http.get("/metrics")
        shown = {each.name for each in registry.collect() if not each.name.startswith("process_")}
        await owners.close()
        await served.http.aclose()
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'quire_gateway_request_seconds_count{call="append",status="201"} 1.0' in answer.text
    assert "quire_gateway_logs 1.0" in answer.text
    assert 'quire_append_total{outcome="ok"}' in answer.text
    assert shown == {each.family for each in METRICS if each.part in (Owner.GATEWAY, Owner.CLIENT)}


async def test_figures_need_a_token_where_one_is_set(cluster: MemoryCluster) -> None:
    async with serving(cluster, tokens=(Token("secret"),)) as one:
        assert (await one.http.get("/metrics")).status_code == 401
        allowed = {"Authorization": "Bearer secret"}
        assert (await one.http.get("/metrics", headers=allowed)).status_code == 200
