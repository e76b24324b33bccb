"""Numbers and times as people read them. Pure.

A unit stands with its number, as in `1.2 GB` and `3 min`: a page that shows a bare number makes its
reader guess.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from quire.healing.verdict import duration

NONE: Final = "–"
"""An unknown figure."""

_DRAWN: Final = re.compile("[0-9a-f]{32}")
_BYTES: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS: Final = ("", " k", " M", " G", " T")


def size(count: float | None) -> str:
    """Return bytes: `1.2 GB`."""
    return NONE if count is None else _scaled(count, _BYTES, " ")


def number(count: float | None) -> str:
    """Return a count: `950`, `123,456`, `1.2 M`."""
    if count is None:
        return NONE
    if abs(count) < 1_000_000:
        return f"{count:,.0f}"
    return _scaled(count, _COUNTS, "")


def rate(a_second: float | None) -> str:
    """Return a rate: `0.2/s`, `12,345/s`."""
    if a_second is None:
        return NONE
    if 0 < a_second < 10:
        return f"{a_second:.1f}/s" if a_second >= 0.05 else f"{60 * a_second:.1f}/min"
    return f"{number(a_second)}/s"


def seconds(value: float | None) -> str:
    """Return a short time: `0.4 ms`, `120 ms`, `1.5 s`, `2 min 3 s`."""
    if value is None:
        return NONE
    if value < 0.001:
        return f"{1000 * value:.1f} ms"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.1f} s" if value < 60 else duration(value)


def share(value: float | None) -> str:
    """Return a share: `83 %`."""
    if value is None:
        return NONE
    return "<1 %" if 0 < value < 0.005 else f"{100 * value:.0f} %"


def moment(at_ms: float | None) -> str:
    """Return a time of the calendar in UTC: `2026-11-26 04:42:04`."""
    if at_ms is None:
        return NONE
    try:
        time = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms:.0f} ms"  # a time that no calendar has
    return time.strftime("%Y-%m-%d %H:%M:%S")


def ago(at_ms: float | None, now_ms: float) -> str:
    """Return how long ago a time was: `3 min ago`, `now`."""
    if at_ms is None:
        return NONE
    passed = (now_ms - at_ms) / 1000
    return "now" if passed < 1 else f"{duration(passed)} ago"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 ledger`, `2 ledgers`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def short(name: str) -> str:
    """Return a name for a place without space: an id that was drawn is told by its first digits."""
    return f"{name[:8]}…" if _DRAWN.fullmatch(name) else name


def _scaled(count: float, units: tuple[str, ...], gap: str) -> str:
    power, value = 0, float(count)
    while abs(value) >= 999.5 and power < len(units) - 1:
        value /= 1000
        power += 1
    digits = 0 if power == 0 or abs(value) >= 99.5 else 1
    return f"{value:.{digits}f}{gap}{units[power]}"
