"""`quire bookie`: format, check, repair and list bookies. `serve` is in serving.py."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quire.bookie import BookieAddress, BookieInfo
from quire.cli.drain import drain
from quire.cli.health import list_all, lost_after_option
from quire.cli.output import Value, note, print_fields, print_json, print_table, progress_of
from quire.cli.relabel import relabel
from quire.cli.serving import directory_argument, serve
from quire.cli.settings import (
    Settings,
    run,
    with_settings,
)
from quire.cli.wishes import away, back, forget, recommission
from quire.client import Client
from quire.errors import CorruptStorageError, QuireError
from quire.metastore.place import resolve_store

if TYPE_CHECKING:
    from quire.storage.entries.damage import Damage


def _entries(explained: str, *, required: bool = False) -> Callable[[Any], Any]:
    return click.option(
        "--entries",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIRECTORY",
        multiple=True,
        required=required,
        help=explained,
    )


@click.group(short_help="Run and repair storage servers.")
def bookie() -> None:
    """Run and repair storage servers."""


for _command in (serve, away, back, drain, recommission, relabel, forget):
    bookie.add_command(_command)


@bookie.command("format", short_help="Make an empty directory the disk of a new bookie.")
@directory_argument
@click.option(
    "--journal",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Directory for the journal, on a device of its own.",
)
@_entries("Directory for entry logs; may be given several times.")
@with_settings
def format_(
    settings: Settings, directory: Path, journal: Path | None, entries: tuple[Path, ...]
) -> None:
    """Make an empty directory the disk of a new bookie.

    The directory gets an identity that is also kept in the metadata store. A directory that is
    already formatted, or holds other files, is refused. Journal and entry logs can be on other
    devices: `serve` and `check` still take the bookie's first directory.

    \b
    Examples:
      quire bookie format /var/lib/quire --store zk://zoo:2181/quire
      quire bookie format /srv/quire --journal /fast/quire --entries /big/quire
    """
    identity = run(
        lambda: _format(resolve_store(settings.store_uri()), directory, journal, entries)
    )
    if settings.json:
        print_json({"bookie": identity, "directory": str(directory)})
    else:
        click.echo(f"{directory} is now bookie {identity}")


async def _format(
    uri: str, directory: Path, journal: Path | None, entries: tuple[Path, ...]
) -> str:
    from quire.bookkeeper.serving.system import found_cluster, writable
    from quire.storage.identity.identity import format_directory

    apache = writable(uri)
    if apache is not None:
        uri = await found_cluster(*apache, random.SystemRandom())
    return await format_directory(directory, uri, journal=journal, entries=entries)


@bookie.command(short_help="Add directories for entry logs to a stopped bookie.")
@directory_argument
@_entries("An empty directory for entry logs; may be given several times.", required=True)
@with_settings
def expand(settings: Settings, directory: Path, entries: tuple[Path, ...]) -> None:
    """Add empty directories for entry logs to a stopped bookie.

    New entry logs go to the directory with the most free space. Existing files stay where they
    are. After an interruption, run the command again.

    \b
    Example:
      quire bookie expand /var/lib/quire --entries /big2/quire
    """
    from quire.storage.identity.identity import expand_directory

    cookie = run(lambda: expand_directory(directory, resolve_store(settings.store_uri()), entries))
    places = [part.path or str(directory) for part in cookie.parts if part.role == "entries"]
    if settings.json:
        print_json({"bookie": cookie.bookie, "entries": places})
    else:
        click.echo(f"bookie {cookie.bookie} keeps entry logs in {', '.join(places)}")


@bookie.command(short_help="Verify everything on a stopped bookie's disk.")
@directory_argument
@with_settings
def check(settings: Settings, directory: Path) -> None:
    """Verify everything on a stopped bookie's disk, and count the ledgers in limbo.

    It changes nothing. Damage is printed, by ledger and entries if it is in entries, and makes the
    exit code 9.

    \b
    Example:
      quire bookie check /var/lib/quire
    """
    run(lambda: _check(settings, directory))


async def _check(settings: Settings, directory: Path) -> None:
    from quire.storage.identity.directories import open_directory
    from quire.storage.offline.check import check_disk

    disk = await open_directory(directory, read_only=True)
    try:
        with progress_of("Verifying entry logs") as on_progress:
            findings = await check_disk(disk, on_progress)
    finally:
        await disk.close()
    _print_damage(settings, findings.damage)
    counts: dict[str, str | int] = {
        "bookie": findings.bookie,
        "files": findings.files,
        "ledgers": len(findings.ledgers),
        "highest_ledger": findings.highest,
        "in_limbo": len(findings.limbo),
        "chunks": findings.chunks,
        "bytes": findings.bytes,
        "journal_records": findings.records,
        "damaged": len(findings.damage),
    }
    if settings.json:
        print_json({**counts})
    else:
        print_fields(counts)
    if findings.damage:
        first = findings.damage[0]
        raise CorruptStorageError(first.path, f"{len(findings.damage)} defects; this is the first")


def _print_damage(settings: Settings, found: Sequence[Damage]) -> None:
    for damage in found:
        if settings.json:
            print_json(damage._asdict())
        elif damage.ledger is None:
            click.echo(f"{damage.path}: {damage.reason}")
        else:
            entries = f"entries {damage.first} to {damage.last} of ledger {damage.ledger}"
            click.echo(f"{damage.path}: {entries}: {damage.reason}")


@bookie.command(short_help="Let a bookie that lost files serve again.")
@directory_argument
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Carry out the repair. Without this, only print the plan.",
)
@click.option(
    "--replaced",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    help="A secondary directory that was replaced by an empty one: its data is lost.",
)
@with_settings
def repair(
    settings: Settings, directory: Path, accept_loss: bool, replaced: tuple[Path, ...]
) -> None:
    """Let a bookie that lost files serve again, treating all its ledgers as doubtful.

    The repair sets damaged files aside, and puts every ledger that the bookie has or may have had
    into limbo: the bookie takes no ordinary entries of them, and answers "unknown" instead of "no
    such entry". Once it serves, it copies missing entries from the other bookies, ledger by ledger.

    \b
    Example:
      quire bookie repair /var/lib/quire --accept-loss
      quire bookie repair /var/lib/quire --accept-loss --replaced /mnt/disk2
    """
    if replaced and not accept_loss:
        raise click.UsageError("--replaced changes directories: pass --accept-loss too")
    run(lambda: _repair(settings, directory, accept_loss, replaced))


async def _repair(
    settings: Settings, directory: Path, accept_loss: bool, replaced: tuple[Path, ...]
) -> None:
    from quire.repair.directory import examine_directory, repair_directory

    uri = resolve_store(settings.store_uri())
    if accept_loss:
        found = await repair_directory(directory, uri, replaced=replaced)
    else:
        with progress_of("Verifying entry logs") as on_progress:
            found = await examine_directory(directory, uri, on_progress)
    _print_damage(settings, found.damage)
    fields: dict[str, str | int] = {
        "bookie": found.bookie,
        "damaged": len(found.damage),
        "set_aside": len(found.aside),
        "in_limbo": found.ledgers,
        "repaired": int(accept_loss),
    }
    if settings.json:
        print_json({**fields, "set_aside": list(found.aside), "repaired": accept_loss})
        return
    for path in found.aside:
        click.echo(f"{'set aside' if accept_loss else 'to be set aside'}: {path}")
    print_fields({name: value for name, value in fields.items() if name != "repaired"})
    if not accept_loss:
        note("Nothing was changed. With --accept-loss all of this is put into limbo.")


@bookie.command("list", short_help="List the bookies.")
@click.option("--all", "every", is_flag=True, help="Also bookies that are away, silent or gone.")
@lost_after_option
@with_settings
def list_(settings: Settings, every: bool, lost_after: float) -> None:
    """List the registered bookies, with the figures that each reports.

    With --all, list every bookie that the cluster knows, whether or not it is up, with its state,
    the wish of its operator, its place, its program and its directories.

    \b
    Examples:
      quire bookie list --store zk://zoo:2181/quire
      quire bookie list --all
    """
    run(lambda: list_all(settings, lost_after) if every else _list(settings))


async def _list(settings: Settings) -> None:
    async with settings.connect() as client:
        addresses = client.bookies()
        infos = await asyncio.gather(*(_info(client, each) for each in addresses))
    if settings.json:
        for address, info in zip(addresses, infos, strict=True):
            print_json(_as_fields(address, info))
        return
    rows = [_as_row(address, info) for address, info in zip(addresses, infos, strict=True)]
    columns = ("bookie", "address", "state", "ledgers", "in limbo", "free GB", "of GB", "labels")
    print_table(columns, rows, empty="No bookie is registered: `quire bookie serve` starts one.")


async def _info(client: Client, address: BookieAddress) -> BookieInfo | None:
    try:
        return await client.bookie_info(address.bookie)
    except QuireError:
        return None  # registered, but it does not answer: the list shows this


def _as_fields(address: BookieAddress, info: BookieInfo | None) -> dict[str, Value]:
    return {
        "bookie": address.bookie,
        "address": address.address,
        "runs": address.runs,
        "state": _state(address, info),
        "labels": str(address.labels),
        "ledgers": info.ledgers if info else None,
        "in_limbo": info.in_limbo if info else None,
        "disk_free_bytes": info.disk_free_bytes if info else None,
        "disk_total_bytes": info.disk_total_bytes if info else None,
        "counters": {**info.counters} if info else None,
    }


def _as_row(address: BookieAddress, info: BookieInfo | None) -> tuple[object, ...]:
    if info is None:
        nothing = (None, None, None, None, str(address.labels))
        return (address.bookie, address.address, _state(address, info), *nothing)
    free, total = info.disk_free_bytes / 1e9, info.disk_total_bytes / 1e9
    state = _state(address, info)
    counts = (info.ledgers, info.in_limbo, round(free, 1), round(total, 1))
    return (address.bookie, address.address, state, *counts, str(address.labels))


def _state(address: BookieAddress, info: BookieInfo | None) -> str:
    if info is None:
        return "no answer"
    return "writable" if address.writable and info.writable else "read-only"
