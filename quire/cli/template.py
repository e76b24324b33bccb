r"""Templates of `--format`: how `quire log read` and `tail` print a record.

    {offset}\t{time}\t{payload}

A template is literal text, fields in braces, and the escapes of `_ESCAPES`. Braces of the text are
doubled. Pure: a record goes in, the bytes of a line come out.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Callable
from typing import Final

from quire.errors import ConfigurationError
from quire.log.records.position import Record
from quire.places import iso_time

FIELDS: Final[dict[str, Callable[[Record], object]]] = {
    "position": lambda record: record.position,
    "offset": lambda record: record.offset,
    "epoch": lambda record: record.epoch,
    "time": lambda record: _time(record.timestamp_ms),
    "timestamp_ms": lambda record: record.timestamp_ms,
    "txid": lambda record: "-" if record.txid is None else record.txid,
    "key": lambda record: "-" if record.key is None else _shown(record.key),
    "headers": lambda record: ",".join(
        f"{name}={_shown(value or b'')}" for name, value in record.headers
    ),
    "event_time": lambda record: (
        "-" if record.event_time_ms is None else _time(record.event_time_ms)
    ),
}
"""Fields besides `payload`, whose bytes depend on `--payload`."""

_PAYLOAD: Final = "payload"
_ESCAPES: Final = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)


class Template:
    """A parsed template.

    Raises:
        ConfigurationError: a field or an escape is unknown, or a brace stands alone.
    """

    def __init__(self, text: str) -> None:
        try:
            parts = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ConfigurationError(f"format {text!r}: {error}; write {{{{ for a brace") from None
        self._parts: list[tuple[bytes, str | None]] = []
        for literal, field, spec, conversion in parts:
            if field is not None and (field not in (*FIELDS, _PAYLOAD) or spec or conversion):
                known = ", ".join((*FIELDS, _PAYLOAD))
                raise ConfigurationError(f"format {text!r}: no field {field!r}; fields are {known}")
            self._parts.append((os.fsencode(_unescaped(literal)), field))

    def line(self, record: Record, payload: bytes) -> bytes:
        """Return the line of a record, without its newline."""
        return b"".join(
            literal + (_value(record, payload, field) if field is not None else b"")
            for literal, field in self._parts
        )


def _shown(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _time(time_ms: int) -> object:
    return iso_time(time_ms) or time_ms


def _value(record: Record, payload: bytes, field: str) -> bytes:
    return payload if field == _PAYLOAD else str(FIELDS[field](record)).encode()


def _unescaped(literal: str) -> str:
    def meant(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise ConfigurationError(f"format: unknown escape {match[0]!r}; write \\n, \\t or \\\\")
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(meant, literal)
