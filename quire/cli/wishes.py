"""`quire bookie away`, `back`, `recommission` and `forget`: an operator's wishes.

`drain` is in drain.py, and shares the public names here.
"""

from __future__ import annotations

import getpass
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import click

from quire.cli.durations import Duration
from quire.cli.metadata import opened
from quire.cli.output import Value, note, print_json, progress
from quire.cli.settings import Settings, run, with_settings
from quire.entry import BookieId
from quire.errors import ConfigurationError, WishRefusedError
from quire.healing import naming, wishes
from quire.healing.facts import gather_facts
from quire.healing.verdict import ClusterFacts, duration
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.stored_records import StoredRecords
from quire.metastore.standing import Standing, Wish
from quire.metastore.store import MetadataStore

OBEY_SECONDS: Final = 10.0
"""A bookie that is up obeys in a moment, and at the latest when it looks by itself."""

LONG_SECONDS: Final = 24 * 3600.0
"""An away that is longer needs --yes: copies are missing meanwhile."""

Check = Callable[[BookieId, ClusterFacts, Sequence[LedgerMetadata]], list[str]]

bookie_argument = click.argument("bookie", metavar="BOOKIE")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would happen.")
anyway_option = click.option("--anyway", is_flag=True, help="Do it in spite of the obstacles.")
reason_option = click.option(
    "--reason", default="", metavar="TEXT", help="Shown as long as it holds."
)


@click.command(short_help="Keep new entries from a bookie for a while.")
@bookie_argument
@click.option(
    "--for",
    "seconds",
    type=Duration(),
    required=True,
    metavar="DURATION",
    help="When it ends by itself: 30m, 1h.",
)
@reason_option
@click.option("--yes", is_flag=True, help="Allow more than 24 hours.")
@dry_run_option
@anyway_option
@with_settings
def away(
    settings: Settings,
    bookie: str,
    seconds: float,
    reason: str,
    yes: bool,
    dry_run: bool,
    anyway: bool,
) -> None:
    """Keep new entries from a bookie for a while, so that it can be stopped.

    Its writers take other bookies within five seconds. Reads and recoveries go on until you stop
    it. It is refused while a bookie on another host is missing, or when a ledger could not be
    written or read without this bookie. A bookie is named by its id or the first digits of it.

    \b
    Example:
      quire bookie away 0f9cb98e --for 1h --reason 'new fan'
    """
    if seconds <= 0:
        raise ConfigurationError(f"an away of {seconds:g} s ends at once: give more, as --for 30m")
    if seconds > LONG_SECONDS and not yes:
        raise ConfigurationError(
            f"an away of {duration(seconds)} leaves copies missing for long: pass --yes, or use "
            "`quire bookie drain`"
        )
    now = now_ms()

    def decide(name: BookieId) -> wishes.Decide:
        return wishes.away(name, now, seconds, reason, operator())

    run(
        lambda: _wish(
            settings, bookie, decide, naming.obstacles_to_away, dry_run=dry_run, anyway=anyway
        )
    )


@click.command(short_help="End the away of a bookie.")
@bookie_argument
@dry_run_option
@with_settings
def back(settings: Settings, bookie: str, dry_run: bool) -> None:
    """End the away of a bookie: it takes new entries again.

    \b
    Example:
      quire bookie back 0f9cb98e
    """
    _serve_again(settings, bookie, Wish.AWAY, dry_run=dry_run)


@click.command(short_help="End the drain of a bookie.")
@bookie_argument
@dry_run_option
@with_settings
def recommission(settings: Settings, bookie: str, dry_run: bool) -> None:
    """End the drain of a bookie: it takes new entries again.

    \b
    Example:
      quire bookie recommission 0f9cb98e
    """
    _serve_again(settings, bookie, Wish.DRAIN, dry_run=dry_run)


@click.command(short_help="Give up the identity of a bookie that holds nothing.")
@bookie_argument
@reason_option
@dry_run_option
@with_settings
def forget(settings: Settings, bookie: str, reason: str, dry_run: bool) -> None:
    """Give up the identity of a stopped bookie that no ledger names.

    Its directory can never be served again. It is refused while a ledger names the bookie, because
    the bookie may hold the last copy of an entry.

    \b
    Example:
      quire bookie forget 0f9cb98e --reason 'disk lost'
    """
    run(lambda: _forget(settings, bookie, reason, dry_run))


def _serve_again(settings: Settings, bookie: str, ended: Wish, *, dry_run: bool) -> None:
    """End one wish, away or drain. A bookie under the other wish refuses."""
    now = now_ms()
    run(
        lambda: _wish(
            *(settings, bookie, lambda name: wishes.serve(name, ended, now, operator())),
            dry_run=dry_run,
        )
    )


