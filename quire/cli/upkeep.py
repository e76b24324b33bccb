"""`quire log rebuild`, `quire log jobs` and `quire log gc`: after accidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from quire import admin
from quire.cli.durations import Duration
from quire.cli.log_shape import summary
from quire.cli.output import Value, note, print_json, print_table
from quire.cli.replication import password_option
from quire.cli.settings import Settings, run, with_settings
from quire.log.maintenance.job_info import JobInfo
from quire.places import iso_time


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


@click.command(short_help="Show the jobs that write whole ledgers for a log.")
@click.argument("name")
@with_settings
def jobs(settings: Settings, name: str) -> None:
    """Show the jobs of a log: their last work in it, and the parts that it has not ingested.

    A part is a ledger that a task of a job wrote. The parts of a job whose driver died stay until
    its next attempt, or until `quire log gc --jobs-older-than`.

    \b
    Example:
      quire log jobs orders
    """
    run(lambda: _jobs(settings, name))


async def _jobs(settings: Settings, name: str) -> None:
    async with settings.connect() as client:
        found = await admin.jobs(client, name)
    if settings.json:
        print_json(asdict(found))
        return
    rows = [(each.name, each.sequence, each.query or None, *_parts(each)) for each in found.jobs]
    columns = ("job", "sequence", "query", "parts", "bytes", "open", "last part")
    print_table(columns, rows, empty=f"Log {name} remembers no job, and no job has parts for it.")
    if found.forgotten:
        note(f"{found.forgotten} more jobs are forgotten: new work of theirs is refused.")


def _parts(job: JobInfo) -> tuple[int, int, int, str | None]:
    sizes = [each.bytes for each in job.parts]
    last = job.last_part_ms
    open_ones = sizes.count(None)
    when = None if last is None else iso_time(last)
    return len(sizes), sum(each or 0 for each in sizes), open_ones, when


def _lists(found: Mapping[str, Sequence[int]]) -> dict[str, Value]:
    return {name: list(ledgers) for name, ledgers in found.items()}


@click.command(short_help="Delete orphans: leftovers of crashes.")
@click.option(
    "--jobs-older-than",
    type=Duration(),
    metavar="DURATION",
    help="Also delete the parts of jobs that began none for so long (7d). A job that still runs "
    "fails then, and adds nothing to its log.",
)
@with_settings
def gc(settings: Settings, jobs_older_than: float | None) -> None:
    """Delete orphans: ledgers, files and snapshots that a crash left and no record will ever name.

    `quire log jobs` shows the parts that jobs left.

    \b
    Examples:
      quire log gc
      quire log gc --jobs-older-than 7d
    """
    run(lambda: _gc(settings, jobs_older_than))


async def _gc(settings: Settings, jobs_older_than: float | None) -> None:
    async with settings.connect() as client:
        done = await admin.gc(client, jobs_older_than=jobs_older_than)
    if settings.json:
        kept, parts = _lists(done.kept), _lists(done.parts)
        deleted, files = list(done.ledgers), list(done.files)
        print_json({"deleted": deleted, "files": files, "kept": kept, "parts": parts})
    else:
        also = f", and {len(done.files)} files of cold segments" if done.files else ""
        note(f"{len(done.ledgers)} ledgers{also} were orphans and are deleted.")
        for name, ledgers in sorted(done.parts.items()):
            note(f"{len(ledgers)} parts of silent jobs of log {name} are deleted.")
        for name, ledgers in sorted(done.kept.items()):
            note(
                f"Kept: ledgers {', '.join(map(str, ledgers))} hold records of a log {name} that "
                f"has no manifest. `quire log rebuild {name}` rebuilds it if it is lost."
            )
