"""Requests to gateways, repeated until one answers with certainty or the time is over.

| answer | reaction |
|---|---|
| 2xx | done |
| 307 | the same request to `Location` |
| 429, 503 | nothing happened: again after `Retry-After` |
| 408, 502, 504, a broken connection | it may have happened: again, under the same number |
| any other | an error at once |

A chunk has a producer's number, so that a repetition is harmless. After an error the given gateways
are asked in turn: the gateway of a redirect may be gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from quire.aio.backoff import Backoff
from quire.errors import (
    ConfigurationError,
    GatewayOutcomeUnknownError,
    GatewayRefusedError,
    GatewayUnavailableError,
)

T = TypeVar("T")

PAUSES: Final = Backoff(first=0.2, last=5.0)

ANSWER_SECONDS: Final = 60.0
"""A gateway that is silent for so long is taken for dead; it takes a log over in ten."""

REDIRECTS_MAX: Final = 5
"""Redirects without a pause: two gateways that hand a log over may name each other."""

_UNKNOWN: Final = frozenset({408, 502, 504})
_NOTHING_HAPPENED: Final = frozenset({429, 503})
_SCHEMES: Final = ("http", "https")


class NotConnectedError(OSError):
    """No connection was made, so nothing was sent: not resolved, refused, or not trusted."""


class PassedError(Exception):
    """The log has later numbers of a producer, and no longer knows the given one. For callers of
    this package only.
    """

    def __init__(self, last: int) -> None:
        super().__init__(f"the last number is {last}")
        self.last = last


class GatewayAnswer(NamedTuple):
    """What a gateway answered."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


class SentRecords(NamedTuple):
    """The place of a chunk in the log."""

    offset: int
    """Of its first record; the others follow."""
    is_repeated: bool
    """Whether it was there before this request."""


class Transport(Protocol):
    """Sends one request."""

    def __call__(
        self,
        base: str,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float,
        /,
    ) -> GatewayAnswer:
        """Return the answer.

        Raises `NotConnectedError` when nothing was sent, `OSError` or `HTTPException` when the
        connection breaks.
        """
        ...


class Connections:
    """The transport of a task: one connection, which is kept while the gateway stays the same."""

    def __init__(self) -> None:
        self._base: str | None = None
        self._connection: HTTPConnection | None = None

    def __call__(
        self,
        base: str,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        seconds: float,
        /,
    ) -> GatewayAnswer:
        """Return the answer of the gateway at a URL. Raises as `Transport` says."""
        connection = self._connected(base, seconds)
        try:
            connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            data = answer.read()
        except BaseException:
            self.close()
            raise
        return GatewayAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, data)

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        if self._connection is not None:
            self._connection.close()
        self._base = self._connection = None

    def _connected(self, base: str, seconds: float) -> HTTPConnection:
        if self._connection is None or base != self._base:
            self.close()
            parts = urlsplit(base)
            assert parts.hostname is not None
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._connection = kind(parts.hostname, parts.port)
            self._base = base
        self._connection.timeout = seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)
            return self._connection
        try:
            self._connection.connect()
        except OSError as error:
            self.close()
            raise NotConnectedError(f"{type(error).__name__}: {error}") from error
        return self._connection


def parse_gateways(text: str) -> tuple[str, ...]:
    """Return the URLs of gateways, separated by commas. Raises `ValueError`."""
    found = tuple(each.strip().rstrip("/") for each in text.split(",") if each.strip())
    for each in found:
        parts = urlsplit(each)
        has_more = parts.path or parts.query or parts.fragment or parts.username
        if parts.scheme not in _SCHEMES or not parts.hostname or has_more:
            raise ValueError(f"{each!r} is not a URL such as http://host:8180")
        _ = parts.port  # ValueError if it is no number
    if not found:
        raise ValueError("write a URL such as http://host:8180")
    return found


@dataclass(frozen=True)
class Gateways:
    """Which gateways are asked, and how long."""

    urls: tuple[str, ...]
    log: str
    token: str | None = field(default=None, repr=False)
    seconds: float = 120.0


