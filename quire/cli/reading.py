"""`quire log read`, `quire log tail` and `quire log end`: the records of a log, and its range."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

import click

from quire.cli import streams
from quire.cli.output import Value, flush, note, print_fields, print_json, write_line
from quire.cli.payloads import encode_payload, payload_fields, payload_option
from quire.cli.places import is_before, parse_place
from quire.cli.replication import key_file_option, password_option
from quire.cli.settings import Settings, run, with_settings
from quire.cli.template import Template
from quire.client import Client
from quire.errors import ConfigurationError
from quire.log.reading.reader import LogReader
from quire.log.records.attribute_json import attribute_fields
from quire.log.records.keyring import Keyring
from quire.log.records.position import LATEST, Record
from quire.places import Place

LINES: Final = 10
"""Records that `tail` shows before it waits, as the `tail` of files."""

_PLACES: Final = (
    "segment.entry.slot, an offset, txid:ID, a time (2026-07-31T09:30:00Z), beginning or latest."
)

_name = click.argument("name")
_recover = click.option(
    "--recover",
    is_flag=True,
    help="Recover the log first: see every acknowledged record. Deposes a living leader.",
)
_start = click.option(
    "--from", "start", type=parse_place, metavar="POSITION", help=f"Where to start: {_PLACES}"
)
_format = click.option(
    "--format",
    "template",
    metavar="TEMPLATE",
    help="What to print of a record: text with {position}, {offset}, {epoch}, {time}, "
    "{timestamp_ms}, {txid}, {key}, {headers}, {event_time} and {payload}, and \\t and \\n.",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records that a command prints, and how it opens the log."""

    name: str
    start: Place | None
    end: Place | None
    limit: int | None
    password: bytes
    keyring: Keyring | None


