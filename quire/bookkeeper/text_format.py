"""Protobuf's text format, as far as records of ledgers and cookies use it.

    name: 42
    name: "text with \\" and \\303\\274"
    name: NAME
    name { … }          or name: { … }

Read into (name, value) pairs in the order of the text. Strings are bytes. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from quire.bookkeeper.protobuf import MalformedError


class Name(str):
    """A word without quotes: the name of a value of an enumeration, `true` or `false`."""

    __slots__ = ()


Scalar: TypeAlias = int | bytes | Name


class TextField(NamedTuple):
    """A field: its name, and its value or its own fields."""

    name: str
    value: Scalar | tuple[TextField, ...]


# A comment ends with its line: were its last spaces those after it too, n comments had 2ⁿ readings.
_TOKEN: Final = re.compile(
    r"""\s*(?:\#[^\n]*(?:\n\s*|\Z))*(?:
        (?P<punctuation>[{}:<>;,])
      | (?P<number>-?[0-9]+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
      | "(?P<double>(?:[^"\\\n]|\\.)*)"
      | '(?P<single>(?:[^'\\\n]|\\.)*)'
    )""",
    re.VERBOSE,
)
_END: Final = re.compile(r"\s*(?:#[^\n]*(?:\n\s*|\Z))*\Z")
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|[xX][0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_LETTERS: Final[dict[bytes, bytes]] = {
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}
_DEPTH_MAX: Final = 8


def parse(text: str) -> tuple[TextField, ...]:
    """Return the fields of a message. Raises `MalformedError`."""
    tokens = _tokens(text)
    pairs, closed = _pairs(tokens, 0)
    if closed:
        raise MalformedError("a brace closes nothing")
    return pairs


def render(pairs: Iterable[TextField], indent: str = "") -> str:
    """Return the text of a message, one field a line."""
    lines: list[str] = []
    for name, value in pairs:
        if isinstance(value, tuple):
            lines.append(f"{indent}{name} {{\n{render(value, indent + '  ')}{indent}}}\n")
        else:
            lines.append(f"{indent}{name}: {_scalar(value)}\n")
    return "".join(lines)


def _scalar(value: Scalar) -> str:
    if isinstance(value, bytes):
        return f'"{"".join(map(_escaped, value))}"'
    return str(value)


def _escaped(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _tokens(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while not _END.match(text, at):
        found = _TOKEN.match(text, at)
        if found is None:
            raise MalformedError(f"no field at {text[at : at + 20]!r}")
        yield found
        at = found.end()


def _pairs(tokens: Iterator[re.Match[str]], depth: int) -> tuple[tuple[TextField, ...], bool]:
    """Return the fields up to a closing brace, and whether there was one."""
    pairs: list[TextField] = []
    for token in tokens:
        mark = token["punctuation"]
        if mark in ("}", ">"):
            return tuple(pairs), True
        if mark in (";", ","):
            continue
        name = token["word"]
        if name is None:
            raise MalformedError(f"{token[0].strip()!r} stands where a field begins")
        pairs.append(TextField(name, _value(tokens, depth)))
    return tuple(pairs), False


def _value(tokens: Iterator[re.Match[str]], depth: int) -> Scalar | tuple[TextField, ...]:
    token = next(tokens, None)
    if token is not None and token["punctuation"] == ":":
        token = next(tokens, None)
    if token is None:
        raise MalformedError("the text ends inside a field")
    if token["punctuation"] in ("{", "<"):
        if depth >= _DEPTH_MAX:
            raise MalformedError(f"messages inside messages more than {_DEPTH_MAX} deep")
        pairs, closed = _pairs(tokens, depth + 1)
        if not closed:
            raise MalformedError("the text ends inside a message")
        return pairs
    if token["number"] is not None:
        return int(token["number"])
    if token["word"] is not None:
        return Name(token["word"])
    quoted = token["double"] if token["double"] is not None else token["single"]
    if quoted is None:
        raise MalformedError(f"{token[0].strip()!r} stands where a value begins")
    return _ESCAPE.sub(_unescaped, quoted.encode())


def _unescaped(found: re.Match[bytes]) -> bytes:
    escape = found[1]
    if escape[:1] in b"01234567":
        return bytes([int(escape, 8) & 0xFF])
    if escape[:1] in b"xX" and len(escape) > 1:
        return bytes([int(escape[1:], 16)])
    return _LETTERS.get(escape, escape)
