"""`quire log cursor`: the positions of a log's consumers."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import click

from quire.cli.output import Value, note, print_json, print_table
from quire.cli.places import parse_offset
from quire.cli.replication import password_option
from quire.cli.settings import Settings, run, with_settings
from quire.errors import NoSuchCursorError
from quire.log.maintenance.cursor import Cursor
from quire.log.records.position import Position

_log = click.argument("log_name", metavar="LOG")
_cursor = click.argument("name", metavar="CURSOR")
_to = partial(
    click.option,
    "--to",
    "position",
    type=parse_offset,
    metavar="POSITION",
    help="Where: segment.entry.slot, an offset, beginning or latest.",
)


@click.group(short_help="Named places in a log, kept for its consumers.")
def cursor() -> None:
    """Named places in a log, kept for its consumers."""


@cursor.command("list", short_help="List a log's cursors and their lag.")
@_log
@password_option
@with_settings
def list_(settings: Settings, log_name: str, password: bytes) -> None:
    """List a log's cursors, with the position and the lag of each in records.

    \b
    Example:
      quire log cursor list orders
    """
    run(lambda: _list(settings, log_name, password))


async def _list(settings: Settings, log_name: str, password: bytes) -> None:
    async with settings.connect() as client:
        cursors = client.log_cursors(log_name, password=password)
        rows: list[dict[str, Value]] = []
        for state in await cursors.list():
            with suppress(NoSuchCursorError):  # deleted meanwhile
                rows.append(await _fields(await cursors.find(state.name)))
    if settings.json:
        for row in rows:
            print_json(row)
        return
    columns = ("cursor", "position", "lag")
    print_table(columns, [tuple(row.values()) for row in rows], empty="It has no cursors.")


async def _fields(found: Cursor) -> dict[str, Value]:
    return {"cursor": found.name, "position": str(found.position), "lag": await found.lag()}


@cursor.command(short_help="Create a cursor, or move it forward.")
@_log
@_cursor
@_to(default="beginning", show_default=True)
@password_option
@with_settings
def advance(
    settings: Settings, log_name: str, name: str, position: Position | int, password: bytes
) -> None:
    """Create a cursor, or move it forward. To move it back: `quire log cursor reset`.

    \b
    Example:
      quire log cursor advance orders billing --to 3.17.0
    """
    run(lambda: _advance(settings, log_name, name, position, password))


async def _advance(
    settings: Settings, log_name: str, name: str, position: Position | int, password: bytes
) -> None:
    async with settings.connect() as client:
        found = await client.log_cursors(log_name, password=password).open(name, position)
        await found.advance(position)
    _tell(settings, log_name, found)


@cursor.command(short_help="Put a cursor at any place, also back.")
@_log
@_cursor
@_to(required=True)
@password_option
@with_settings
def reset(
    settings: Settings, log_name: str, name: str, position: Position | int, password: bytes
) -> None:
    """Put a cursor at any place, also back: its consumer reads from there on.

    A consumer that runs goes on where it is, and may move the cursor forward again: stop it first.

    \b
    Example:
      quire log cursor reset orders billing --to 1700
    """
    run(lambda: _reset(settings, log_name, name, position, password))


async def _reset(
    settings: Settings, log_name: str, name: str, position: Position | int, password: bytes
) -> None:
    async with settings.connect() as client:
        found = await client.log_cursors(log_name, password=password).reset(name, position)
    _tell(settings, log_name, found)


def _tell(settings: Settings, log_name: str, found: Cursor) -> None:
    if settings.json:
        print_json({"cursor": found.name, "position": str(found.position)})
    else:
        note(f"Cursor {found.name} of log {log_name} is at {found.position}.")


@cursor.command(short_help="Delete a cursor.")
@_log
@_cursor
@with_settings
def delete(settings: Settings, log_name: str, name: str) -> None:
    """Delete a cursor.

    \b
    Example:
      quire log cursor delete orders billing
    """
    run(lambda: _delete(settings, log_name, name))


async def _delete(settings: Settings, log_name: str, name: str) -> None:
    async with settings.connect() as client:
        await client.log_cursors(log_name).delete(name)
    note(f"Cursor {name} of log {log_name} is deleted.")
