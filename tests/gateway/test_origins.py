"""Pages of other origins: which may use a gateway from a browser, and what they may see."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

import quire
import quire.gateway
from quire.errors import ConfigurationError
from quire.gateway.app import Gateway
from quire.gateway.limits import GatewayLimits
from quire.gateway.origins import EXPOSED, check_origins
from quire.gateway.owners import Owners
from quire.gateway.tokens import Token
from quire.testing.cluster import MemoryCluster
from quire.wire.identity import client_identity

APP = "https://app.example.com"
URL = "/v1/stream/chat"
ASKED = {
    "Origin": APP,
    "Access-Control-Request-Method": "PUT",
    "Access-Control-Request-Headers": "authorization, content-type, if-none-match, stream-ttl",
}


@asynccontextmanager
async def page(
    *origins: str, token: str | None = None, address: str = "http://one", is_local: bool = False
) -> AsyncIterator[httpx.AsyncClient]:
    """Requests to a gateway that allows some origins."""
    limits = GatewayLimits()
    tokens = () if token is None else (Token(token, client_identity("orders")),)
    with MemoryCluster() as made:
        async with quire.connect(made.store_uri) as client:
            owners = Owners(client, address, limits)
            gateway = Gateway(client, owners, limits, tokens, origins=origins, is_local=is_local)
            transport = httpx.ASGITransport(app=gateway.app)
            async with httpx.AsyncClient(transport=transport, base_url=address) as http:
                yield http
            await owners.close()


async def test_a_page_of_an_allowed_origin_writes_and_reads() -> None:
    async with page(APP, "http://localhost:5173", token="3f1c") as http:
        asked = await http.options(URL, headers=ASKED)
        assert asked.status_code == 200, "a browser asks without the token"
        assert asked.headers["access-control-allow-origin"] == APP
        assert "PUT" in asked.headers["access-control-allow-methods"]
        allowed = asked.headers["access-control-allow-headers"].lower()
        assert {"authorization", "if-none-match", "stream-ttl"} <= set(allowed.split(", "))
        given = {"Origin": APP, "Authorization": "Bearer 3f1c", "Content-Type": "text/plain"}
        made = await http.put(URL, headers=given, content="a")
        assert made.status_code == 201
        assert made.headers["access-control-allow-origin"] == APP
        found = await http.get(URL, headers=given)
        shown = {each.strip() for each in found.headers["access-control-expose-headers"].split(",")}
        assert shown == set(EXPOSED)
        refused = await http.get(URL, headers={"Origin": APP})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == APP, "the page reads the error"


@pytest.mark.parametrize("origins", [(), (APP,)], ids=["by default", "one is allowed"])
async def test_no_page_of_another_origin_is_answered(origins: tuple[str, ...]) -> None:
    async with page(*origins) as http:
        other = "https://other.example.com"
        asked = await http.options(URL, headers=ASKED | {"Origin": other})
        assert asked.status_code in (400, 405)
        found = await http.get("/v1/logs", headers={"Origin": other})
        assert "access-control-allow-origin" not in {**asked.headers, **found.headers}


TEXT = {"Content-Type": "text/plain"}


@pytest.mark.parametrize("origin", ["https://other.example.com", "http://one.example", "null"])
async def test_a_page_of_another_origin_changes_nothing(origin: str) -> None:
    async with page(APP) as http:
        assert (await http.put(URL, headers=TEXT, content="a")).status_code == 201
        assert (await http.post("/v1/logs/orders/records", json="a")).status_code == 201
        foreign = TEXT | {"Origin": origin}
        for method, path, body in (
            ("POST", URL, "b"),
            ("POST", "/v1/logs/orders/trim", '{"before": 1}'),
            ("PUT", "/v1/stream/another", ""),
            ("DELETE", URL, ""),
        ):
            answer = await http.request(method, path, content=body, headers=foreign)
            assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
        assert (await http.get(URL, headers={"Origin": origin})).text == "a"
        assert (await http.get("/v1/logs")).json() == {"logs": ["chat", "orders"]}


@pytest.mark.parametrize("origin", [None, APP, "http://one", "https://one"])
async def test_programs_and_pages_of_its_own_and_of_allowed_origins_write(
    origin: str | None,
) -> None:
    async with page(APP) as http:
        headers = TEXT if origin is None else TEXT | {"Origin": origin}
        assert (await http.put(URL, headers=headers)).status_code == 201
        assert (await http.post(URL, headers=headers, content="a")).status_code == 204


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_json_is_not_taken_from_a_form(kind: str) -> None:
    async with page() as http:
        await http.post("/v1/logs/orders/records", json="a")
        for method, path, body in (
            ("POST", "/v1/logs/orders/trim", '{"before": 1}'),
            ("PUT", "/v1/logs/orders/cursors/billing", '{"position": 1}'),
            ("PUT", "/v1/logs/others", '{"retention_seconds": "60"}'),
        ):
            headers = {"Content-Type": kind}
            answer = await http.request(method, path, content=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
            assert "application/json" in answer.json()["message"]


@pytest.mark.parametrize("token", [None, "3f1c"])
async def test_a_gateway_of_this_machine_is_reached_under_no_other_sites_name(
    token: str | None,
) -> None:
    async with page(token=token, address="http://gateway.lan:81", is_local=True) as http:
        given = {} if token is None else {"Authorization": f"Bearer {token}"}
        for host, status in (
            *(("127.0.0.1:8180", 200), ("[::1]:8180", 200), ("localhost", 200), ("", 200)),
            *(("gateway.lan:81", 200), ("GATEWAY.lan", 200)),
            *(("evil.example", 421), ("evil.example:8180", 421), ("192.0.2.1", 421)),
        ):
            expected = 200 if token else status
            answer = await http.get("/v1/logs", headers=given | {"Host": host})
            assert answer.status_code == expected, host
        assert answer.json().get("error") == (None if token else "wrong_host")


def test_every_header_that_a_gateway_sends_is_shown() -> None:
    root = Path(quire.gateway.__file__).parent
    own = re.compile(r'"((?:Stream|Producer|Quire)-[A-Za-z-]+)"')
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in (*root.glob("*.py"), *root.glob("durable/*.py"))
        if path.name != "origins.py"
    )
    assert set(own.findall(text)) - {"Stream-Seq", "Stream-Forked-From"} <= set(EXPOSED)


def test_an_origin_is_written_as_browsers_send_it() -> None:
    given = ["https://App.example.com:443/", "http://[::1]:80", "http://localhost:5173", APP]
    expected = (APP, "http://[::1]", "http://localhost:5173")
    assert check_origins(given, has_tokens=False) == expected
    assert check_origins(["*"], has_tokens=True) == ("*",)


@pytest.mark.parametrize(
    "text",
    [
        *("app.example.com", "https://", "https://a/b", "ftp://a", "https://a:port", "null", ""),
        *("https://*.example.com", "https://bücher.example", "https://a b"),
    ],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--allow-origin"):
        check_origins([text], has_tokens=True)


def test_all_origins_need_tokens() -> None:
    with pytest.raises(ConfigurationError, match="--token-file"):
        check_origins(["*"], has_tokens=False)
