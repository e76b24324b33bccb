"""`quire healing status`, `pause`, `resume` and `go`: the auditor's findings, and its switch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import click

from quire.cli.durations import Duration
from quire.cli.metadata import opened
from quire.cli.output import Value, note, print_fields, print_json
from quire.cli.settings import Settings, run, with_settings
from quire.cli.wishes import LONG_SECONDS, dry_run_option, operator
from quire.errors import ConfigurationError
from quire.healing.facts import gather_facts
from quire.healing.summary import Count, State, Summary, read_summary
from quire.healing.switch import Go, Pause, Switch, change_switch, read_switch
from quire.healing.verdict import duration
from quire.metastore.standing import REASON_CHARACTERS_MAX, Wish

WORDS: Final = {
    Count.NO_COPY: "with entries that no bookie has now",
    Count.ONE_COPY: "with one copy left",
    Count.SHORT: "short of a copy",
    Count.DRAIN: "to move from a bookie that drains",
    Count.HOLES: "with holes that a bookie fetches",
    Count.WAITING: "open, wait for their writer or the next leader of their log",
    Count.UNPLACED: "without a bookie that may take a place",
    Count.UNREADABLE: "with a damaged record",
    Count.FEW_DOMAINS: "with copies in fewer domains than their placement requires",
    Count.SPREAD: "to move into more domains, when nothing else is to be healed",
}
"""The words for so many ledgers."""


@click.command(short_help="Print the auditor's findings and its work.")
@with_settings
def status(settings: Settings) -> None:
    """Print the auditor's last findings, their age, and whether healing is paused.

    \b
    Examples:
      quire healing status
      quire healing status --json
    """
    run(lambda: _status(settings))


async def _status(settings: Settings) -> None:
    async with opened(settings) as store:
        summary, switch = await asyncio.gather(read_summary(store), read_switch(store))
    now = _now_ms()
    if settings.json:
        print_json(_fields(summary, switch, now))
        return
    if summary is None:
        click.echo(
            "No auditor has looked: `quire bookie serve` offers one, or `quire autorecovery`."
        )
    else:
        print_fields(_lines(summary, switch, now))
    _print_switch(switch, now)


def _fields(summary: Summary | None, switch: Switch, now: int) -> dict[str, Value]:
    fields: dict[str, Value] = {"state": None, "age_seconds": None}
    if summary is not None:
        fields = {**summary.fields(), "age_seconds": summary.age_seconds(now), "open": summary.open}
    pause, go = switch.pause, switch.go
    fields["pause"] = None if pause is None or not pause.seconds_left(now) else _of_pause(pause)
    fields["go"] = None
    if go is not None:
        fields["go"] = {"by": go.by, "at_ms": go.at_ms, "bookies": list(go.bookies)}
    return fields


def _of_pause(pause: Pause) -> dict[str, Value]:
    times = {"since_ms": pause.since_ms, "until_ms": pause.until_ms}
    return {"reason": pause.reason, "by": pause.by, **times}


def _seen(summary: Summary, now: int) -> str:
    is_ahead = summary.at_ms > now + 1000
    return (
        f"{duration(summary.age_seconds(now))} {'ahead of the clock here' if is_ahead else 'ago'}"
    )


def _lines(summary: Summary, switch: Switch, now: int) -> dict[str, object]:
    lines: dict[str, object] = {
        "state": _state(summary, switch, now),
        "seen": f"{_seen(summary, now)} by {summary.by}, epoch {summary.epoch}",
        "ledgers": f"{summary.indexed} of {summary.ledgers} known",
        "lost": ", ".join(summary.lost) or "none",
        "asked": _asked(summary, now),
    }
    for kind, words in WORDS.items():
        if count := summary.count(kind):
            lines[str(kind)] = f"{count} ledgers {words}"
    if summary.worst:
        lines["worst"] = ", ".join(map(str, summary.worst))
    return lines


def _state(summary: Summary, switch: Switch, now: int) -> str:
    """Return the auditor's state; it may not have seen the end of a pause yet."""
    pause = switch.pause
    if summary.state is State.PAUSED and (pause is None or not pause.seconds_left(now)):
        return "paused until the auditor looks again: the pause is over"
    return str(summary.state) + (f": {summary.why}" if summary.why else "")


