"""Fields that this program does not know: kept when a record or a state file is rewritten.

A later program may add fields. A program that reads such a record, changes it and writes it back
must keep them, or the later program loses what it wrote. Unknown fields are kept as canonical JSON
text: the text compares by content, can be hashed, and travels in pickles.

    object   {"known": 1, "later": 2}           any field whose name is not known
    row      [1, 2, {"later": 2}]               the object at the end of a row

Rows of a record stand without names to save space. A row that a later program extends gets an
object at its end, whatever its length. A field that an older program would misunderstand if it kept
it needs a new version of the record instead (docs/formats.md, "Versions").

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, TypeAlias

Unknown: TypeAlias = str
"""The JSON text of the unknown fields; empty without any."""

NOTHING: Final[Unknown] = ""


def split(body: Mapping[str, Any], known: Container[str]) -> tuple[dict[str, Any], Unknown]:
    """Return the known fields of an object, and the others.

    Raises `ValueError` for fields that cannot be written back.
    """
    others = {name: value for name, value in body.items() if name not in known}
    mine = {name: value for name, value in body.items() if name in known}
    return mine, _text(others)


def joined(body: Mapping[str, Any], unknown: Unknown) -> dict[str, Any]:
    """Return an object with its unknown fields. A field that is known has its own value."""
    return {**json.loads(unknown), **body} if unknown else dict(body)


def split_row(row: Sequence[Any]) -> tuple[list[Any], Unknown]:
    """Return a row without the object at its end, and that object. Raises as `split`."""
    if row and isinstance(row[-1], dict):
        return list(row[:-1]), _text(row[-1])
    return list(row), NOTHING


def joined_row(row: Sequence[Any], unknown: Unknown) -> list[Any]:
    """Return a row with its unknown fields."""
    return [*row, json.loads(unknown)] if unknown else list(row)


def _text(fields: Mapping[str, Any]) -> Unknown:
    if not fields:
        return NOTHING
    text = json.dumps(
        fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    text.encode()  # half a surrogate pair cannot be written
    return text
