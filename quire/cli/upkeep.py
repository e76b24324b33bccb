"""`quire log rebuild` and `quire log gc`: after accidents."""

from __future__ import annotations

import click

from quire import admin
from quire.cli.log_shape import summary
from quire.cli.output import Value, note, print_json
from quire.cli.replication import password_option
from quire.cli.settings import Settings, run, with_settings


@click.command(short_help="Rebuild a log's lost manifest from its ledgers.")
@click.argument("name")
@password_option
@click.option("--log-id", help="Which log, where several of this name have records.")
@with_settings
def rebuild(settings: Settings, name: str, password: bytes, log_id: str | None) -> None:
    """Rebuild the lost manifest of a log from the labels of its ledgers.

    Recovers the ledgers that are open: a leader that still lives is deposed. The labels do not hold
    trim points inside a segment and settings. If no record is left, the log is recreated as another
    log of the same name.

    \b
    Example:
      quire log rebuild orders
    """
    run(lambda: _rebuild(settings, name, password, log_id))


async def _rebuild(settings: Settings, name: str, password: bytes, log_id: str | None) -> None:
    async with settings.connect() as client:
        info = await admin.rebuild(client, name, password=password, log_id=log_id)
    if settings.json:
        fields = summary(info)
        print_json(
            {each: fields[each] for each in ("log", "segments", "records", "first_position")}
        )
    else:
        note(f"Log {name} has {len(info.segments)} segments from {info.first_position} on.")


@click.command(short_help="Delete orphans: leftovers of crashes.")
@with_settings
def gc(settings: Settings) -> None:
    """Delete orphans: ledgers, files and snapshots that a crash left and no record will ever name.

    \b
    Example:
      quire log gc
    """
    run(lambda: _gc(settings))


async def _gc(settings: Settings) -> None:
    async with settings.connect() as client:
        done = await admin.gc(client)
    if settings.json:
        shown: dict[str, Value] = {name: list(ledgers) for name, ledgers in done.kept.items()}
        print_json({"deleted": list(done.ledgers), "files": list(done.files), "kept": shown})
    else:
        also = f", and {len(done.files)} files of cold segments" if done.files else ""
        note(f"{len(done.ledgers)} ledgers{also} were orphans and are deleted.")
        for name, ledgers in sorted(done.kept.items()):
            note(
                f"Kept: ledgers {', '.join(map(str, ledgers))} hold records of a log {name} that "
                f"has no manifest. `quire log rebuild {name}` rebuilds it if it is lost."
            )
