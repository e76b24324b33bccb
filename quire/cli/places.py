"""Places as a person types them: positions, the bounds of `--from` and `--to`, ids of ledgers."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TypeAlias

import click

from quire.entry import LedgerId
from quire.errors import InvalidRequestError
from quire.log.records.position import AtTxid, Position, Record, to_ms

Place: TypeAlias = Position | int | datetime | AtTxid


def parse_position(text: str) -> Position:
    """Return the position that an argument names."""
    try:
        return Position.parse(text)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error).replace("write ", "write an offset, ")) from None


def parse_offset(text: str) -> Position | int:
    """Return the position or offset that an argument names."""
    return int(text) if text.isascii() and text.isdecimal() else parse_position(text)


def parse_place(text: str) -> Place:
    """Return the position, offset, time or txid that an argument names."""
    if text.startswith("txid:") and text[5:].isdecimal():
        return AtTxid(int(text[5:]))
    if not text.isdecimal():  # digits alone are an offset, though they may be a day too
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(text)
    try:
        return parse_offset(text)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is not a position: write an offset, segment.entry.slot, txid:ID, a time "
            "such as 2026-07-31T09:30:00Z, 'beginning' or 'latest'"
        ) from None


def parse_ledger(text: str) -> LedgerId:
    """Return the ledger that an argument names."""
    if text.isascii() and text.isdecimal():
        return int(text)
    raise click.BadParameter(
        f"{text!r} is not a ledger's id: write a number; `quire ledger list` shows the ledgers"
    )


def is_before(record: Record, end: Place) -> bool:
    """Return whether a record comes before the end of a range."""
    if isinstance(end, Position):
        return record.position < end
    if isinstance(end, AtTxid):
        return record.txid is None or record.txid < end.txid
    if isinstance(end, datetime):
        return record.timestamp_ms < to_ms(end)
    return record.offset < end
