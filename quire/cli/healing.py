"""`quire healing`: make lost and short copies of closed ledgers again."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence

import click

from quire.cli.durations import Duration
from quire.cli.healing_switch import go, pause, resume, status
from quire.cli.metadata import opened
from quire.cli.output import Value, note, print_json, print_table, progress_of
from quire.cli.settings import Settings, run, with_settings
from quire.cli.wishes import dry_run_option
from quire.entry import BookieId
from quire.errors import CorruptRecordError, IntegrityError, NoSuchLedgerError, RetryError
from quire.healing.facts import gather_facts
from quire.healing.reasons import AskedFor, asked_for
from quire.healing.wishes import resolve
from quire.ledger.stored_records import StoredRecords
from quire.metastore.store import MetadataStore
from quire.repair.assignments import Assignment
from quire.repair.healing import Healing, Progressed, open_healing
from quire.repair.plan import Plan


@click.group(short_help="Make lost and short copies of ledgers again.")
def healing() -> None:
    """Make lost and short copies of closed ledgers again.

    An auditor does so by itself: `status` prints its findings, `pause` holds it. Bookies fetch the
    copies from each other. Passwords of ledgers are not needed.
    """


for _command in (status, pause, resume, go):
    healing.add_command(_command)


@contextlib.asynccontextmanager
async def _reached(settings: Settings) -> AsyncIterator[tuple[MetadataStore, Healing]]:
    async with opened(settings) as store, open_healing(store, settings.link()) as found:
        yield store, found


@healing.command("run", short_help="Ask bookies for missing copies, and wait for them.")
@click.option(
    "--lost",
    multiple=True,
    metavar="BOOKIE",
    help="A bookie that will not come back, or the first digits of its id; its places go to "
    "others. Repeatable.",
)
@click.option(
    "--holes/--no-holes",
    default=True,
    show_default=True,
    help="Compare all closed ledgers with the lists of the bookies, and fetch missing entries.",
)
@click.option("--dry-run", is_flag=True, help="Print the copies to be made, and change nothing.")
@click.option(
    "--patience",
    type=Duration(least=1.0),
    default="2m",
    show_default=True,
    metavar="DURATION",
    help="Leave a bookie to it when it finishes none of its ledgers for so long.",
)
@with_settings
def run_(
    settings: Settings, lost: tuple[str, ...], holes: bool, dry_run: bool, patience: float
) -> None:
    """Ask bookies for the missing copies of closed ledgers, and wait until they have made them.
    The copies of a bookie that is drained move to others.

    May be interrupted and started again: requests stay, and none is made twice. The exit code is 4
    if copies are still to be made, and 9 if entries are on no bookie that answered, or the record
    of a ledger is damaged.

    Open ledgers are left alone: their writer replaces a lost bookie by itself, and the next leader
    of a log ends the ledger of a writer that died.

    \b
    Examples:
      quire healing run --lost 5f1c0b7e --dry-run
      quire healing run
    """
    run(lambda: _run(settings, lost, finds_holes=holes, dry_run=dry_run, patience=patience))


async def _run(
    settings: Settings, lost: tuple[str, ...], *, finds_holes: bool, dry_run: bool, patience: float
) -> None:
    async with _reached(settings) as (store, reached):
        names = [each.bookie for each in await gather_facts(store)] if lost else []
        resolved = [resolve(each, names) for each in lost]
        with progress_of("Comparing ledgers") as on_progress:
            plan = await reached.plan(resolved, finds_holes=finds_holes, on_progress=on_progress)
        if dry_run:
            _print_orders(settings, await _explained(store, plan.wanted))
            progressed = Progressed()
        else:
            with progress_of("Copying ledgers") as on_progress:
                progressed = await reached.carry_out(
                    plan, patience=patience, on_progress=on_progress
                )
    _print_result(settings, plan, progressed, dry_run=dry_run)
    _check_result(plan, progressed)


def _print_result(settings: Settings, plan: Plan, progressed: Progressed, *, dry_run: bool) -> None:
    if settings.json:
        print_json(
            {
                "planned": plan.assignments,
                "done": progressed.done,
                "left": progressed.left,
                "open": sorted(plan.open_ledgers),
                "unplaced": {str(each): why for each, why in sorted(plan.unplaced.items())},
                "lost": sorted(plan.lost),
                "damaged": {str(each): why for each, why in sorted(plan.damaged.items())},
            }
        )
        return
    for ledger, why in sorted((plan.unplaced | plan.damaged).items()):
        click.echo(f"ledger {ledger}: {why}")
    for ledger in sorted(plan.lost):
        click.echo(f"ledger {ledger}: no bookie that answered has all entries")
    for bookie, ledgers in sorted(progressed.left.items()):
        click.echo(f"bookie {bookie} has not copied {len(ledgers)} ledgers yet; first {ledgers[0]}")
    if plan.open_ledgers:
        note(
            f"{len(plan.open_ledgers)} ledgers are open and wait for their writer or for the next "
            f"leader of their log; first {min(plan.open_ledgers)}."
        )
    if dry_run:
        note(f"{plan.assignments} copies of ledgers are to be made. Nothing was changed.")
    else:
        note(f"{progressed.done} of {plan.assignments} copies of ledgers are made.")


def _check_result(plan: Plan, progressed: Progressed) -> None:
    if plan.lost:
        raise IntegrityError(
            f"entries of {len(plan.lost)} ledgers are on no bookie that answered, first of ledger "
            f"{min(plan.lost)}: start the bookies that are down, or see `quire ledger inventory`"
        )
    if plan.damaged:
        raise IntegrityError(
            f"the records of {len(plan.damaged)} ledgers are damaged, first {min(plan.damaged)}: "
            "put them back from a backup; the other ledgers are done as far as possible"
        )
    if plan.unplaced:
        raise RetryError(
            f"{len(plan.unplaced)} ledgers have places that no bookie may take: add bookies, then "
            "run this again"
        )
    if progressed.left:
        raise RetryError(
            f"{len(progressed.left)} bookies have not made all copies: `quire healing list` shows "
            "those still asked for, and this command can be run again"
        )


@healing.command("list", short_help="Print the copies that bookies are asked to make.")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    type=click.Choice([str(each) for each in AskedFor]),
    help="Only copies for this reason. Repeatable.",
)
@with_settings
def list_(settings: Settings, reasons: tuple[str, ...]) -> None:
    """Print the copies that bookies are asked to make, and have not made yet, with the reason.

    \b
    lost      the bookie in whose place they are made is not there
    drain     it is to leave
    holes     the bookie lacks entries that it should hold
    spread    the bookie stays, and the copies come into more domains
    returned  the bookie in whose place they are made is back

    \b
    Examples:
      quire healing list --reason lost
      quire healing list --json
    """
    run(lambda: _list(settings, reasons))


async def _list(settings: Settings, reasons: Collection[str]) -> None:
    async with _reached(settings) as (store, reached):
        rows = await _explained(store, await reached.orders())
    wanted = [each for each in rows if not reasons or each[2] in reasons]
    _print_orders(settings, wanted, f" for the reason {' or '.join(reasons)}" if reasons else "")


async def _explained(
    store: MetadataStore, found: Mapping[BookieId, Sequence[Assignment]]
) -> list[tuple[BookieId, Assignment, str]]:
    """Return requests by bookie, each with its reason."""
    facts = {each.bookie: each for each in await gather_facts(store)}
    records, rows = StoredRecords(store, random.Random()), []
    for bookie in sorted(found):
        for each in found[bookie]:
            why = asked_for(each, facts)
            if why is AskedFor.RETURNED:
                with contextlib.suppress(NoSuchLedgerError, CorruptRecordError):
                    why = asked_for(each, facts, (await records.read(each.ledger)).metadata)
            rows.append((bookie, each, str(why)))
    return rows


def _print_orders(
    settings: Settings, rows: Sequence[tuple[BookieId, Assignment, str]], restricted: str = ""
) -> None:
    if settings.json:
        for bookie, each, why in rows:
            places = [[it.first, it.position, it.old] for it in each.replicas]
            fields: dict[str, Value] = {"bookie": bookie, "ledger": each.ledger, "reason": why}
            print_json({**fields, "places": places})
        return
    print_table(
        ("bookie", "ledger", "reason", "in the place of"),
        [
            (bookie, each.ledger, why, ", ".join(sorted({it.old for it in each.replicas})) or "-")
            for bookie, each, why in rows
        ],
        empty=f"No bookie is asked for a copy{restricted}.",
    )


@healing.command(short_help="Take all requests for copies back.")
@dry_run_option
@with_settings
def cancel(settings: Settings, dry_run: bool) -> None:
    """Take all requests for copies back. A copy that is under way may still be finished.

    \b
    Example:
      quire healing cancel
    """
    run(lambda: _cancel(settings, dry_run=dry_run))


async def _cancel(settings: Settings, *, dry_run: bool) -> None:
    async with _reached(settings) as (_, reached):
        if dry_run:
            count = sum(map(len, (await reached.orders()).values()))
        else:
            count = await reached.cancel()
    if settings.json:
        print_json({"cancelled": count, "dry_run": dry_run})
    else:
        note(f"{count} requests {'would be' if dry_run else 'are'} taken back.")
