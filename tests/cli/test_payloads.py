"""Payloads to text and back, and where records come from."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.aio.loops import loop_factory
from quire.cli import payloads
from quire.cli.payloads import (
    READ_BYTES,
    decode_payload,
    encode_payload,
    payload_fields,
    records,
    stdin_chunks,
)
from quire.entry import ENTRY_BYTES_MAX
from quire.errors import ConfigurationError, EntryTooLargeError


@given(st.binary(max_size=64), st.sampled_from(["raw", "hex", "base64"]))
def test_encodings_are_reversible(payload: bytes, encoding: str) -> None:
    assert decode_payload(encode_payload(payload, encoding), encoding) == payload


@given(st.text(max_size=64))
def test_utf8_is_reversible_for_text(text: str) -> None:
    payload = text.encode()
    assert decode_payload(encode_payload(payload, "utf-8"), "utf-8") == payload


def test_bytes_that_are_not_utf8_are_escaped() -> None:
    assert encode_payload(b"a\xff", "utf-8") == b"a\\xff"


@pytest.mark.parametrize(
    ("line", "encoding"),
    [(b"\xff", "utf-8"), (b"0g", "hex"), (b"a", "base64"), (b"%%%%", "base64")],
)
def test_what_cannot_be_decoded_is_refused(line: bytes, encoding: str) -> None:
    with pytest.raises(ConfigurationError, match=encoding):
        decode_payload(line, encoding)


def test_json_fields() -> None:
    assert payload_fields(b"hi", "raw") == {"payload": "hi"}
    assert payload_fields(b"\xff", "raw") == {"payload_base64": "/w=="}
    assert payload_fields(b"\xff", "hex") == {"payload": "ff"}


def collect(arguments: tuple[str, ...] = (), encoding: str = "raw") -> list[bytes]:
    async def main() -> list[bytes]:
        return [record async for batch in records(arguments, encoding) for record in batch]

    return asyncio.run(main())


def test_arguments_are_records() -> None:
    assert collect(("a", "b c", "é")) == [b"a", b"b c", "é".encode()]
    assert collect(("6869",), "hex") == [b"hi"]


@pytest.mark.parametrize("text", [b"a\nb\n\nc", b"a\nb\n\nc\n"])
def test_lines_of_a_pipe_are_records(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert collect() == [b"a", b"b", b"", b"c"]


def test_lines_of_a_file_are_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    path = os.path.join(tmp_path, "records")
    with open(path, "wb") as file:
        file.write(b"x" * 300_000 + b"\nlast")
    with open(path) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert collect() == [b"x" * 300_000, b"last"]


def test_reading_a_pipe_leaves_it_as_it_was_for_those_who_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shell, or the next command of a script: reads that fail for want of input would end it."""
    reading, writing = os.pipe()

    async def main() -> list[bool]:
        seen: list[bool] = []
        async for _ in stdin_chunks():
            seen.append(os.get_blocking(reading))
            if len(seen) == 1:
                asyncio.get_running_loop().call_soon(os.write, writing, b"b\n")
            else:
                os.close(writing)
        return seen

    os.write(writing, b"a\n")
    with os.fdopen(reading) as stdin, asyncio.Runner(loop_factory=loop_factory()) as runner:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert runner.run(main()) == [True, True]
        assert os.get_blocking(reading)


def test_an_input_that_was_closed_is_not_taken_for_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with os.fdopen(os.open(os.devnull, os.O_WRONLY)) as stdin:  # see quire/cli/streams.py
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(OSError, match="Bad file descriptor: 'standard input'"):
            collect()


def test_a_record_that_is_too_large_is_refused_before_anything_is_done_for_it() -> None:
    with pytest.raises(EntryTooLargeError):
        decode_payload(bytes(11), "raw", 10)
    assert decode_payload(b"00" * 10, "hex", 10) == bytes(10)


def test_lines_from_memory_are_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb")))
    assert collect() == [b"a", b"b"]


def test_a_line_without_end_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0

    async def zeros() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken < 8 * ENTRY_BYTES_MAX:  # as /dev/zero, but for those who do not stop
            taken += READ_BYTES
            yield bytes(READ_BYTES)

    with open(os.devnull) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(payloads, "stdin_chunks", zeros)
        with pytest.raises(EntryTooLargeError):
            collect()
