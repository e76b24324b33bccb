"""`quire bookie drain`: a bookie is to leave, and its copies move to others."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import click

from quire.aio.backoff import Backoff
from quire.cli.metadata import opened
from quire.cli.output import Value, note, print_json, print_table, progress_of
from quire.cli.settings import Settings, run, with_settings
from quire.cli.wishes import (
    OBEY_SECONDS,
    anyway_option,
    bookie_argument,
    dry_run_option,
    facts_of,
    now_ms,
    operator,
    print_standing,
    read_naming,
    reason_option,
    refuse,
)
from quire.entry import BookieId
from quire.healing import naming, wishes
from quire.healing.state import BookieFacts, State
from quire.healing.verdict import ClusterFacts, duration
from quire.labels import NOWHERE, Labels
from quire.ledger.domains import Candidate
from quire.ledger.stored_records import StoredRecords
from quire.metastore.standing import Wish
from quire.metastore.store import MetadataStore
from quire.repair.departure import Departure, plan_departure

WATCH: Final = Backoff(first=1.0, last=15.0)
"""Pauses between two looks at the ledgers. They grow while nothing moves."""


@click.command(short_help="Move the copies of a bookie that is to leave.")
@bookie_argument
@reason_option
@dry_run_option
@anyway_option
@click.option("--watch", is_flag=True, help="Wait until no ledger names the bookie.")
@with_settings
def drain(
    settings: Settings, bookie: str, reason: str, dry_run: bool, anyway: bool, watch: bool
) -> None:
    """Keep new entries from a bookie that is to leave, and let its copies move to others.

    Leave the bookie running: the others read from it. It is refused when a ledger would find no
    other bookie, or none with room. The wish outlives this command: end it and watch again at any
    time. `quire healing run` moves the copies; `quire bookie forget` completes the drain.

    \b
    Examples:
      quire bookie drain 0f9cb98e --dry-run
      quire bookie drain 0f9cb98e --watch
    """
    run(lambda: _drain(settings, bookie, reason, dry_run=dry_run, anyway=anyway, watch=watch))


async def _drain(
    settings: Settings, given: str, reason: str, *, dry_run: bool, anyway: bool, watch: bool
) -> None:
    async with opened(settings) as store:
        facts = await facts_of(store)
        bookie = wishes.resolve(given, (each.bookie for each in facts.bookies))
        here = next(each for each in facts.bookies if each.bookie == bookie)
        decide = wishes.drain(bookie, now_ms(), reason, operator())
        wanted = decide(here.standing)  # refuses before the ledgers are read
        departure = await _departure(store, bookie, facts)
        if dry_run:
            ledgers = len(departure.closed) + len(departure.waiting)
            fields = {"departure": _fields(departure)}
            print_standing(settings, bookie, wanted, ledgers, obeyed=None, is_dry=True, **fields)
            if not settings.json:
                _print_departure(departure)
            refuse(bookie, str(wanted.wish), departure.obstacles, anyway=anyway)
            return
        if here.standing.wish is not Wish.DRAIN:
            refuse(bookie, str(wanted.wish), departure.obstacles, anyway=anyway)
        standing = await wishes.change_standing(store, bookie, decide)
        obeyed = None
        if here.registered is not None:
            obeyed = await wishes.wait_obeyed(store, bookie, standing.wish, OBEY_SECONDS)
        ledgers = len(departure.closed) + len(departure.waiting)
        print_standing(
            *(settings, bookie, standing, ledgers),
            obeyed=obeyed,
            departure=_fields(departure),
        )
        if watch:
            await _watch(settings, store, bookie)


async def _departure(store: MetadataStore, bookie: BookieId, facts: ClusterFacts) -> Departure:
    found = await read_naming(store, bookie)
    places = {each.bookie: each.labels for each in facts.bookies}

    def labels(name: BookieId) -> Labels:
        return places.get(name, NOWHERE)

    candidates = [_candidate(each) for each in facts.bookies if facts.state(each) is State.UP]
    return plan_departure(random.SystemRandom(), bookie, found, candidates, labels)


def _candidate(facts: BookieFacts) -> Candidate:
    """Return a bookie with the bytes that it takes until it stops taking any."""
    from quire.storage.journal.options import StorageOptions

    room = facts.registered.room if facts.registered else 0
    if not room:
        return Candidate(facts.bookie, facts.labels)
    total = sum(each.total_bytes for each in facts.disks if each.holds != "journal")
    kept = StorageOptions().high_mark(max(total, room))
    return Candidate(facts.bookie, facts.labels, max(1, room - kept))


async def _watch(settings: Settings, store: MetadataStore, bookie: BookieId) -> None:
    """Return when no ledger names a bookie. All ledgers are read at the begin and at the end; in
    between those that named it.
    """
    records = StoredRecords(store, random.SystemRandom())
    pauses = WATCH.pauses()
    left = await naming.find_naming(records, bookie)
    total = len(left)
    with progress_of(f"Draining bookie {bookie}") as on_progress:
        while left:
            on_progress(total - len(left), total)
            if settings.json:
                waiting = sum(not each.is_closed for each in left)
                print_json({"bookie": bookie, "left": len(left), "waiting": waiting})
            await asyncio.sleep(pauses.next())
            before, ledgers = len(left), [each.ledger for each in left]
            left = await naming.still_naming(records, bookie, ledgers)
            if len(left) < before:
                pauses.reset()
            if not left:
                left = await naming.find_naming(records, bookie)
                total = max(total, len(left))
    if settings.json:
        print_json({"bookie": bookie, "left": 0, "waiting": 0})
    else:
        note(f"No ledger names bookie {bookie}: stop it, then `quire bookie forget {bookie}`.")


def _fields(departure: Departure) -> Value:
    return {
        "closed": len(departure.closed),
        "waiting": departure.waiting,
        "bytes": departure.bytes,
        "seconds": round(departure.seconds, 1),
        "targets": dict(sorted(departure.targets.items())),
        "stuck": {str(ledger): why for ledger, why in sorted(departure.stuck.items())},
    }


def _print_departure(departure: Departure) -> None:
    rows = [(name, f"{size / 1e6:.1f} MB") for name, size in sorted(departure.targets.items())]
    print_table(("bookie", "would fetch about"), rows, empty="Nothing is to be copied.")
    note(
        f"{len(departure.closed)} closed ledgers, {departure.bytes / 1e6:.1f} MB, "
        f"{duration(departure.seconds)} at least."
    )
    if departure.waiting:
        note(
            f"{len(departure.waiting)} ledgers are not closed: they move after they are; first "
            f"{departure.waiting[0]}."
        )
