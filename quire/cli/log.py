"""`quire log`: write, read and manage logs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import click

from quire.cli.attributes import KeyOptions, attribute_options, given_attributes
from quire.cli.copying import copy
from quire.cli.cursor import cursor
from quire.cli.log_shape import create, list_, set_, show, watch
from quire.cli.output import confirm, flush, note, print_json, progress
from quire.cli.payloads import payload_option, records
from quire.cli.places import parse_offset
from quire.cli.reading import end, read, tail
from quire.cli.replication import key_file_option, password_option, replication_options
from quire.cli.settings import Settings, run, with_settings
from quire.cli.table import table
from quire.cli.upkeep import gc, jobs, rebuild
from quire.client import Client
from quire.errors import NoSuchLogError
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import BATCH_BYTES_MAX
from quire.log.records.keyring import Keyring
from quire.log.records.position import Appended, Position
from quire.log.records.txids import check_order

RECORD_BYTES_MAX: Final = BATCH_BYTES_MAX - 4
"""The largest record that fits a batch of one, without its length field."""


_name = click.argument("name")


@click.group(short_help="Write and read logs.")
def log() -> None:
    """Write and read logs."""


_READ = (read, tail, end, copy, table)
_SHAPE = (cursor, create, list_, show, watch, set_)
for command in (*_READ, *_SHAPE, jobs, rebuild, gc):
    log.add_command(command)


@log.command(short_help="Append records; takes the log over.")
@_name
@click.argument("records_", metavar="[RECORD]...", nargs=-1)
@click.option(
    "--txid",
    type=click.IntRange(0, 2**63 - 1),
    help="Txid of the records: a number that never decreases along a log.",
)
@attribute_options
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
    key: str | None,
    separator: str | None,
    headers: tuple[str, ...],
    event_time: str | None,
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
      quire log append prices 17.20 --key ACME --header source=exchange
      tail -F app.log | quire log append app
    """
    options = LogOptions(replication=replication, password=password, keyring=keyring)
    attributes = given_attributes(key, separator, headers, event_time)
    run(lambda: _append(settings, name, records_, txid, attributes, encoding, options))


async def _append(
    settings: Settings,
    name: str,
    arguments: Sequence[str],
    txid: int | None,
    attributes: KeyOptions,
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
        attributes.attach(batch)
        if txid is not None:
            await _check_txid(client, name, txid, options)
        opened = await client.open_log(name, options)
        with progress(f"Appending to {name}", len(arguments) or None) as advance:
            async with opened:
                while batch is not None:
                    given = attributes.attach(batch)
                    futures = [await opened.submit(record, txid=txid) for record in given]
                    for future in futures:
                        _print_appended(settings, await future)
                    flush()
                    advance(len(batch))
                    batch = await anext(batches, None)


async def _check_txid(client: Client, name: str, txid: int, options: LogOptions) -> None:
    """Raise `TxidOrderError` when a log has had a record of a later txid."""
    with contextlib.suppress(NoSuchLogError):
        last = await client.last_txid(name, password=options.password)
        check_order(name, txid, last)


def _print_appended(settings: Settings, appended: Appended) -> None:
    if settings.json:
        print_json({"position": str(appended.position), "offset": appended.offset})
    else:
        click.echo(str(appended.position))


@log.command(short_help="Delete the records before a position.")
@_name
@click.argument("position", type=parse_offset, metavar="POSITION")
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
        first = str((await client.log_info(name)).first_position)
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
