"""`quire log`: write, read and manage logs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from typing import Final

import click

from quire.cli import streams
from quire.cli.cursor import cursor, parse_place
from quire.cli.log_shape import create, list_, set_, show, watch
from quire.cli.output import Value, confirm, flush, note, print_json, progress, write_line
from quire.cli.payloads import encode_payload, payload_fields, payload_option, records
from quire.cli.replication import key_file_option, password_option, replication_options
from quire.cli.settings import Settings, run, with_settings
from quire.cli.upkeep import gc, rebuild
from quire.client import Client
from quire.errors import NoSuchLogError
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.reading.reader import LogReader
from quire.log.records.batch import BATCH_BYTES_MAX
from quire.log.records.keyring import Keyring
from quire.log.records.position import LATEST, Appended, AtTxid, Position, Record
from quire.log.records.txids import check_order

RECORD_BYTES_MAX: Final = BATCH_BYTES_MAX - 4
"""The largest record that fits a batch of one, without its length field."""


def _parse_start(text: str) -> Position | int | datetime | AtTxid:
    if text.startswith("txid:") and text[5:].isdecimal():
        return AtTxid(int(text[5:]))
    if not text.isdecimal():  # digits alone are an offset, though they may be a day too
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(text)
    return parse_place(text)


_name = click.argument("name")
_start = click.option(
    "--from",
    "start",
    type=_parse_start,
    metavar="POSITION",
    help="Where to start: segment.entry.slot, an offset, txid:ID, a time "
    "(2026-07-31T09:30:00Z), beginning or latest.",
)


@click.group(short_help="Write and read logs.")
def log() -> None:
    """Write and read logs."""


for command in (cursor, create, list_, show, watch, set_, rebuild, gc):
    log.add_command(command)


@log.command(short_help="Append records; takes the log over.")
@_name
@click.argument("records_", metavar="[RECORD]...", nargs=-1)
@click.option(
    "--txid",
    type=click.IntRange(0, 2**63 - 1),
    help="Txid of the records: a number that never decreases along a log.",
)
@payload_option
@password_option
@key_file_option
@replication_options
@with_settings
def append(
    settings: Settings,
    name: str,
    records_: tuple[str, ...],
    txid: int | None,
    encoding: str,
    password: bytes,
    keyring: Keyring | None,
    replication: Replication,
) -> None:
    """Append records, given as arguments or as lines of standard input.

    Creates a log that does not exist, and takes over an existing one: a leader that is writing it
    is fenced off permanently, as soon as the first record has arrived. Prints the position of every
    record once it is durable, and with --json its offset too. Without a record, nothing is opened
    or created.

    \b
    Examples:
      quire log append orders 'buy 100' 'sell 20'
      quire log append orders 'buy 7' --txid 1042
      tail -F app.log | quire log append app
    """
    options = LogOptions(replication=replication, password=password, keyring=keyring)
    run(lambda: _append(settings, name, records_, txid, encoding, options))


async def _append(
    settings: Settings,
    name: str,
    arguments: Sequence[str],
    txid: int | None,
    encoding: str,
    options: LogOptions,
) -> None:
    async with (
        settings.connect() as client,
        contextlib.aclosing(records(arguments, encoding, RECORD_BYTES_MAX)) as batches,
    ):
        # The first record is checked before the old leader is fenced off.
        batch = await anext(batches, None)
        if batch is None:
            note("There is no record to append; nothing was opened.")
            return
        if txid is not None:
            await _check_txid(client, name, txid, options)
        opened = await client.open_log(name, options)
        with progress(f"Appending to {name}", len(arguments) or None) as advance:
            async with opened:
                while batch is not None:
                    futures = [await opened.submit(record, txid=txid) for record in batch]
                    for future in futures:
                        _print_appended(settings, await future)
                    flush()
                    advance(len(batch))
                    batch = await anext(batches, None)


async def _check_txid(client: Client, name: str, txid: int, options: LogOptions) -> None:
    """Raise `TxidOrderError` when a log has had a record of a later txid."""
    with contextlib.suppress(NoSuchLogError):
        last = await client.logs.last_txid(name, password=options.password)
        check_order(name, txid, last)


def _print_appended(settings: Settings, appended: Appended) -> None:
    if settings.json:
        print_json({"position": str(appended.position), "offset": appended.offset})
    else:
        click.echo(str(appended.position))


@log.command(short_help="Print the records that are in a log now.")
@_name
@_start
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many records.")
@payload_option
@password_option
@key_file_option
@click.option(
    "--recover",
    is_flag=True,
    help="Recover the log first: read every acknowledged record. Deposes a living leader.",
)
@with_settings
def read(
    settings: Settings,
    name: str,
    start: Position | int | datetime | AtTxid | None,
    limit: int | None,
    encoding: str,
    password: bytes,
    keyring: Keyring | None,
    recover: bool,
) -> None:
    """Print the records that are in a log now, one a line. Never disturbs the writer.

    An open log, or the log of a crashed writer, may have later records: a line on standard error
    says so. --recover prints them too, and deposes a leader that still lives.

    \b
    Examples:
      quire log read orders
      quire log read orders --from 3.17.0 --limit 10 --json
      quire log read orders --from txid:1042
      quire log read orders --recover
      quire log read orders --from 2026-07-31T09:30:00+02:00
    """
    show = _printer(settings, encoding)
    run(lambda: _read(settings, name, start, False, limit, password, keyring, show, recover))


@log.command(short_help="Print new records as they arrive.")
@_name
@_start
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many records.")
@payload_option
@password_option
@key_file_option
@with_settings
def tail(
    settings: Settings,
    name: str,
    start: Position | int | datetime | AtTxid | None,
    limit: int | None,
    encoding: str,
    password: bytes,
    keyring: Keyring | None,
) -> None:
    """Print new records as they arrive, until Ctrl-C. Never disturbs the writer.

    \b
    Examples:
      quire log tail orders
      quire log tail orders --from beginning --json
    """
    show = _printer(settings, encoding)
    where = LATEST if start is None else start
    run(lambda: _read(settings, name, where, True, limit, password, keyring, show))


async def _read(
    settings: Settings,
    name: str,
    start: Position | int | datetime | AtTxid | None,
    follow: bool,
    limit: int | None,
    password: bytes,
    keyring: Keyring | None,
    show: Callable[[Record], None],
    recover: bool = False,
) -> None:
    async with settings.connect() as client:
        position = (await client.describe_log(name)).first_position if start is None else start
        reader = await client.read_log(
            name, position, follow=follow, password=password, keyring=keyring, recover=recover
        )
        async with contextlib.aclosing(_limited(reader, limit)) as found:
            async for record in found:
                show(record)
                if follow:
                    flush()
        if reader.ended_open:
            streams.complain(
                f"quire: log {name!r} is open: later records may exist; --recover reads them, and "
                "deposes a leader that still lives"
            )


async def _limited(reader: LogReader, limit: int | None) -> AsyncGenerator[Record, None]:
    left = limit
    async for record in reader:
        yield record
        if left is not None:
            left -= 1
            if not left:
                return


def _printer(settings: Settings, encoding: str) -> Callable[[Record], None]:
    def as_json(record: Record) -> None:
        fields: dict[str, Value] = {
            "position": str(record.position),
            "offset": record.offset,
            "epoch": record.epoch,
            "timestamp_ms": record.timestamp_ms,
            "txid": record.txid,
        }
        print_json({**fields, **payload_fields(record.payload, encoding)})

    def as_line(record: Record) -> None:
        write_line(encode_payload(record.payload, encoding))

    return as_json if settings.json else as_line


@log.command(short_help="Delete the records before a position.")
@_name
@click.argument("position", type=parse_place, metavar="POSITION")
@password_option
@with_settings
def trim(settings: Settings, name: str, position: Position | int, password: bytes) -> None:
    """Delete the records before a position: segment.entry.slot, an offset, or latest for all.

    \b
    Examples:
      quire log trim orders 3.17.0
      quire log trim orders 125000
    """
    run(lambda: _trim(settings, name, position, password))


async def _trim(settings: Settings, name: str, position: Position | int, password: bytes) -> None:
    async with settings.connect() as client:
        await client.trim_log(name, position, password=password)
        first = str((await client.describe_log(name)).first_position)
    if settings.json:
        print_json({"log": name, "first_position": first})
    else:
        note(f"Log {name} now begins at {first}.")


@log.command(short_help="Delete a log with everything in it.")
@_name
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--forget-tier", multiple=True, metavar="URI", help="Leave the files there.")
@password_option
@with_settings
def delete(
    settings: Settings, name: str, yes: bool, forget_tier: tuple[str, ...], password: bytes
) -> None:
    """Delete a log with everything in it.

    A location of offloaded segments that does not answer stops the deletion before anything is
    deleted. --forget-tier leaves the files of that location where they are.

    \b
    Example:
      quire log delete orders --yes
    """
    if not yes:
        confirm(f"Delete log {name} with all its records?")
    run(lambda: _delete(settings, name, forget_tier, password))


async def _delete(
    settings: Settings, name: str, forget_tiers: tuple[str, ...], password: bytes
) -> None:
    async with settings.connect() as client:
        await client.delete_log(name, password=password, forget_tiers=forget_tiers)
    note(f"Log {name} is deleted.")
