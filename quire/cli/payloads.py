"""Records in and out of a terminal: how bytes become text, and how standard input becomes records.

On the way in a record is an argument or a line without its newline; on the way out it is a line.
`raw` passes bytes as they are, the other encodings make any bytes fit a line.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import click

from quire.entry import ENTRY_BYTES_MAX
from quire.errors import ConfigurationError, EntryTooLargeError
from quire.log.records.attribute_json import text_field

READ_BYTES: Final = 256 * 1024
"""Bytes asked of standard input at a time."""

LINE_BYTES_MAX: Final = 4 * ENTRY_BYTES_MAX
"""The longest line that can be a record in any encoding: hex has two bytes for each, or three."""

ENCODINGS: Final = ("raw", "utf-8", "hex", "base64")

_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "raw": lambda line: line,
    "utf-8": lambda line: line.decode().encode(),
    "hex": lambda line: bytes.fromhex(line.decode("ascii")),
    "base64": lambda line: base64.b64decode(line, validate=True),
}

_ENCODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "raw": lambda payload: payload,
    "utf-8": lambda payload: payload.decode(errors="backslashreplace").encode(),
    "hex": lambda payload: payload.hex().encode(),
    "base64": base64.b64encode,
}

payload_option = click.option(
    "--payload",
    "encoding",
    type=click.Choice(ENCODINGS),
    default="raw",
    show_default=True,
    help="How payloads are written as text.",
)


def decode_payload(line: bytes, encoding: str, bytes_max: int = ENTRY_BYTES_MAX) -> bytes:
    """Return the payload that a line stands for.

    Raises `ConfigurationError` for a line that is not written in the encoding, and
    `EntryTooLargeError` for more than `bytes_max`.
    """
    try:
        payload = _DECODERS[encoding](line)
    except (ValueError, binascii.Error) as error:
        shown = line[:40].decode(errors="backslashreplace")
        raise ConfigurationError(f"record {shown!r} is not {encoding}: {error}") from None
    if len(payload) > bytes_max:
        raise EntryTooLargeError(len(payload), bytes_max)
    return payload


def encode_payload(payload: bytes, encoding: str) -> bytes:
    """Return the line that stands for a payload, without a newline."""
    return _ENCODERS[encoding](payload)


def payload_fields(payload: bytes, encoding: str) -> Mapping[str, str | None]:
    """Return a payload as fields of a JSON object.

    `payload` is text; with the encoding `raw`, bytes that are not UTF-8 are given as
    `payload_base64`.
    """
    if encoding != "raw":
        return {"payload": encode_payload(payload, encoding).decode()}
    return text_field("payload", payload)


async def records(
    arguments: Sequence[str], encoding: str, bytes_max: int = ENTRY_BYTES_MAX
) -> AsyncGenerator[list[bytes], None]:
    """Yield batches of records: the arguments, or else the lines of standard input.

    Raises `ConfigurationError` for a record that is not written in the encoding,
    `EntryTooLargeError` for a record of more than `bytes_max` or a line without end, and `OSError`
    when the input cannot be read.
    """
    if arguments:
        yield [decode_payload(os.fsencode(each), encoding, bytes_max) for each in arguments]
        return
    if sys.stdin.isatty():
        click.echo("Reading records from the terminal, one a line; Ctrl-D ends.", err=True)
    rest = b""
    async for chunk in stdin_chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:  # the line may never end
            raise EntryTooLargeError(len(rest), ENTRY_BYTES_MAX)
        if lines:
            yield [decode_payload(line, encoding, bytes_max) for line in lines]
    if rest:
        yield [decode_payload(rest, encoding, bytes_max)]


async def stdin_chunks() -> AsyncIterator[bytes]:
    """Yield what standard input gives as it comes, without blocking the loop on a pipe or terminal.

    A thread would do as well but could not be interrupted: Ctrl-C at a terminal would wait for
    Enter. Raises `OSError` when it cannot be read.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # replaced by an object in memory
        yield sys.stdin.buffer.read()
        return
    while True:
        with suppress(PermissionError):  # regular files cannot be waited for and need not be
            await _readable(descriptor)
        try:
            chunk = os.read(descriptor, READ_BYTES)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard input") from error
        if not chunk:
            return
        yield chunk


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor can be read, then stop watching it: the loop would spin while
    input waits to be read.
    """
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    blocking = os.get_blocking(descriptor)
    loop.add_reader(descriptor, readable.set)
    # uvloop made the file non-blocking, also for the shell and all other processes that share it.
    os.set_blocking(descriptor, blocking)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
