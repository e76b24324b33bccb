"""`quire dlog`: read logs of Apache DistributedLog from their ledgers."""

from __future__ import annotations

import sys
from contextlib import aclosing, nullcontext
from typing import Final

import click

from quire.bookkeeper.dlog.log import DlogRecord, find_txid, read_dlog
from quire.bookkeeper.dlog.names import Dlsn
from quire.cli.output import note, print_json, progress, write_line
from quire.cli.payloads import encode_payload, payload_fields, payload_option
from quire.cli.replication import password_option
from quire.cli.settings import Settings, run, with_settings
from quire.client import Client
from quire.errors import InvalidRequestError

TXID: Final = "txid:"


def _place(text: str) -> Dlsn | int:
    """Return a DLSN, or a transaction id."""
    if text.startswith(TXID) and text.removeprefix(TXID).isdecimal():
        return int(text.removeprefix(TXID))
    try:
        return Dlsn.parse(text)
    except InvalidRequestError as error:
        raise click.BadParameter(f"{error}; txid:N begins at a transaction id") from None


@click.group(short_help="Read logs of Apache DistributedLog.")
def dlog() -> None:
    """Read logs of Apache DistributedLog without its library."""


@dlog.command(short_help="Print the records of a log.")
@click.argument("log")
@click.option(
    "--from",
    "start",
    type=_place,
    metavar="PLACE",
    help="First record to print: a DLSN, or txid:N for a transaction id or the next above it.",
)
@click.option("--limit", type=click.IntRange(min=0), help="Records to print at most.")
@payload_option
@password_option
@with_settings
def cat(
    settings: Settings,
    log: str,
    start: Dlsn | int | None,
    limit: int | None,
    encoding: str,
    password: bytes,
) -> None:
    """Print the records of a log that are confirmed now, one a line.

    LOG is its path in ZooKeeper, namespace and name. The store's URI names the ledgers, as in
    zk://zoo1:2181/?ledgers=bookkeeper:/ledgers. The writer of the log is not disturbed. While
    the output goes to a file, standard error shows the progress on a terminal.

    \b
    Examples:
      quire dlog cat /messaging/orders
      quire dlog cat /messaging/orders --from 4:17:2 --limit 10 --json
    """
    run(lambda: _cat(settings, log, start, limit, encoding, password))


async def _cat(
    settings: Settings,
    log: str,
    start: Dlsn | int | None,
    limit: int | None,
    encoding: str,
    password: bytes,
) -> None:
    shown = nullcontext(_ignore) if sys.stdout.isatty() else progress(f"Reading {log}", limit)
    async with settings.connect() as client:
        with shown as advance:
            if isinstance(start, int):
                start = await _find(client, log, start, password)
                if start is None:
                    return
            left = limit
            records = read_dlog(client, log, start=start, password=password)
            async with aclosing(records):
                while left is None or left > 0:
                    record = await anext(records, None)
                    if record is None:
                        return
                    _print(settings, record, encoding)
                    advance(1)
                    left = None if left is None else left - 1


def _ignore(more: int) -> None:
    """The lines on the terminal are the progress."""


async def _find(client: Client, log: str, txid: int, password: bytes) -> Dlsn | None:
    found = await find_txid(client, log, txid, password=password)
    if found is None:
        note(f"Log {log} has no record with transaction id {txid} or above.")
    return found


def _print(settings: Settings, record: DlogRecord, encoding: str) -> None:
    if not settings.json:
        write_line(encode_payload(record.payload, encoding))
        return
    print_json(
        {
            "dlsn": str(record.dlsn),
            "txid": record.txid,
            "sequence": record.sequence,
            **payload_fields(record.payload, encoding),
        }
    )
