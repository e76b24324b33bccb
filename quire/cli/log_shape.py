"""`quire log create`, `list`, `show`, `watch`, `set`: segments and settings of logs."""

from __future__ import annotations

from contextlib import suppress

import click

from quire.cli.output import Value, cell, flush, note, print_fields, print_json, print_table
from quire.cli.settings import Settings, run, with_settings
from quire.errors import NoSuchLogError
from quire.log.manifest.capacity import manifest_bytes, warning
from quire.log.manifest.manifest import LogManifest, Segment


@click.command(short_help="Create an empty log, with settings.")
@click.argument("name")
@click.argument("assignments", metavar="[SETTING=VALUE]...", nargs=-1)
@with_settings
def create(settings: Settings, name: str, assignments: tuple[str, ...]) -> None:
    """Create an empty log, with settings (see `quire log set`) that hold from the beginning.

    `quire log append` creates a missing log by itself: use `create` for settings, or for readers
    that start before the first append.

    \b
    Example:
      quire log create orders replication=5/4/3 retention_seconds=604800
    """
    parsed = dict(_assignment(each) for each in assignments)
    run(lambda: _create(settings, name, parsed))


async def _create(settings: Settings, name: str, values: dict[str, str]) -> None:
    async with settings.connect() as client:
        manifest = await client.logs.create(name, values)
    if settings.json:
        print_json(_shape(manifest))
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
        manifests: list[LogManifest] = []
        for name in await client.list_logs():
            with suppress(NoSuchLogError):  # deleted meanwhile
                manifests.append(await client.describe_log(name))
    if settings.json:
        for manifest in manifests:
            print_json(summary(manifest))
        return
    rows = [tuple(summary(manifest).values()) for manifest in manifests]
    columns = ("log", "epoch", "segments", "first position", "records", "sealed")
    print_table(columns, rows, empty="No logs yet: `quire log append NAME` makes one.")


def summary(manifest: LogManifest) -> dict[str, Value]:
    """Return a log's fields in a list of logs; `records` counts untrimmed ones, None if unknown."""
    end = manifest.end_offset
    return {
        "log": manifest.name,
        "epoch": manifest.epoch,
        "segments": len(manifest.segments),
        "first_position": str(manifest.first_position),
        "records": None if end is None else end - manifest.first_offset,
        "sealed": manifest.sealed,
    }


@click.command(short_help="Show a log's settings, segments and ledgers.")
@click.argument("name")
@with_settings
def show(settings: Settings, name: str) -> None:
    """Show a log's settings, segments and ledgers.

    \b
    Example:
      quire log show orders
    """
    run(lambda: _show(settings, name))


async def _show(settings: Settings, name: str) -> None:
    async with settings.connect() as client:
        manifest = await client.describe_log(name)
    if settings.json:
        print_json(_shape(manifest))
        return
    size = manifest_bytes(manifest)
    print_fields({**summary(manifest), "manifest_bytes": size, "settings": _stored(manifest)})
    said = warning(manifest)
    if said is not None:
        click.echo(f"warning: {said}", err=True)
    click.echo()
    rows = [tuple(_segment(segment).values()) for segment in manifest.segments]
    columns = ("segment", "ledger", "epoch", "first offset", "records", "bytes", "open")
    print_table((*columns, "file", "on bookies"), rows, empty="It has no segments.")


def _shape(manifest: LogManifest) -> dict[str, Value]:
    segments: list[Value] = [_segment(each) for each in manifest.segments]
    stored: dict[str, Value] = dict(sorted(manifest.settings.items()))
    sized: dict[str, Value] = {
        "manifest_bytes": manifest_bytes(manifest),
        "warning": warning(manifest),
        "settings": stored,
    }
    return {**summary(manifest), **sized, "segment_list": segments}


def _stored(manifest: LogManifest) -> str:
    stored = sorted(manifest.settings.items())
    return " ".join(f"{setting}={value}" for setting, value in stored) or "none"


def _segment(segment: Segment) -> dict[str, Value]:
    return {
        "segment": segment.number,
        "ledger": segment.ledger,
        "epoch": segment.epoch,
        "first_offset": segment.first_offset,
        "records": segment.records,
        "bytes": segment.bytes,
        "open": segment.end is None,
        "file": segment.cold.uri if segment.cold else None,
        "on_bookies": segment.is_hot,
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
        async for names in client.logs.watch():
            if settings.json:
                print_json({"logs": list(names)})
            else:
                click.echo(" ".join(map(cell, names)) or "no logs")
            flush()


async def _watch_log(settings: Settings, name: str) -> None:
    async with settings.connect() as client:
        async for manifest in client.logs.watch_log(name):
            if settings.json:
                print_json(_shape(manifest))
            else:
                shown = {**summary(manifest), "settings": _stored(manifest)}
                del shown["log"]
                pairs = (f"{what} {cell(value)}" for what, value in shown.items())
                click.echo(f"{cell(name)}: " + ", ".join(pairs))
            flush()
    note(f"Log {name} is deleted.")


@click.command("set", short_help="Store settings that hold for every leader of a log.")
@click.argument("name")
@click.argument("assignments", metavar="SETTING=VALUE...", nargs=-1, required=True)
@with_settings
def set_(settings: Settings, name: str, assignments: tuple[str, ...]) -> None:
    """Store settings that hold for every leader of a log, the present leader included.

    Settings: replication (ensemble/write quorum/ack quorum, from the next segment on), roll_bytes,
    roll_entries, roll_seconds, batch_bytes, batch_records, compression (none, zstd, lz4),
    retention_seconds, retention_bytes, retention_cursors (true: retention waits for the slowest
    cursor), producers_max, producers_seconds, jobs_max and jobs_seconds. Other settings stay as
    they are; a setting without a value is removed.

    \b
    Examples:
      quire log set orders retention_seconds=604800 compression=zstd
      quire log set orders replication=5/4/3 compression=
    """
    parsed = dict(_assignment(each) for each in assignments)
    run(lambda: _set(settings, name, parsed))


def _assignment(text: str) -> tuple[str, str]:
    setting, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not SETTING=VALUE")
    return setting, value


async def _set(settings: Settings, name: str, values: dict[str, str]) -> None:
    async with settings.connect() as client:
        manifest = await client.configure_log(name, values)
    if settings.json:
        print_json({"log": name, "settings": dict(manifest.settings)})
    else:
        print_fields(dict(manifest.settings))
