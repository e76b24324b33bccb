"""The types in a manifest record: checked before a manifest is made of it.

A checksum says that a record is as it was written, not that this program wrote it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, TypeAlias

from quire.fields import split_row

_Check: TypeAlias = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return type(value) is bool


def _all(check: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _segment(row: Any) -> bool:
    if not isinstance(row, list):
        return False
    row, _ = split_row(row)
    if not 6 <= len(row) <= 8:
        return False
    if not (_cold(row[7]) and _flag(row[6]) if len(row) == 8 else row[6:] in ([], [True])):
        return False
    end = row[5]
    is_end = end is None or (_all(_number)(end) and len(end) in (5, 6))
    return all(map(_number, row[:4])) and (row[4] is None or _number(row[4])) and is_end


def _cold(row: Any) -> bool:
    types = (_number, _text, _number, _number, _flag)
    return (
        isinstance(row, list)
        and len(row) == len(types)
        and all(check(value) for check, value in zip(types, row, strict=True))
    )


def _reference(row: Any) -> bool:
    if not isinstance(row, list):
        return False
    row, _ = split_row(row)
    return len(row) == 17 and _text(row[0]) and all(map(_number, row[1:]))


def _doomed_page(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and _number(row[0]) and _reference(row[1])


def _border(row: Any) -> bool:
    return _all(_number)(row) and len(row) == 3


def _job(row: Any) -> bool:
    if not isinstance(row, list):
        return False
    row, _ = split_row(row)
    if len(row) not in (2, 4):
        return False
    return _text(row[0]) and _number(row[1]) and all(map(_text, row[2:]))


def _forgotten(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and _number(row[0]) and _text(row[1])


def _reading(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    return _number(value[0]) and _text(value[1]) and _number(value[2])


def _ages(row: Any) -> bool:
    if not isinstance(row, list) or len(row) != 4:
        return False
    counted, reading, store_ms, marks = row
    return (
        _number(counted)
        and (reading is None or _reading(reading))
        and (store_ms is None or _number(store_ms))
        and _all(_mark)(marks)
    )


def _holder(row: Any) -> bool:
    if not isinstance(row, list):
        return False
    row, _ = split_row(row)
    return len(row) == 4 and _text(row[1]) and all(map(_number, (row[0], *row[2:])))


def _mark(value: Any) -> bool:
    return _all(_number)(value) and len(value) == 2


NO_SETTINGS: Final[Mapping[str, str]] = {}
"""Shared by all manifests without settings: a process may hold a hundred thousand."""


def _settings(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


_CHECKS: Final[dict[str, _Check]] = {
    "name": _text,
    "log_id": _text,
    "created_ms": _number,
    "epoch": _number,
    "segments": _all(_segment),
    "next_segment": _number,
    "first_offset": _number,
    "trimmed_to": _text,
    "trimmed_transaction": _number,
    "trimmed_timestamp_ms": _number,
    "sealed": _flag,
    "retired": _flag,
    "doomed": _all(_number),
    "settings": _settings,
    "jobs": _all(_job),
    "forgotten_jobs": _all(_forgotten),
    "tiers": _all(_text),
    "doomed_files": _all(_text),
    "ages": _ages,
    "holder": _holder,
    "levels": _all(_all(_reference)),
    "border": _border,
    "doomed_pages": _all(_doomed_page),
}

FIELDS: Final = frozenset(_CHECKS)
"""The fields of a manifest's record."""

OPTIONAL: Final = frozenset(
    {
        "retired",
        "jobs",
        "forgotten_jobs",
        "trimmed_transaction",
        "trimmed_timestamp_ms",
        "tiers",
        "doomed_files",
        "ages",
        "holder",
        "levels",
        "border",
        "doomed_pages",
    }
)

_PAGE_CHECKS: Final[dict[str, _Check]] = {
    "log_id": _text,
    "level": _number,
    "rows": lambda value: isinstance(value, list),
}

PAGE_FIELDS: Final = frozenset(_PAGE_CHECKS)
"""The fields of a page's record."""

_JOBS_CHECKS: Final[dict[str, _Check]] = {
    "log_id": _text,
    "jobs": _all(_job),
    "forgotten_jobs": _all(_forgotten),
}

JOBS_FIELDS: Final = frozenset(_JOBS_CHECKS)
"""The fields of the record of a log's jobs."""


def check_types(body: Mapping[str, Any]) -> None:
    """Raise TypeError, naming the field, unless everything has its type."""
    _check(body, _CHECKS, OPTIONAL)


def check_page_types(body: Mapping[str, Any]) -> None:
    """Raise TypeError, naming the field, unless everything in a page has its type."""
    _check(body, _PAGE_CHECKS)
    if not _all(_reference if body["level"] else _segment)(body["rows"]):
        raise TypeError(f"rows are {body['rows']!r}")


def check_jobs_types(body: Mapping[str, Any]) -> None:
    """Raise TypeError, naming the field, unless everything in a record of jobs has its type."""
    _check(body, _JOBS_CHECKS)


def _check(
    body: Mapping[str, Any], checks: Mapping[str, _Check], optional: Container[str] = ()
) -> None:
    for name, check in checks.items():
        if name not in body and name in optional:
            continue
        if name not in body or not check(body[name]):
            raise TypeError(f"{name} is {body.get(name)!r}")
