"""`quire cluster health` and `quire bookie list --all`: how the bookies are, and the cluster."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Final

import click

from quire.cli.durations import Duration
from quire.cli.output import Value, note, print_json, print_table
from quire.cli.settings import Settings, run, with_settings
from quire.client import Client
from quire.healing.state import LOST_SECONDS, BookieFacts, State, silent_seconds
from quire.healing.summary import State as Auditing
from quire.healing.verdict import (
    ENSEMBLE,
    ClusterFacts,
    Finding,
    Severity,
    Verdict,
    duration,
)
from quire.healing.verdict import health as judge
from quire.view.followers import FollowersView, followers_of
from quire.view.gather import gather_cluster

EXIT_CODES: Final = {Severity.OK: 0, Severity.WARNING: 10, Severity.CRITICAL: 11}
"""Beside the codes of errors, so that a script tells a sick cluster from one out of reach."""

NO_BOOKIES: Final = "The cluster has no bookies: `quire bookie format` makes one."


lost_after_option = click.option(
    "--lost-after",
    type=Duration(),
    default=f"{LOST_SECONDS / 60:.0f}m",
    show_default=True,
    metavar="DURATION",
    help="How long a bookie is silent until it counts as lost.",
)


ensemble_option = click.option(
    "--ensemble",
    default=ENSEMBLE,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many writable bookies a new ledger needs.",
)


@click.command(short_help="Say whether a cluster is healthy, and why not.")
@ensemble_option
@lost_after_option
@with_settings
def health(settings: Settings, ensemble: int, lost_after: float) -> None:
    """Say whether a cluster is healthy, with reasons and remedies.

    The exit code is 0 for ok, 10 for warning and 11 for critical. Any other code is the code of an
    error: the cluster could not be asked.

    \b
    Examples:
      quire cluster health
      quire cluster health --json --lost-after 30m
    """
    severity = run(lambda: _health(settings, ensemble, lost_after))
    click.get_current_context().exit(EXIT_CODES[severity])


async def _health(settings: Settings, ensemble: int, lost_after: float) -> Severity:
    async with settings.connect() as client:
        facts = await gather(client, lost_after, ensemble)
    verdict = judge(facts)
    if settings.json:
        print_json(_health_fields(facts, verdict))
    else:
        _print_health(facts, verdict)
    return verdict.severity


def _health_fields(facts: ClusterFacts, verdict: Verdict) -> Value:
    return {
        "health": str(verdict.severity),
        "states": {str(state): count for state, count in facts.states().items()},
        "healing": healing_fields(facts),
        "followers": followers_fields(facts),
        "reasons": [_finding_fields(each) for each in verdict.findings],
    }


def _finding_fields(each: Finding) -> Value:
    return {**each._asdict(), "severity": str(each.severity)}


def _print_health(facts: ClusterFacts, verdict: Verdict) -> None:
    click.echo(f"{verdict.severity}: {states_text(facts)}")
    click.echo(f"healing: {healing_text(facts)}")
    if (followers := _followers(facts)) is not None:
        click.echo(f"subscriptions: {followers.text}")
    if verdict.findings:
        click.echo()
        rows = [(str(each.severity), each.text, each.remedy) for each in verdict.findings]
        print_table(("", "reason", "remedy"), rows, empty="")


def _followers(facts: ClusterFacts) -> FollowersView | None:
    return followers_of(each.info for each in facts.bookies if each.info is not None)


def followers_fields(facts: ClusterFacts) -> Value:
    """Return the subscriptions of followers for programs; None if no bookie counts them."""
    followers = _followers(facts)
    return None if followers is None else asdict(followers)


def states_text(facts: ClusterFacts) -> str:
    """Return how many bookies are in each state, in words."""
    counts = facts.states()
    named = [f"{counts[state]} {state}" for state in State if counts.get(state)]
    return f"bookies: {', '.join(named) or 'none'}"


async def gather(client: Client, lost_after: float, ensemble: int = ENSEMBLE) -> ClusterFacts:
    """Return the facts of a cluster; every registered bookie is asked."""
    now_ms = round(time.time() * 1000)
    return await gather_cluster(client, now_ms, lost_seconds=lost_after, ensemble=ensemble)


def healing_text(facts: ClusterFacts) -> str:
    """Return the auditor's work and its age, in words."""
    summary = facts.summary
    if summary is None:
        return "no auditor has looked yet"
    if summary.state is Auditing.BUILDING:
        share = 100 * summary.indexed // max(1, summary.ledgers)
        said = f"building its index, {share} %"
    else:
        said = f"{summary.state}, {summary.open} ledgers to heal"
    return f"{said} (seen {duration(summary.age_seconds(facts.clock_ms))} ago)"


def healing_fields(facts: ClusterFacts) -> Value:
    """Return the same for programs."""
    summary = facts.summary
    if summary is None:
        return None
    age = summary.age_seconds(facts.clock_ms)
    counts: dict[str, Value] = {**summary.counts}
    return {"state": str(summary.state), "age_seconds": age, "open": summary.open, "counts": counts}


async def list_all(settings: Settings, lost_after: float) -> None:
    """Print every bookie that the cluster knows."""
    async with settings.connect() as client:
        facts = await gather(client, lost_after)
    if settings.json:
        for each in facts.bookies:
            print_json(_bookie_fields(facts, each))
        return
    columns = ("bookie", "state", "address", "labels", "version", "ledgers", "in limbo", "disks")
    print_table(columns, [_bookie_row(facts, each) for each in facts.bookies], empty=NO_BOOKIES)
    if facts.bookies and (verdict := judge(facts)).findings:
        note(f"Health: {verdict.summary}")


def _bookie_fields(facts: ClusterFacts, each: BookieFacts) -> Value:
    standing = each.standing
    return {
        "bookie": each.bookie,
        "state": str(facts.state(each)),
        "answers": None if each.registered is None else each.info is not None,
        "silent_seconds": silent_seconds(each, facts.now_ms),
        "address": each.address or None,
        "labels": str(each.labels),
        "host": each.labels.host or None,
        "version": each.version or None,
        "ledgers": _ledgers(each),
        "in_limbo": each.in_limbo,
        "disks": [disk._asdict() for disk in each.disks],
        "wish": str(standing.wish),
        "reason": standing.reason,
        "by": standing.by,
        "since_ms": standing.since_ms or None,
        "until_ms": standing.until_ms,
    }


def _bookie_row(facts: ClusterFacts, each: BookieFacts) -> tuple[object, ...]:
    return (
        each.bookie,
        _state_text(facts, each),
        each.address or None,
        str(each.labels) or None,
        each.version or None,
        _ledgers(each),
        each.in_limbo,
        ", ".join(
            f"{disk.path} {disk.free_bytes / 1e9:.1f} of {disk.total_bytes / 1e9:.1f} GB free"
            for disk in each.disks
        )
        or None,
    )


def _ledgers(each: BookieFacts) -> int | None:
    if each.info is not None:
        return each.info.ledgers
    return None if each.heartbeat is None else each.heartbeat.ledgers


def _state_text(facts: ClusterFacts, each: BookieFacts) -> str:
    state = facts.state(each)
    said = [str(state)]
    if state is State.AWAY:
        said.append(f"for {duration(each.standing.seconds_left(facts.now_ms) or 0.0)} more")
    if (silent := silent_seconds(each, facts.now_ms)) is not None and state is not State.GONE:
        said.append(f"(heard {duration(silent)} ago)")
    if each.silence:
        said.append("(no answer)")
    return " ".join(said)
