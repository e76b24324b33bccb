"""`quire log list`, `show` and `set`: what logs are made of, and what they are told to be."""

from __future__ import annotations

import click

from quire.cli.output import Value, print_fields, print_json, print_table
from quire.cli.settings import Settings, run, with_settings
from quire.log.manifest import LogManifest, Segment


@click.command("list")
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
        names = await client.list_logs()
        manifests = [await client.describe_log(name) for name in names]
    if settings.json:
        for manifest in manifests:
            print_json(_summary(manifest))
        return
    rows = [tuple(_summary(manifest).values()) for manifest in manifests]
    columns = ("log", "epoch", "segments", "first position", "records", "sealed")
    print_table(columns, rows, empty="No logs yet: `quire log append NAME` makes one.")


def _summary(manifest: LogManifest) -> dict[str, Value]:
    end = manifest.end_offset
    return {
        "log": manifest.name,
        "epoch": manifest.epoch,
        "segments": len(manifest.segments),
        "first_position": str(manifest.first_position),
        "records": None if end is None else end - manifest.first_offset,
        "sealed": manifest.sealed,
    }


@click.command()
@click.argument("name")
@with_settings
def show(settings: Settings, name: str) -> None:
    """Show what a log is made of.

    \b
    Example:
      quire log show orders
    """
    run(lambda: _show(settings, name))


async def _show(settings: Settings, name: str) -> None:
    async with settings.connect() as client:
        manifest = await client.describe_log(name)
    stored = dict(sorted(manifest.settings.items()))
    if settings.json:
        segments = [_segment(each) for each in manifest.segments]
        print_json({**_summary(manifest), "settings": stored, "segment_list": segments})
        return
    shown = " ".join(f"{setting}={value}" for setting, value in stored.items())
    print_fields({**_summary(manifest), "settings": shown or "none"})
    click.echo()
    rows = [tuple(_segment(segment).values()) for segment in manifest.segments]
    columns = ("segment", "ledger", "epoch", "first offset", "records", "bytes", "open")
    print_table((*columns, "file", "on bookies"), rows, empty="It has no segments.")


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


@click.command("set")
@click.argument("name")
@click.argument("assignments", metavar="SETTING=VALUE...", nargs=-1, required=True)
@with_settings
def set_(settings: Settings, name: str, assignments: tuple[str, ...]) -> None:
    """Store settings that hold for every leader of a log, also for the one that leads it now.

    Known are replication (ensemble/write quorum/ack quorum, from the next segment on), roll_bytes,
    roll_entries, roll_seconds, batch_bytes, batch_records, compression (none, zstd, lz4),
    retention_seconds, retention_bytes and retention_cursors (true: retention waits for the slowest
    cursor). Settings not named stay as they are; one without a value is taken back.

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