def _asked(summary: Summary, now: int) -> str:
    text = f"{summary.count(Count.ASKED)} copies"
    if not summary.oldest_ms:
        return text
    return f"{text}, the oldest for {duration(max(0, now - summary.oldest_ms) / 1000)}"


def _print_switch(switch: Switch, now: int) -> None:
    if switch.pause is not None and (left := switch.pause.seconds_left(now)):
        why = f": {switch.pause.reason}" if switch.pause.reason else ""
        note(f"Healing is paused for {duration(left)} more by {switch.pause.by}{why}.")


@click.command(short_help="Let nothing move for a while.")
@click.option("--reason", required=True, metavar="TEXT", help="Shown as long as it holds.")
@click.option(
    "--until",
    "seconds",
    type=Duration(),
    required=True,
    metavar="DURATION",
    help="When it ends by itself, from now: 30m, 2h.",
)
@click.option("--yes", is_flag=True, help="Allow more than 24 hours.")
@dry_run_option
@with_settings
def pause(settings: Settings, reason: str, seconds: float, yes: bool, dry_run: bool) -> None:
    """Let the auditor ask no bookie for copies for a while. Copies that bookies were asked for are
    made: `quire healing cancel` takes them back.

    \b
    Example:
      quire healing pause --reason 'new switches' --until 2h
    """
    if not seconds:
        raise ConfigurationError("a pause of 0 s ends at once: give more, as --until 30m")
    if seconds > LONG_SECONDS and not yes:
        raise ConfigurationError(
            f"a pause of {duration(seconds)} leaves copies missing for long: pass --yes"
        )
    if len(reason) > REASON_CHARACTERS_MAX:
        raise ConfigurationError(
            f"the reason has {len(reason)} characters, {REASON_CHARACTERS_MAX} are allowed"
        )
    now = _now_ms()
    wanted = Pause(reason, operator(), now, now + max(1, round(seconds * 1000)))
    run(lambda: _change(settings, lambda it: it.paused(wanted), dry_run=dry_run))
    is_paused = "would be" if dry_run else "is"
    note(f"Healing {is_paused} paused for {duration(seconds)}: `quire healing resume` ends it.")


@click.command(short_help="End a pause of healing.")
@dry_run_option
@with_settings
def resume(settings: Settings, dry_run: bool) -> None:
    """End a pause of healing.

    \b
    Example:
      quire healing resume
    """
    run(lambda: _change(settings, lambda it: it.paused(None), dry_run=dry_run))
    note("Healing would go on." if dry_run else "Healing goes on.")


async def _change(settings: Settings, decide: Callable[[Switch], Switch], *, dry_run: bool) -> None:
    async with opened(settings) as store:
        if dry_run:
            switch = decide(await read_switch(store))
        else:
            switch = await change_switch(store, decide)
    if settings.json:
        pause = None if switch.pause is None else _of_pause(switch.pause)
        print_json({"pause": pause, "dry_run": dry_run})


@click.command(short_help="Heal although many bookies are missing at once.")
@dry_run_option
@with_settings
def go(settings: Settings, dry_run: bool) -> None:
    """Heal although many bookies are missing at once.

    When more than a quarter of the bookies, or bookies on several hosts, are missing at once, the
    auditor moves nothing: mostly the network is the cause, and the bookies come back with all that
    they have. This says that the ones that are missing now are lost. Another loss needs another go.

    \b
    Examples:
      quire healing go --dry-run
      quire healing go
    """
    run(lambda: _go(settings, dry_run=dry_run))


async def _go(settings: Settings, *, dry_run: bool) -> None:
    async with opened(settings) as store:
        facts = await gather_facts(store)
        missing = [
            each.bookie
            for each in facts
            if each.registered is None and each.standing.wish is not Wish.GONE
        ]
        wanted = Go(operator(), _now_ms(), tuple(sorted(missing)))
        if missing and not dry_run:
            await change_switch(store, lambda it: it.going(wanted))
    if settings.json:
        print_json({"bookies": list(wanted.bookies), "dry_run": dry_run})
    elif missing:
        may = "might" if dry_run else "may"
        note(f"Their places {may} go to others: {', '.join(wanted.bookies)}.")
    else:
        note("No bookie is missing: there is nothing to say.")


def _now_ms() -> int:
    return round(time.time() * 1000)
