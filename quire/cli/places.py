"""Places as a person types them: positions, the bounds of `--from` and `--to`, ids of ledgers."""

from __future__ import annotations

from datetime import datetime

import click

from quire import places
from quire.entry import LedgerId
from quire.errors import InvalidRequestError
from quire.log.records.position import TEXT_SHOWN, AtTxid, Position, Record, is_number, to_ms
from quire.places import Place


def parse_position(text: str) -> Position:
    """Return the position that an argument names."""
    try:
        return Position.parse(text)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error).replace("write ", "write an offset, ")) from None


def parse_offset(text: str) -> Position | int:
    """Return the position or offset that an argument names."""
    return int(text) if is_number(text) else parse_position(text)


def parse_place(text: str) -> Place:
    """Return the position, offset, time or txid that an argument names."""
    try:
        return places.parse_place(text)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error)) from None


def parse_ledger(text: str) -> LedgerId:
    """Return the ledger that an argument names."""
    if is_number(text):
        return int(text)
    raise click.BadParameter(
        f"{text[:TEXT_SHOWN]!r} is not a ledger's id: write a number below 2^63; "
        "`quire ledger list` shows the ledgers"
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
