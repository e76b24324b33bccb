"""Bodies of requests as records, and records as bodies of answers. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from json.decoder import WHITESPACE  # type: ignore[attr-defined]
from typing import Final, NoReturn

from quire.errors import InvalidRequestError
from quire.gateway.durable.state import StreamState
from quire.log.records.position import Record

EVENT_SECONDS: Final = 20
EVENT_EPOCH: Final = 1_728_432_000
"""Cursors count intervals of so many seconds from 9 October 2024, as the protocol proposes."""


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_decoder: Final = json.JSONDecoder(parse_constant=_no_number)


def payloads_of(state: StreamState, body: bytes) -> list[bytes]:
    """Return the payloads of a body: its bytes, or the text of each JSON value.

    A list is taken apart once, so it may be empty. Raises `InvalidRequestError` for bytes that are
    no JSON where the stream has JSON.
    """
    if not state.is_json:
        return [body] if body else []
    if not body.strip():
        return []
    try:
        return [each.encode() for each in _values(body.decode())]
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from None


def _values(text: str) -> list[str]:
    """Return the values of a list, or the one value, each as it is written."""
    at = _space(text, 0)
    if text[at] != "[":
        _, end = _decoder.raw_decode(text, at)
        _check_end(text, end)
        return [text[at:end]]
    found: list[str] = []
    at = _space(text, at + 1)
    if text[at : at + 1] == "]":
        _check_end(text, at + 1)
        return found
    while True:
        _, end = _decoder.raw_decode(text, at)
        found.append(text[at:end])
        at = _space(text, end)
        mark = text[at : at + 1]
        if mark == "]":
            _check_end(text, at + 1)
            return found
        if mark != ",":
            raise ValueError(f"no comma at {at}")
        at = _space(text, at + 1)


def _space(text: str, at: int) -> int:
    match = WHITESPACE.match(text, at)
    return match.end() if match else at


def _check_end(text: str, at: int) -> None:
    if _space(text, at) != len(text):
        raise ValueError(f"something follows at {at}")


def body_of(state: StreamState, records: Iterable[Record]) -> bytes:
    """Return the body of an answer with records. Records without payload are not in it."""
    payloads = (each.payload for each in records if each.payload)
    return b"[" + b",".join(payloads) + b"]" if state.is_json else b"".join(payloads)


def event(name: str, data: bytes) -> bytes:
    """Return an event; bytes of a line's end begin another line of it. Readers take one space off
    the front of a line.
    """
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"".join([b"event: " + name.encode() + b"\n", *_lines(lines), b"\n"])


def _lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield b"data:" + (b" " if line.startswith(b" ") else b"") + line + b"\n"


def cursor_of(given: str | None, now: float, jitter: int) -> str:
    """Return the cursor of an answer: the interval of now, or one above the client's.

    `jitter` is a random number of intervals, at least one.
    """
    current = int(now - EVENT_EPOCH) // EVENT_SECONDS
    is_number = given is not None and given.isascii() and given.isdecimal() and len(given) < 16
    last = int(given) if is_number and given is not None else -1
    return str(last + jitter if last >= current else current)
