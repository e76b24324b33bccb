"""`quire log create`, `list`, `show`, `watch`, `set`: segments and options of logs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict

import click

from quire.cli.output import Value, cell, flush, note, print_fields, print_json, print_table
from quire.cli.settings import Settings, run, with_settings
from quire.console import words
from quire.errors import NoSuchLogError
from quire.log.manifest.info import LogInfo, LogLeader, SegmentInfo


@click.command(short_help="Create an empty log, with options.")
@click.argument("name")
@click.argument("assignments", metavar="[OPTION=VALUE]...", nargs=-1)
@with_settings
def create(settings: Settings, name: str, assignments: tuple[str, ...]) -> None:
    """Create an empty log, with options (see `quire log set`) that hold from the beginning.

    `quire log append` creates a missing log by itself: use `create` for options, or for readers
    that start before the first append.

    \b
    Example:
      quire log create orders replication=5/4/3 retention_seconds=7d
      quire log create accounts read_needs_password=true
    """
    parsed = dict(_assignment(each) for each in assignments)
    run(lambda: _create(settings, name, parsed))


async def _create(settings: Settings, name: str, values: dict[str, str]) -> None:
    async with settings.connect() as client:
        info = await client.create_log(name, values)
    if settings.json:
        print_json(_shape(info))
    else:
        note(f"Log {name} is created.")


@click.command("list", short_help="List the logs.")
@with_settings
def list_(settings: Settings) -> None:
    """List the logs.

    \b
    Example:
      quire log list
    """
    run(lambda: _list(settings))


async def _list(settings: Settings) -> None:
    async with settings.connect() as client:
        infos: list[LogInfo] = []
        for name in await client.list_logs():
            with suppress(NoSuchLogError):  # deleted meanwhile
                infos.append(await client.log_info(name))
    if settings.json:
        for info in infos:
            print_json(summary(info))
        return
    rows = [tuple(summary(info).values()) for info in infos]
    columns = ("log", "epoch", "segments", "first position", "records", "sealed")
    print_table(columns, rows, empty="No logs yet: `quire log append NAME` makes one.")


def summary(info: LogInfo) -> dict[str, Value]:
    """Return a log's fields in a list of logs; `records` counts untrimmed ones, None if unknown."""
    return {
        "log": info.name,
        "epoch": info.epoch,
        "segments": len(info.segments),
        "first_position": str(info.first_position),
        "records": info.records,
        "sealed": info.is_sealed,
    }


@click.command(short_help="Show a log's options, segments and ledgers.")
@click.argument("name")
@with_settings
def show(settings: Settings, name: str) -> None:
    """Show a log's options, segments and ledgers.

    \b
    Example:
      quire log show orders
    """
    run(lambda: _show(settings, name))


async def _show(settings: Settings, name: str) -> None:
    async with settings.connect() as client:
        info = await client.log_info(name)
    if settings.json:
        print_json(_shape(info))
        return
    size = info.record_bytes
    shown = {**summary(info), "leader": leader_text(info.leader), "manifest_bytes": size}
    print_fields({**shown, "options": _stored(info)})
    said = info.warning
    if said is not None:
        click.echo(f"warning: {said}", err=True)
    click.echo()
    rows = [tuple(_segment(segment).values()) for segment in info.segments]
    columns = ("segment", "ledger", "epoch", "first offset", "records", "bytes", "open")
    print_table((*columns, "file", "on bookies"), rows, empty="It has no segments.")


def leader_text(leader: LogLeader | None) -> str | None:
    """Return the process that took a log over last, in words."""
    if leader is None:
        return None
    since = words.moment(leader.since_ms)
    return f"host {leader.host}, process {leader.pid}, since {since} UTC"


def leader_fields(leader: LogLeader | None) -> Value:
    """Return the same for programs."""
    return None if leader is None else asdict(leader)


def _shape(info: LogInfo) -> dict[str, Value]:
    segments: list[Value] = [_segment(each) for each in info.segments]
    stored: dict[str, Value] = dict(sorted(info.options.items()))
    sized: dict[str, Value] = {
        "manifest_bytes": info.record_bytes,
        "warning": info.warning,
        "leader": leader_fields(info.leader),
        "options": stored,
    }
    return {**summary(info), **sized, "segment_list": segments}


def _stored(info: LogInfo) -> str:
    stored = sorted(info.options.items())
    return " ".join(f"{option}={value}" for option, value in stored) or "none"


def _segment(segment: SegmentInfo) -> dict[str, Value]:
    return {
        "segment": segment.number,
        "ledger": segment.ledger,
        "epoch": segment.epoch,
        "first_offset": segment.first_offset,
        "records": segment.records,
        "bytes": segment.bytes,
        "open": segment.is_open,
        "file": segment.file,
        "on_bookies": segment.is_on_bookies,
    }


@click.command(short_help="Print the names of all logs, or one log, at every change.")
@click.argument("name", required=False)
@with_settings
def watch(settings: Settings, name: str | None) -> None:
    """Print the names of all logs, now and at every change, until Ctrl-C.

    With a name: print that log's fields in a line, now and at every change, until it is deleted.

    \b
    Examples:
      quire log watch
      quire log watch orders
    """
    run(lambda: _watch(settings) if name is None else _watch_log(settings, name))


async def _watch(settings: Settings) -> None:
    async with settings.connect() as client:
        async for names in client.watch_logs():
            if settings.json:
                print_json({"logs": list(names)})
            else:
                click.echo(" ".join(map(cell, names)) or "no logs")
            flush()


async def _watch_log(settings: Settings, name: str) -> None:
    async with settings.connect() as client:
        async for info in client.watch_log(name):
            if settings.json:
                print_json(_shape(info))
            else:
                shown = {**summary(info), "options": _stored(info)}
                del shown["log"]
                pairs = (f"{what} {cell(value)}" for what, value in shown.items())
                click.echo(f"{cell(name)}: " + ", ".join(pairs))
            flush()
    note(f"Log {name} is deleted.")


@click.command("set", short_help="Store options that hold for every leader of a log.")
@click.argument("name")
@click.argument("assignments", metavar="OPTION=VALUE...", nargs=-1, required=True)
@with_settings
def set_(settings: Settings, name: str, assignments: tuple[str, ...]) -> None:
    """Store options that hold for every leader of a log, the present leader included.

    Options: replication (ensemble/write quorum/ack quorum, from the next segment on), placement
    (from the next segment on), roll_bytes, roll_entries, roll_seconds, batch_bytes,
    batch_records, compression (none, zstd, lz4), retention_seconds, retention_bytes,
    retention_cursors (true: retention waits for the slowest cursor), producers_max,
    producers_seconds, jobs_max, jobs_seconds, read_needs_password (true: from the next segment
    on, bookies give entries only to peers that know the password; needs TLS). Durations and
    sizes take units: 7d, 64MiB.
    Other options stay as they are; an option without a value is removed.

    \b
    Examples:
      quire log set orders retention_seconds=7d roll_bytes=64MiB compression=zstd
      quire log set orders replication=5/4/3 compression=
    """
    parsed = dict(_assignment(each) for each in assignments)
    run(lambda: _set(settings, name, parsed))


def _assignment(text: str) -> tuple[str, str]:
    option, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not OPTION=VALUE")
    return option, value


async def _set(settings: Settings, name: str, values: dict[str, str]) -> None:
    async with settings.connect() as client:
        info = await client.configure_log(name, values)
    if settings.json:
        print_json({"log": name, "options": dict(info.options)})
    else:
        print_fields(dict(info.options))
