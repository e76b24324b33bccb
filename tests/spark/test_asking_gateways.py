"""Requests are repeated until an answer is certain, at the right gateway, in the given time."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.client import RemoteDisconnected
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

from quire.errors import (
    ConfigurationError,
    GatewayOutcomeUnknownError,
    GatewayRefusedError,
    GatewayUnavailableError,
)
from quire.spark.asking_gateways import (
    REDIRECTS_MAX,
    Asking,
    Connections,
    GatewayAnswer,
    Gateways,
    NotConnectedError,
    PassedError,
    parse_gateways,
)

APPENDED = GatewayAnswer(201, {}, b'{"records": [{"offset": 7}], "next": "1.7.1"}')
BODY = b'{"records": ["a"], "producer": {"id": "p", "sequence": 1}}'

Outcome = GatewayAnswer | Exception


def failed(
    status: int, code: str, headers: Mapping[str, str] | None = None, **more: Any
) -> GatewayAnswer:
    body = {"error": code, "message": f"about {code}", **more}
    return GatewayAnswer(status, headers or {}, json.dumps(body).encode())


def elsewhere(url: str) -> GatewayAnswer:
    return failed(307, "elsewhere", {"location": f"{url}/v1/logs/orders/records"})


class Request(NamedTuple):
    """A request that a gateway got."""

    base: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    seconds: float


class Network:
    """Stands for gateways, the clock and the pauses. The last outcome stays."""

    def __init__(self, *outcomes: Outcome) -> None:
        self._outcomes = list(outcomes)
        self.requests: list[Request] = []
        self.pauses: list[float] = []
        self.now = 100.0

    def __call__(self, *request: Any) -> GatewayAnswer:
        self.requests.append(Request(*request))
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    @property
    def bases(self) -> list[str]:
        return [request.base for request in self.requests]


def asking(network: Network, *urls: str, token: str | None = None) -> Asking:
    gateways = Gateways(urls or ("http://one",), "orders", token, seconds=30.0)
    return Asking(gateways, network, lambda: network.now, network.sleep)


def test_an_append_is_one_request() -> None:
    network = Network(APPENDED)
    assert asking(network).append(BODY).offset == 7
    (request,) = network.requests
    assert request[:3] == ("http://one", "POST", "/v1/logs/orders/records")
    assert request.headers == {"Content-Type": "application/json"}
    assert (request.body, network.pauses) == (BODY, [])


def test_a_token_goes_with_each_request_and_is_shown_nowhere() -> None:
    network = Network(elsewhere("http://two"), APPENDED)
    asking(network, token="3f1c").append(BODY)
    assert [each.headers["Authorization"] for each in network.requests] == ["Bearer 3f1c"] * 2
    assert "3f1c" not in repr(Gateways(("http://one",), "orders", "3f1c"))


def test_a_redirect_is_followed_and_remembered() -> None:
    network = Network(elsewhere("http://two:81"), APPENDED)
    task = asking(network)
    task.append(BODY)
    task.append(BODY)
    assert network.bases == ["http://one", "http://two:81", "http://two:81"]
    assert {request.body for request in network.requests} == {BODY}
    assert network.pauses == []


def test_gateways_that_name_each_other_are_asked_with_pauses() -> None:
    network = Network(elsewhere("http://two"))
    with pytest.raises(GatewayUnavailableError, match="about elsewhere"):
        asking(network).append(BODY)
    assert len(network.requests) == REDIRECTS_MAX * (len(network.pauses) + 1)
    assert network.now <= 130


@pytest.mark.parametrize("location", ["", "ftp://two", "/v1/logs/orders/records"])
def test_a_redirect_to_no_gateway_is_an_error(location: str) -> None:
    network = Network(failed(307, "elsewhere", {"location": location}))
    with pytest.raises(GatewayRefusedError, match="is not a URL"):
        asking(network).append(BODY)


def test_a_token_is_not_sent_from_tls_to_plain_text() -> None:
    network = Network(elsewhere("http://two"), APPENDED)
    with pytest.raises(ConfigurationError, match="https"):
        asking(network, "https://one", token="t").append(BODY)
    assert len(network.requests) == 1


@pytest.mark.parametrize(
    ("status", "code"), [(429, "busy"), (503, "not_ready"), (504, "outcome_unknown")]
)
def test_retry_after_is_obeyed(status: int, code: str) -> None:
    network = Network(failed(status, code, {"retry-after": "7"}), APPENDED)
    assert asking(network).append(BODY).offset == 7
    assert network.pauses == [7.0]
    assert network.requests[0] == network.requests[1]._replace(seconds=network.requests[0].seconds)


@pytest.mark.parametrize(
    "outcome",
    [
        failed(408, "stalled"),
        GatewayAnswer(502, {}, b"<html>a proxy"),
        failed(504, "outcome_unknown"),
        ConnectionResetError("reset"),
        RemoteDisconnected("closed"),
        TimeoutError("timed out"),
    ],
    ids=["408", "502", "504", "reset", "closed", "silent"],
)
def test_an_unknown_outcome_is_repeated_under_the_same_number(outcome: Outcome) -> None:
    network = Network(outcome, outcome, APPENDED)
    assert asking(network).append(BODY).offset == 7
    assert [request.body for request in network.requests] == [BODY] * 3
    assert network.pauses == sorted(network.pauses)

    network = Network(outcome, failed(503, "not_ready"))
    with pytest.raises(GatewayOutcomeUnknownError, match="may or may not") as caught:
        asking(network).append(BODY)
    assert (caught.value.log, caught.value.seconds) == ("orders", 30.0)
    assert 100 < network.now <= 130


@pytest.mark.parametrize(
    "outcome",
    [failed(503, "unavailable"), failed(429, "busy"), NotConnectedError("refused")],
    ids=["503", "429", "refused"],
)
def test_nothing_happened_when_every_answer_says_so(outcome: Outcome) -> None:
    network = Network(outcome)
    with pytest.raises(GatewayUnavailableError) as caught:
        asking(network).append(BODY)
    assert caught.value.gateway == "http://one"
    assert network.now <= 130


def test_a_pause_longer_than_the_time_is_not_waited_for() -> None:
    network = Network(failed(429, "quota_exceeded", {"retry-after": "31"}))
    with pytest.raises(GatewayUnavailableError, match="about quota_exceeded"):
        asking(network).append(BODY)
    assert (len(network.requests), network.pauses) == (1, [])


def test_the_given_gateways_are_asked_in_turn() -> None:
    reset = ConnectionResetError("reset")
    network = Network(elsewhere("http://gone"), reset, reset, APPENDED)
    asking(network, "http://one", "http://two").append(BODY)
    assert network.bases == ["http://one", "http://gone", "http://two", "http://one"]


def test_a_busy_gateway_is_not_left() -> None:
    network = Network(failed(429, "busy", {"retry-after": "1"}), APPENDED)
    asking(network, "http://one", "http://two").append(BODY)
    assert network.bases == ["http://one", "http://one"]


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "invalid_request"), (401, "unauthorized"), (403, "not_permitted"), (409, "sealed"),
     (409, "led_elsewhere"), (409, "sequence_conflict"), (413, "too_large"), (500, "damaged")],
)  # fmt: skip
def test_a_refusal_is_an_error_at_once(status: int, code: str) -> None:
    network = Network(failed(status, code))
    with pytest.raises(GatewayRefusedError, match=f"about {code}") as caught:
        asking(network).append(BODY)
    assert (caught.value.status, caught.value.code) == (status, code)
    assert len(network.requests) == 1


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"", b"[]", b"7", b'{"records": []}'])
def test_an_answer_of_another_server_is_an_error(body: bytes) -> None:
    """As that of a proxy, which wants a user to log in."""
    other = Network(GatewayAnswer(200, {}, body))
    with pytest.raises(GatewayRefusedError, match=r"not a gateway's.*see option gateway"):
        asking(other).append(BODY)
    with pytest.raises(GatewayRefusedError, match=r"not a gateway's.*see option gateway"):
        asking(other).end()


def test_a_number_that_was_passed_tells_the_last_one() -> None:
    with pytest.raises(PassedError) as caught:
        asking(Network(failed(409, "sequence_conflict", last=41))).append(BODY)
    assert caught.value.last == 41


def test_an_end_is_after_all_that_is_certain() -> None:
    network = Network(GatewayAnswer(200, {}, b'{"offset": 12, "position": "1.12.0"}'))
    assert asking(network).end() == 12
    assert network.requests[0].target == "/v1/logs/orders/end?linearizable=true"


def test_records_are_read_until_all_are_there() -> None:
    def page(*values: str) -> GatewayAnswer:
        return GatewayAnswer(
            200, {}, json.dumps({"records": [{"value": v} for v in values]}).encode()
        )

    network = Network(page(), page("a", "b"), page("c"))
    found = asking(network).read(7, 3)
    assert [each["value"] for each in found] == ["a", "b", "c"]
    assert [request.target.partition("?")[2] for request in network.requests] == [
        "from=7&limit=3&wait=10s",
        "from=7&limit=3&wait=10s",
        "from=9&limit=1&wait=10s",
    ]


def test_records_that_never_appear_end_the_wait() -> None:
    network = Network(GatewayAnswer(200, {}, b'{"records": []}'))

    def later() -> float:
        network.now += 10
        return network.now

    task = Asking(Gateways(("http://one",), "orders", seconds=30.0), network, later, network.sleep)
    with pytest.raises(GatewayUnavailableError, match="do not appear"):
        task.read(7, 3)


def test_a_read_that_breaks_has_no_unknown_outcome() -> None:
    network = Network(ConnectionResetError("reset"))
    with pytest.raises(GatewayUnavailableError):
        asking(network).read(0, 1)


def test_a_name_is_one_part_of_the_path() -> None:
    network = Network(APPENDED)
    Asking(Gateways(("http://one",), "a/b?c"), network).append(BODY)
    assert network.requests[0].target == "/v1/logs/a%2Fb%3Fc/records"


@pytest.mark.parametrize(
    "text",
    ["", " , ", "host:8180", "ftp://host", "http://", "http://a/v1", "http://u:p@a", "http://a:b"],
)
def test_what_is_no_gateway_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"http://host:8180|[Pp]ort"):
        parse_gateways(text)


def test_gateways_are_separated_by_commas() -> None:
    assert parse_gateways("http://a:1, https://b/") == ("http://a:1", "https://b")


class Replying(BaseHTTPRequestHandler):
    """Answers with the body of the request, and breaks the connection when it is `break`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if body == b"break":
            self.close_connection = True
            return
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "3")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def setup(self) -> None:
        """Count the connections."""
        super().setup()
        vars(self.server).setdefault("connections", []).append(self.client_address)


def test_connections_are_kept_and_made_anew() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Replying) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        base = f"http://127.0.0.1:{server.server_port}"
        connections = Connections()

        def post(body: bytes) -> GatewayAnswer:
            return connections(base, "POST", "/", {"X": "1"}, body, 60.0)

        try:
            assert [post(b"one").body, post(b"two").body] == [b"one", b"two"]
            assert post(b"one").headers["retry-after"] == "3"
            assert len(vars(server)["connections"]) == 1
            with pytest.raises(RemoteDisconnected):
                post(b"break")
            assert post(b"three") == (201, post(b"three").headers, b"three")
            assert len(vars(server)["connections"]) == 2
        finally:
            connections.close()
            server.shutdown()
            serving.join()
    with pytest.raises(NotConnectedError, match="refused"):
        Connections()(base, "POST", "/", {}, b"", 60.0)
