"""`quire top`: bookies and logs in a terminal, as they are now and again every two seconds."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.live import Live

from quire.cli.durations import Duration
from quire.cli.health import ensemble_option, lost_after_option
from quire.cli.output import print_json, screen
from quire.cli.settings import Settings, run, with_settings
from quire.errors import StoreUnavailableError

if TYPE_CHECKING:
    from quire.cli.top_frame import TopOrders
    from quire.console.sampler import Sampler

PAUSE: Final = 2.0

BOOKIE_ORDERS: Final = ("disk", "domain", "name", "pace")
LOG_ORDERS: Final = ("growth", "lag", "name", "records")
"""The console's orders. Its modules are read when they are needed."""


@click.command(short_help="Show bookies and logs live in the terminal.")
@click.option("--once", is_flag=True, help="Show one frame and end.")
@click.option(
    "--every",
    type=Duration(),
    default=f"{PAUSE:g}s",
    show_default=True,
    metavar="DURATION",
    help="Pause between two looks; rates are over the last minute.",
)
@click.option(
    "--bookies",
    "bookies_by",
    type=click.Choice(BOOKIE_ORDERS),
    default="name",
    show_default=True,
    help="Order of the bookies.",
)
@click.option(
    "--logs",
    "logs_by",
    type=click.Choice(LOG_ORDERS),
    default="growth",
    show_default=True,
    help="Order of the logs.",
)
@ensemble_option
@lost_after_option
@with_settings
def top(
    settings: Settings,
    once: bool,
    every: float,
    bookies_by: str,
    logs_by: str,
    ensemble: int,
    lost_after: float,
) -> None:
    """Show bookies and logs live in the terminal, until Ctrl-C.

    A bookie has its state, its fullest disk, the entries that its journal takes a second, the time
    that 99 of 100 journal writes kept, and the records that wait for a write. A log has its leader,
    its end, the records that it takes a second, and the reader with most records before it.

    It asks each bookie and a bounded number of logs: the quickest ones, and others in turn.

    \b
    Examples:
      quire top
      quire top --logs lag --bookies pace
      quire top --once --json
    """
    from quire.cli.top_frame import TopOrders

    orders = TopOrders(bookies_by, logs_by)
    run(lambda: _top(settings, orders, once, every, ensemble, lost_after))


async def _top(
    settings: Settings,
    orders: TopOrders,
    once: bool,
    every: float,
    ensemble: int,
    lost_after: float,
) -> None:
    from quire.console.sampler import Sampler

    async with settings.connect() as client:
        sampler = Sampler(client, time.time, lost_seconds=lost_after, ensemble=ensemble)
        if once:
            await sampler.look()
            await asyncio.sleep(every)  # a rate needs two looks
            await sampler.look()
            if sampler.snapshot.facts is None:
                raise StoreUnavailableError(client.store_uri, sampler.snapshot.trouble)
            _show(settings, sampler, orders)
        elif settings.json or not sys.stdout.isatty():
            while True:
                await sampler.look()
                _show(settings, sampler, orders)
                await asyncio.sleep(every)
        else:
            await _live(sampler, orders, every)


def _show(settings: Settings, sampler: Sampler, orders: TopOrders) -> None:
    from quire.cli.top_frame import fields, frame

    if settings.json:
        print_json(fields(sampler.snapshot, orders))
    else:
        paper = screen()
        paper.print(frame(sampler.snapshot, orders, width=paper.width))
    sys.stdout.flush()


async def _live(sampler: Sampler, orders: TopOrders, every: float) -> None:
    """Redraw the screen until cancelled; then the terminal is as it was before."""
    from quire.cli.top_frame import frame

    console: Console = screen()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            await sampler.look()
            shown = frame(sampler.snapshot, orders, console.height, console.width)
            live.update(shown, refresh=True)
            await asyncio.sleep(every)