async def _wish(
    settings: Settings,
    given: str,
    decide: Callable[[BookieId], wishes.Decide],
    check: Check | None = None,
    *,
    dry_run: bool = False,
    anyway: bool = False,
) -> None:
    async with opened(settings) as store:
        facts = await facts_of(store)
        bookie = wishes.resolve(given, (each.bookie for each in facts.bookies))
        here = next(each for each in facts.bookies if each.bookie == bookie)
        wanted = decide(bookie)(here.standing)  # refuses before the ledgers are read
        ledgers = None
        if check is not None:
            ledgers = await _check(store, bookie, str(wanted.wish), facts, check, anyway=anyway)
        if dry_run:
            print_standing(settings, bookie, wanted, ledgers, obeyed=None, is_dry=True)
            return
        standing = await wishes.change_standing(store, bookie, decide(bookie))
        obeyed = None
        if here.registered is not None:
            obeyed = await wishes.wait_obeyed(store, bookie, standing.wish, OBEY_SECONDS)
    print_standing(settings, bookie, standing, ledgers, obeyed=obeyed)


async def _forget(settings: Settings, given: str, reason: str, dry_run: bool) -> None:
    async with opened(settings) as store:
        facts = await facts_of(store)
        bookie = wishes.resolve(given, (each.bookie for each in facts.bookies))
        check = naming.obstacles_to_forget
        ledgers = await _check(store, bookie, "gone", facts, check, anyway=False)
        standing = Standing(Wish.GONE, reason, operator(), now_ms())
        if not dry_run:
            standing = await wishes.forget(
                store, bookie, standing.since_ms, standing.reason, standing.by
            )
    print_standing(settings, bookie, standing, ledgers, obeyed=None, is_dry=dry_run)


async def facts_of(store: MetadataStore) -> ClusterFacts:
    """Return the facts of all bookies, as the store has them."""
    return ClusterFacts(await gather_facts(store), now_ms())


async def _check(
    store: MetadataStore,
    bookie: BookieId,
    wish: str,
    facts: ClusterFacts,
    check: Check,
    *,
    anyway: bool,
) -> int:
    """Return how many ledgers name a bookie. Raises `WishRefusedError` for an obstacle."""
    found = await read_naming(store, bookie)
    refuse(bookie, wish, check(bookie, facts, found), anyway=anyway)
    return len(found)


async def read_naming(store: MetadataStore, bookie: BookieId) -> list[LedgerMetadata]:
    """Return the metadata of the ledgers that name a bookie, and show the progress."""
    records = StoredRecords(store, random.SystemRandom())
    with progress(f"Reading which ledgers name bookie {bookie}") as advance:
        seen = 0

        def on_progress(done: int) -> None:
            nonlocal seen
            advance(done - seen)
            seen = done

        return await naming.find_naming(records, bookie, on_progress)


def refuse(bookie: BookieId, wish: str, obstacles: Sequence[str], *, anyway: bool) -> None:
    """Raise `WishRefusedError` for an obstacle, or only print it when it is done anyway."""
    if obstacles and not anyway:
        raise WishRefusedError(bookie, wish, list(obstacles))
    for each in obstacles:
        note(f"In spite of: {each}")


def print_standing(
    settings: Settings,
    bookie: BookieId,
    standing: Standing,
    ledgers: int | None,
    *,
    obeyed: bool | None,
    is_dry: bool = False,
    **more: Value,
) -> None:
    """Print the wish that a bookie has, or would have; `more` fields are for programs."""
    if settings.json:
        fields: dict[str, Value] = {
            "bookie": bookie,
            "wish": str(standing.wish),
            "reason": standing.reason,
            "by": standing.by,
            "since_ms": standing.since_ms,
            "until_ms": standing.until_ms,
            "ledgers": ledgers,
            "obeyed": obeyed,
            "dry_run": is_dry,
            **more,
        }
        print_json(fields)
        return
    would = "would be set to" if is_dry else "is set to"
    until = ""
    if standing.until_ms is not None:
        end = datetime.fromtimestamp(standing.until_ms / 1000, UTC)
        until = f" until {end:%Y-%m-%d %H:%M:%S} UTC"
    click.echo(f"bookie {bookie} {would} {standing.wish}{until}")
    if ledgers is not None:
        note(f"{ledgers} ledgers name it.")
    if obeyed is not None:
        note(
            "It obeys."
            if obeyed
            else "It does not say yet that it obeys: `quire bookie list --all`."
        )


def now_ms() -> int:
    """Return the time of this machine, as standings have it."""
    return round(time.time() * 1000)


def operator() -> str:
    """Return the user and the host of this command."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
