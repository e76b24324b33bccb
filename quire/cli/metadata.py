"""`quire metadata`: back up, restore, adopt, protect and check the metadata store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import click

from quire.cli.inventory import ranges_text
from quire.cli.output import note, print_json, progress_of
from quire.cli.settings import Settings, run, with_settings
from quire.errors import CorruptEntryError, IntegrityError
from quire.metadata.adopt import adopt as adopt_store
from quire.metadata.archive import Archive, Summary
from quire.metadata.backup import back_up
from quire.metadata.check import Finding
from quire.metadata.recordless import RecordlessLedgers
from quire.metadata.restore import restore_archive
from quire.metastore import create_store, open_store
from quire.metastore.place import resolve_store
from quire.metastore.protection import protect_records
from quire.metastore.store import MetadataStore

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(short_help="Back up, restore, adopt, protect and check the metadata store.")
def metadata() -> None:
    """Back up, restore, adopt, protect and check the metadata store."""


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, opener: Callable[[str], Awaitable[MetadataStore]] = open_store
) -> AsyncIterator[MetadataStore]:
    store = await opener(resolve_store(settings.store_uri()))
    try:
        yield store
    finally:
        await store.close()


@metadata.command(short_help="Save all records of the metadata store to a new file.")
@click.argument("file", type=_FILE)
@with_settings
def backup(settings: Settings, file: Path) -> None:
    """Save all records of the metadata store to a new file, while it is in use.

    \b
    Example:
      quire metadata backup /backup/quire-2026-11-25
    """
    run(lambda: _backup(settings, file))


async def _backup(settings: Settings, file: Path) -> None:
    async with opened(settings) as store:
        with progress_of("Saving records") as on_progress:
            summary = await back_up(
                store, file, int(time.time() * 1000), lambda done: on_progress(done, done)
            )
    _print(settings, summary, f"{file} has {summary.records} records of cluster {summary.cluster}.")


@metadata.command(short_help="Write a backup into an empty metadata store.")
@click.argument("file", type=_FILE)
@with_settings
def restore(settings: Settings, file: Path) -> None:
    """Write a backup into an empty metadata store, as a new incarnation.

    Bookies do not serve with it before `quire metadata adopt`. After an interruption, run it again
    with the same file. Stop all bookies first: a bookie that still runs exits.

    \b
    Example:
      quire metadata restore /backup/quire-2026-11-25
    """
    run(lambda: _restore(settings, file))


async def _restore(settings: Settings, file: Path) -> None:
    with Archive(file) as archive:  # before a store is made: an empty one would pass for a cluster
        async with opened(settings, create_store) as store:
            with progress_of("Restoring records") as on_progress:
                summary = await restore_archive(store, archive, on_progress)
    remedy = "Run `quire metadata adopt` next, then start the bookies."
    _print(settings, summary, f"{summary.records} records are restored. {remedy}")


def _print(settings: Settings, summary: Summary, text: str) -> None:
    if settings.json:
        fields = summary._asdict()
        print_json({**fields, "next": fields.pop("following")})
    else:
        note(text)


@metadata.command(short_help="Accept a metadata store that has gone back in time.")
@click.option(
    "--at-least",
    type=click.IntRange(min=0),
    default=0,
    metavar="ID",
    help="An id above all that bookies hold, if a million ledgers were created since the backup.",
)
@with_settings
def adopt(settings: Settings, at_least: int) -> None:
    """Accept a metadata store that has gone back in time, as it is now.

    Raises the counter of ledger ids far above all ids that may have been given out, and begins a
    new incarnation; bookies then serve again. Changes made since the backup are lost.

    \b
    Example:
      quire metadata adopt --store zk://zoo:2181/quire
    """
    run(lambda: _adopt(settings, at_least))


async def _adopt(settings: Settings, at_least: int) -> None:
    async with opened(settings) as store:
        done = await adopt_store(store, at_least)
    if settings.json:
        print_json({**done._asdict()})
    else:
        note(f"Incarnation {done.incarnation} is adopted; ledger ids continue at {done.first_id}.")


@metadata.command(short_help="Give all records the access that the store's URI asks for.")
@click.option("--dry-run", is_flag=True, help="Only count the records that any client can change.")
@with_settings
def protect(settings: Settings, dry_run: bool) -> None:
    """Give all records of ZooKeeper the access that the store's URI asks for, by acl, owners and
    readers.

    Records get an access when they are made, and keep it until this command changes it. Name every
    identity that bookies and clients use as an owner or a reader before: the others are shut out.

    \b
    Examples:
      quire metadata protect --dry-run --store zk://zoo:2181/quire
      quire metadata protect --store \\
          'zk://zoo:2181/quire?auth=sasl&credentials=FILE&readers=sasl:reports'
    """
    run(lambda: _protect(settings, is_dry=dry_run))


async def _protect(settings: Settings, *, is_dry: bool) -> None:
    async with opened(settings) as store:
        with progress_of("Looking at records" if is_dry else "Protecting records") as on_progress:
            done = await protect_records(store, lambda done: on_progress(done, done), is_dry=is_dry)
    if settings.json:
        print_json({**done._asdict(), "dry_run": is_dry})
        return
    verb = "can" if is_dry else "could"
    note(f"Any client {verb} change {done.exposed} of {done.records} records.")


@metadata.command(short_help="Compare every ledger with the entries that bookies hold.")
@with_settings
def check(settings: Settings) -> None:
    """Compare every ledger with the entries that bookies hold. Changes nothing.

    Prints ledgers with entries that are lost, short of copies, or beyond the end that the record
    names (the ledger continued after a backup), and ledgers with a damaged record. The exit code is
    9 if entries are lost or beyond, or a record is damaged.

    Also prints ledgers that bookies hold without a record in the store: they were created after a
    backup that was put back, or they were deleted and not collected yet. They do not change the
    exit code.

    \b
    Example:
      quire metadata check --json
    """
    run(lambda: _check(settings))


async def _check(settings: Settings) -> None:
    found: list[Finding] = []
    ledgers = 0
    async with settings.connect() as client:
        with progress_of("Comparing ledgers") as on_progress:
            async with contextlib.aclosing(client.check_ledgers()) as checking:
                async for done, total, finding in checking:
                    on_progress(done, total)
                    ledgers = total
                    if finding is not None:
                        found.append(finding)
        recordless = await client.recordless_ledgers()
    for each in found:
        _print_finding(settings, each)
    _print_recordless(settings, recordless)
    losses = [each for each in found if each.is_loss]
    if not settings.json:
        note(
            f"{ledgers} ledgers compared: {len(losses)} with losses, {len(found)} in all; "
            f"{len(recordless.ledgers)} without a record."
        )
    if losses:
        first = losses[0]
        if first.damage:
            raise IntegrityError(first.damage)
        entry = first.lost[0][0] if first.lost else first.beyond or 0
        reason = "no bookie that answered has it" if first.lost else "it is beyond the recorded end"
        raise CorruptEntryError(first.ledger, entry, reason)


def _print_recordless(settings: Settings, found: RecordlessLedgers) -> None:
    for each in found.ledgers:
        if settings.json:
            entries = [list(pair) for pair in each.entries]
            print_json(
                {
                    "ledger": each.ledger,
                    "recordless": True,
                    "bookies": list(each.bookies),
                    "entries": entries,
                }
            )
            continue
        count = sum(last - first + 1 for first, last in each.entries)
        held = f"{count} entries ({ranges_text(each.entries)})" if count else "entries"
        click.echo(f"ledger {each.ledger}: no record; {held} on {', '.join(each.bookies)}")
    for bookie, reason in found.silent.items():
        note(f"Bookie {bookie} did not say which ledgers it holds: {reason}")


def _print_finding(settings: Settings, each: Finding) -> None:
    if settings.json:
        lost, short = ([list(pair) for pair in pairs] for pairs in (each.lost, each.short))
        print_json(
            {
                "ledger": each.ledger,
                "lost": lost,
                "short": short,
                "beyond": each.beyond,
                "silent": list(each.silent),
                "damage": each.damage,
            }
        )
        return
    parts = [each.damage] if each.damage else []
    parts += [f"lost {ranges_text(each.lost)}"] if each.lost else []
    parts += [f"short of copies {ranges_text(each.short)}"] if each.short else []
    parts += [f"held beyond its end, up to {each.beyond}"] if each.beyond is not None else []
    parts += [f"no answer from {', '.join(each.silent)}"] if each.silent else []
    click.echo(f"ledger {each.ledger}: {'; '.join(parts)}")
