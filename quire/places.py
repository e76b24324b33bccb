"""Places in a log as text: positions, offsets, times and txids.

Pure: no clock and no I/O.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TypeAlias

from quire.errors import InvalidRequestError
from quire.log.records.position import TEXT_SHOWN, AtTxid, Position, is_number

Place: TypeAlias = Position | int | datetime | AtTxid


def iso_time(timestamp_ms: int) -> str | None:
    """Return a time in UTC as `parse_place` takes it: `2026-07-31T09:30:00.123Z`.

    Args:
        timestamp_ms: Unix milliseconds.

    Returns:
        The text; None for a time that no calendar has.
    """
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def parse_place(text: str) -> Place:
    """Return the place that a text names.

    Args:
        text: an offset, `segment.entry.slot`, `txid:7`, a time in ISO 8601 with or without a zone,
            `beginning` or `latest`.

    Raises:
        InvalidRequestError: the text has another form.
    """
    if text.startswith("txid:") and is_number(text[5:]):
        return AtTxid(int(text[5:]))
    if is_number(text):  # an offset, though it may be a day too
        return int(text)
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text)
    try:
        return Position.parse(text)
    except InvalidRequestError:
        raise InvalidRequestError(
            f"{text[:TEXT_SHOWN]!r} is not a position: write an offset, segment.entry.slot, "
            "txid:ID, a time such as 2026-07-31T09:30:00Z, 'beginning' or 'latest'"
        ) from None