class Asking:
    """The requests of one task for one log."""

    def __init__(
        self,
        gateways: Gateways,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gateways = gateways
        self._transport = transport
        self._clock = clock
        self._sleep = sleep
        self._turn = 0
        self._base = gateways.urls[0]
        self._headers = {"Content-Type": "application/json"}
        if gateways.token:
            self._headers["Authorization"] = f"Bearer {gateways.token}"

    def append(self, body: bytes) -> SentRecords:
        """Append a chunk that has a number, and return where its records are.

        Raises:
            GatewayUnavailableError: the time is over, and nothing happened.
            GatewayOutcomeUnknownError: the time is over, and the records may be in the log.
            PassedError: the log has later numbers, and no longer knows this one.
            GatewayRefusedError: the gateway refuses the request.
        """
        return self._ask("POST", "/records", _sent, body)

    def end(self) -> int:
        """Return an offset after every record that is certain now. Raises as `append`."""
        return self._ask("GET", "/end?linearizable=true", _offset)

    def read(self, offset: int, records: int) -> list[Mapping[str, Any]]:
        """Return records from an offset on. Raises as `append`."""
        found: list[Mapping[str, Any]] = []
        started = self._clock()
        while len(found) < records:
            place, limit = offset + len(found), records - len(found)
            path = f"/records?from={place}&limit={limit}&wait=10s"
            page = self._ask("GET", path, _page)
            if not page and self._clock() - started >= self._gateways.seconds:
                raise self._gave_up("records that it confirmed do not appear", is_unknown=False)
            found += page
        return found

    def _ask(
        self, method: str, path: str, read: Callable[[Any], T], body: bytes | None = None
    ) -> T:
        """Return what `read` finds in the answer."""
        target = f"/v1/logs/{quote(self._gateways.log, safe='')}{path}"
        deadline = self._clock() + self._gateways.seconds
        failures = redirects = 0
        is_unknown = False
        while True:
            pause = PAUSES.seconds(failures)
            try:
                left = max(deadline - self._clock(), 0.001)
                wait = min(left, ANSWER_SECONDS)
                answer = self._transport(self._base, method, target, self._headers, body, wait)
            except NotConnectedError as error:
                reason = str(error)
                self._next()
            except (OSError, HTTPException) as error:
                reason, is_unknown = f"{type(error).__name__}: {error}", True
                self._next()
            else:
                if answer.status in (200, 201):
                    return self._understood(answer, read)
                code, reason = _told(answer)
                if answer.status == 307:
                    self._base = self._location(answer)
                    redirects += 1
                    if redirects % REDIRECTS_MAX and self._clock() < deadline:
                        continue
                elif answer.status in _NOTHING_HAPPENED | _UNKNOWN:
                    is_unknown |= answer.status in _UNKNOWN
                    pause = max(pause, _retry_after(answer))
                    if answer.status != 429:
                        self._next()
                else:
                    raise self._refusal(answer, code, reason)
            failures += 1
            if self._clock() + pause >= deadline:
                raise self._gave_up(reason, is_unknown=is_unknown and method == "POST")
            self._sleep(pause)

    def _understood(self, answer: GatewayAnswer, read: Callable[[Any], T]) -> T:
        try:
            return read(json.loads(answer.body))
        except (ValueError, LookupError, TypeError, AttributeError):
            text = answer.body[:200].decode(errors="replace")
            reason = f"its answer is not a gateway's, but {text!r}: see option gateway"
            raise self._refused(answer, "unknown", reason) from None

    def _next(self) -> None:
        urls = self._gateways.urls
        self._turn += 1
        self._base = urls[self._turn % len(urls)]

    def _location(self, answer: GatewayAnswer) -> str:
        """Return the URL of the gateway that an answer names: the path stays the same."""
        parts: SplitResult = urlsplit(answer.headers.get("location", ""))
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise self._refused(answer, "elsewhere", f"Location {parts.geturl()!r} is not a URL")
        if self._base.startswith("https:") and parts.scheme == "http" and self._gateways.token:
            raise ConfigurationError(
                f"{self._base} sends to {parts.scheme}://{parts.netloc}, where the token would be "
                "readable on the way: give the gateways an --advertise URL with https"
            )
        return f"{parts.scheme}://{parts.netloc}"

    def _refusal(self, answer: GatewayAnswer, code: str, reason: str) -> Exception:
        last = _json(answer).get("last")
        if code == "sequence_conflict" and type(last) is int:
            return PassedError(last)
        return self._refused(answer, code, reason)

    def _refused(self, answer: GatewayAnswer, code: str, reason: str) -> GatewayRefusedError:
        return GatewayRefusedError(self._gateways.log, self._base, answer.status, code, reason)

    def _gave_up(self, reason: str, *, is_unknown: bool) -> Exception:
        kind = GatewayOutcomeUnknownError if is_unknown else GatewayUnavailableError
        return kind(self._gateways.log, self._base, self._gateways.seconds, reason)


def _sent(told: Any) -> SentRecords:
    # A gateway of an older version does not tell: its answer is compared.
    return SentRecords(int(told["records"][0]["offset"]), told.get("repeated", True))


def _offset(told: Any) -> int:
    return int(told["offset"])


def _page(told: Any) -> list[Mapping[str, Any]]:
    return list(told["records"])


def _json(answer: GatewayAnswer) -> Mapping[str, Any]:
    try:
        found = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _told(answer: GatewayAnswer) -> tuple[str, str]:
    """Return code and message; a proxy on the way has neither."""
    told = _json(answer)
    text = answer.body[:200].decode(errors="replace")
    return str(told.get("error", "unknown")), str(told.get("message", text))


def _retry_after(answer: GatewayAnswer) -> float:
    given = answer.headers.get("retry-after", "")
    return float(given) if given.isascii() and given.isdigit() else 0.0