@click.command(short_help="Print the records that are in a log now.")
@_name
@_start
@click.option(
    "--to", "end", type=parse_place, metavar="POSITION", help="Stop before it: as for --from."
)
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Stop after so many records.")
@_format
@payload_option
@password_option
@key_file_option
@_recover
@with_settings
def read(
    settings: Settings,
    name: str,
    start: Place | None,
    end: Place | None,
    limit: int | None,
    template: str | None,
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
      quire log read orders --from 3.17.0 -n 10 --json
      quire log read orders --from 100 --to 200 --format '{offset}\\t{payload}'
      quire log read orders --from txid:1042
      quire log read orders --recover
      quire log read orders --from 2026-07-31T09:30:00+02:00
    """
    show = printer(settings, encoding, template)
    wanted = Wanted(name, start, end, limit, password, keyring)
    run(lambda: _read(settings, wanted, show, recover))


async def _read(
    settings: Settings, wanted: Wanted, show: Callable[[Record], None], recover: bool
) -> None:
    async with settings.connect() as client:
        info = await client.log_info(wanted.name)
        reader = await client.read_log(
            wanted.name,
            info.first_position if wanted.start is None else wanted.start,
            password=wanted.password,
            keyring=wanted.keyring,
            recover=recover,
        )
        shown = 0
        async with contextlib.aclosing(_until(reader, wanted)) as found:
            async for record in found:
                show(record)
                shown += 1
        if not shown:
            await _explain_nothing(client, wanted)
        if reader.ended_open:
            streams.complain(
                f"quire: log {wanted.name!r} is open: later records may exist; --recover reads "
                "them, and deposes a leader that still lives"
            )


async def _explain_nothing(client: Client, wanted: Wanted) -> None:
    """Say on standard error why nothing was printed."""
    end = await client.log_end(wanted.name, password=wanted.password)
    first = (await client.log_info(wanted.name)).first_position
    if first >= end.position:
        note(f"Log {wanted.name} has no record now; its next offset is {end.offset}.")
    else:
        note(
            f"Log {wanted.name} has no record in this range now: it begins at {first} "
            f"and ends before {end.position} (offset {end.offset})."
        )


async def _until(reader: LogReader, wanted: Wanted) -> AsyncGenerator[Record, None]:
    """Yield the records before the end of the range, and at most `limit`."""
    left = wanted.limit
    async for record in reader:
        if wanted.end is not None and not is_before(record, wanted.end):
            return
        yield record
        if left is not None:
            left -= 1
            if not left:
                return


@click.command(short_help="Print the last records, then new ones as they arrive.")
@_name
@_start
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    help=f"Begin with so many of the last records; without --from {LINES}.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many records.")
@_format
@payload_option
@password_option
@key_file_option
@with_settings
def tail(
    settings: Settings,
    name: str,
    start: Place | None,
    lines: int | None,
    limit: int | None,
    template: str | None,
    encoding: str,
    password: bytes,
    keyring: Keyring | None,
) -> None:
    """Print the last ten records of a log, then new ones as they arrive, until Ctrl-C.

    Never disturbs the writer. A line on standard error says when it waits.

    \b
    Examples:
      quire log tail orders
      quire log tail orders -n 0
      quire log tail orders --from beginning --json
    """
    if start is not None and lines is not None:
        raise ConfigurationError("--from and -n both say where to begin: give one of them")
    show = printer(settings, encoding, template)
    wanted = Wanted(name, start, None, limit, password, keyring)
    run(lambda: _tail(settings, wanted, LINES if lines is None else lines, show))


async def _tail(
    settings: Settings, wanted: Wanted, lines: int, show: Callable[[Record], None]
) -> None:
    async with settings.connect() as client:
        name, password, keyring = wanted.name, wanted.password, wanted.keyring
        end = await client.log_end(name, password=password)
        start = wanted.start
        if start is None and lines:
            first = await _first_offset(client, name, end.offset, password, keyring)
            start = max(first, end.offset - lines)
        elif start is None:
            start = LATEST
        reader = await client.read_log(name, start, follow=True, password=password, keyring=keyring)
        waits = f"Waiting for records of log {name}; Ctrl-C ends."
        if start in (LATEST, end.offset):
            note(waits)
        async with contextlib.aclosing(_until(reader, wanted)) as found:
            async for record in found:
                show(record)
                flush()
                if record.offset == end.offset - 1 and wanted.limit is None:
                    note(waits)


def printer(settings: Settings, encoding: str, template: str | None) -> Callable[[Record], None]:
    """Return the function that prints a record as the options ask.

    Raises `ConfigurationError` for a template that is invalid, or with --json.
    """
    if template is not None and settings.json:
        raise ConfigurationError("--format and --json both say how to print: give one of them")
    parsed = Template("{payload}" if template is None else template)

    def as_json(record: Record) -> None:
        fields: dict[str, Value] = {
            "position": str(record.position),
            "offset": record.offset,
            "epoch": record.epoch,
            "timestamp_ms": record.timestamp_ms,
            "txid": record.txid,
            **attribute_fields(record),
        }
        print_json({**fields, **payload_fields(record.payload, encoding)})

    def as_line(record: Record) -> None:
        write_line(parsed.line(record, encode_payload(record.payload, encoding)))

    return as_json if settings.json else as_line


@click.command(short_help="Print where a log begins and ends now.")
@_name
@click.option(
    "--linearizable",
    is_flag=True,
    help="Count every record acknowledged before the command.",
)
@_recover
@password_option
@key_file_option
@with_settings
def end(
    settings: Settings,
    name: str,
    linearizable: bool,
    recover: bool,
    password: bytes,
    keyring: Keyring | None,
) -> None:
    """Print the first and the next position and offset of a log, and how many records it has.

    The end is the one that the leader announced last. --linearizable counts every record that was
    acknowledged before, and fails if the writer crashed. --recover counts them after a crash, too,
    and deposes a leader that still lives. Without it the writer is never disturbed.

    \b
    Examples:
      quire log end orders
      quire log end orders --linearizable --json
      quire log end orders --recover
    """
    run(lambda: _end(settings, name, linearizable, recover, password, keyring))


async def _end(
    settings: Settings,
    name: str,
    linearizable: bool,
    recover: bool,
    password: bytes,
    keyring: Keyring | None,
) -> None:
    async with settings.connect() as client:
        if recover:
            await client.recover_log(name, password=password)
        first = (await client.log_info(name)).first_position
        found = await client.log_end(name, linearizable=linearizable, password=password)
        offset = await _first_offset(client, name, found.offset, password, keyring)
    fields: dict[str, Value] = {
        "log": name,
        "first_position": str(first),
        "first_offset": offset,
        "end_position": str(found.position),
        "end_offset": found.offset,
        "records": found.offset - offset,
    }
    if settings.json:
        print_json(fields)
    else:
        print_fields(fields)


async def _first_offset(
    client: Client, name: str, end_offset: int, password: bytes, keyring: Keyring | None
) -> int:
    """Return the offset of the first record that is left, `end_offset` without a record.

    The manifest knows the offset of the first segment only. A log that was trimmed inside that
    segment is read.
    """
    info = await client.log_info(name)
    if (info.first_position.entry, info.first_position.slot) == (0, 0):
        return info.first_offset
    reading = client.read_log(name, info.first_position, password=password, keyring=keyring)
    async with reading as reader:
        async for record in reader:
            return record.offset
    return end_offset
