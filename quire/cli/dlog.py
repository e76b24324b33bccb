"""`quire dlog`: read logs of Apache DistributedLog from their ledgers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from quire.bookkeeper.dlog.log import DlogRecord, find_sequence, find_txid, read_dlog
from quire.bookkeeper.dlog.names import Dlsn
from quire.cli.foreign import print_records
from quire.cli.output import note, print_json, write_line
from quire.cli.payloads import encode_payload, payload_fields, payload_option
from quire.cli.replication import password_option
from quire.cli.settings import Settings, run, with_settings
from quire.client import Client
from quire.errors import InvalidRequestError
from quire.log.records.position import is_number

FINDERS: Final = {"txid:": find_txid, "seq:": find_sequence}
"""How a record is found by a number, by the word before it."""


@dataclass(frozen=True, slots=True)
class DlogNumber:
    """The first record with a number, or a higher one."""

    kind: str
    number: int

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        name = "transaction id" if self.kind == "txid:" else "sequence number"
        return f"{name} {self.number}"


def _place(text: str) -> Dlsn | DlogNumber:
    for kind in FINDERS:
        number = text.removeprefix(kind)
        if number != text and is_number(number):
            return DlogNumber(kind, int(number))
    try:
        return Dlsn.parse(text)
    except InvalidRequestError as error:
        raise click.BadParameter(
            f"{error}; txid:N begins at a transaction id, seq:N at a sequence number"
        ) from None


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
    help="First record to print: a DLSN; or txid:N, seq:N: that number, or the next above it.",
)
@click.option("--limit", type=click.IntRange(min=0), help="Records to print at most.")
@payload_option
@password_option
@with_settings
def cat(
    settings: Settings,
    log: str,
    start: Dlsn | DlogNumber | None,
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
    start: Dlsn | DlogNumber | None,
    limit: int | None,
    encoding: str,
    password: bytes,
) -> None:
    async with settings.connect() as client:
        if isinstance(start, DlogNumber):
            start = await _find(client, log, start, password)
            if start is None:
                return
        records = read_dlog(client, log, start=start, password=password)
        await print_records(log, records, partial(_print, settings, encoding), limit)


async def _find(client: Client, log: str, start: DlogNumber, password: bytes) -> Dlsn | None:
    found = await FINDERS[start.kind](client, log, start.number, password=password)
    if found is None:
        note(f"Log {log} has no record with {start.words} or above.")
    return found


def _print(settings: Settings, encoding: str, record: DlogRecord) -> None:
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
