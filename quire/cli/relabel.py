"""`quire bookie relabel`: an operator says where a bookie is, while it serves."""

from __future__ import annotations

import click

from quire.cli.metadata import opened
from quire.cli.output import Value, note, print_json
from quire.cli.settings import Settings, run, with_settings
from quire.cli.wishes import bookie_argument, dry_run_option, facts_of
from quire.errors import ConfigurationError
from quire.healing import wishes
from quire.healing.state import BookieFacts
from quire.labels import Labels
from quire.metastore.standing import Standing

SHOWN_SECONDS = 10.0
"""A bookie compares its registration with itself every two seconds."""


@click.command(short_help="Say where a bookie is, while it serves.")
@bookie_argument
@click.argument("labels", metavar="[LABELS]", required=False)
@click.option("--as-started", is_flag=True, help="Take the word of its process again.")
@dry_run_option
@with_settings
def relabel(
    settings: Settings, bookie: str, labels: str | None, as_started: bool, dry_run: bool
) -> None:
    """Say where a bookie is, as LEVEL=NAME,... of region, zone, rack and host.

    The labels hold at once, and at each later start, whatever `--labels` the process is started
    with. The host stays unless it is named. New ensembles are chosen by the new labels; copies that
    exist stay where they are, and each ledger keeps the labels of its ensembles.

    \b
    Example:
      quire bookie relabel 0f9cb98e zone=a,rack=r9
      quire bookie relabel 0f9cb98e --as-started
    """
    if as_started == (labels is not None):
        raise ConfigurationError(
            "give the labels of the bookie, as zone=a,rack=r9, or --as-started to take them back"
        )
    wanted = None if labels is None else Labels.parse(labels)
    run(lambda: _relabel(settings, bookie, wanted, dry_run))


async def _relabel(settings: Settings, given: str, labels: Labels | None, dry_run: bool) -> None:
    async with opened(settings) as store:
        facts = await facts_of(store)
        bookie = wishes.resolve(given, (each.bookie for each in facts.bookies))
        here = next(each for each in facts.bookies if each.bookie == bookie)
        decide = wishes.relabel(bookie, labels)
        standing, shown = decide(here.standing), None
        if not dry_run:
            standing = await wishes.change_standing(store, bookie, decide)
            if here.registered is not None and labels is not None:
                shown = await wishes.wait_placed(store, bookie, standing, SHOWN_SECONDS)
    _print(settings, here, standing, shown, dry_run)


def _print(
    settings: Settings, here: BookieFacts, standing: Standing, shown: Labels | None, is_dry: bool
) -> None:
    before = None if here.registered is None else str(here.registered.labels)
    wanted = None if standing.labels is None else str(standing.labels)
    if settings.json:
        fields: dict[str, Value] = {
            "bookie": here.bookie,
            "labels": wanted,
            "before": before,
            "shown": None if shown is None else str(shown),
            "dry_run": is_dry,
        }
        print_json(fields)
        return
    would = "would be" if is_dry else "is"
    where = "where its process is started to be" if wanted is None else f"at {wanted or 'no place'}"
    click.echo(f"bookie {here.bookie} {would} {where}")
    if before is not None and is_dry:
        note(f"It says now that it is at {before or 'no place'}.")
    if shown is not None:
        note(f"It says so: {shown}.")
    elif not is_dry and before is not None and wanted is not None:
        note("It does not say so yet: `quire bookie list`.")
