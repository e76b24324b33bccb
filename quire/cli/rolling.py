"""`quire cluster roll-check`: whether the next bookie of a rolling restart may be stopped."""

from __future__ import annotations

import click

from quire.cli.health import gather
from quire.cli.inventory import doubtful_inventories
from quire.cli.output import note, print_json, print_table, progress_of
from quire.cli.settings import Settings, run, with_settings
from quire.errors import RetryError
from quire.healing.rolling import serving, thin
from quire.healing.state import LOST_SECONDS


@click.command("roll-check", short_help="Say whether the next bookie may be stopped.")
@with_settings
def roll_check(settings: Settings) -> None:
    """Say whether every entry has all its copies on bookies that are up.

    For a rolling restart: run it before each bookie. The exit code is 0 when the next bookie may be
    stopped, and 4 when ledgers are short of copies, which are named. A bookie that is away does not
    count as up. Changes nothing.

    \b
    Example:
      quire cluster roll-check
    """
    run(lambda: _roll_check(settings))


async def _roll_check(settings: Settings) -> None:
    async with settings.connect() as client:
        up = serving(await gather(client, LOST_SECONDS))
        with progress_of("Comparing ledgers") as on_progress:
            ledgers = await client.list_ledgers()
            doubtful = doubtful_inventories(client, ledgers, on_progress, up)
            looks = [thin(each, up) async for each in doubtful]
    found = [each for each in looks if each is not None]
    if settings.json:
        for each in found:
            absent = list(each.absent)
            print_json({"ledger": each.ledger.ledger, "not_up": absent, "holes": each.short})
    elif found:
        rows = [(each.ledger.ledger, str(each.ledger.state), each.why) for each in found]
        print_table(("ledger", "state", "why"), rows, empty="")
    if found:
        raise RetryError(
            f"{len(found)} of {len(ledgers)} ledgers have fewer copies than they should on bookies "
            f"that are up, first {found[0].ledger.ledger}: start the bookies that are down, or run "
            "`quire healing run`"
        )
    note(f"All {len(ledgers)} ledgers have all copies on bookies that are up.")
