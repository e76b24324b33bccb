"""`quire bookie`: format, serve, check and list bookies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from quire.bookie import BookieAddress, BookieInfo
from quire.cli.auditing import OpenAuditor, auditor_options
from quire.cli.drain import drain
from quire.cli.health import list_all, lost_after_option
from quire.cli.logs import LogOutput, logging_options
from quire.cli.output import Value, note, print_fields, print_json, print_table, progress_of
from quire.cli.pairs import Pairs, build
from quire.cli.settings import (
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.cli.supervisor import ServiceManager
from quire.cli.wishes import away, back, forget, recommission
from quire.client import Client
from quire.errors import CorruptStorageError, QuireError
from quire.labels import Labels
from quire.metastore.place import resolve_store

if TYPE_CHECKING:
    from quire.storage.entries.damage import Damage
    from quire.storage.journal.options import StorageOptions
    from quire.storage.serving.limits import ServiceLimits

DESCRIPTORS_MAX: Final = 65_536


def storage_options() -> type[StorageOptions]:
    """Return the class of the storage's options. Its module is read when it is needed."""
    from quire.storage.journal.options import StorageOptions

    return StorageOptions


def service_limits() -> type[ServiceLimits]:
    """Return the class of a bookie's limits."""
    from quire.storage.serving.limits import ServiceLimits

    return ServiceLimits


_directory = click.argument(
    "directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIRECTORY"
)


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


for _command in (away, back, drain, recommission, forget):
    bookie.add_command(_command)


@bookie.command("format", short_help="Make an empty directory the disk of a new bookie.")
@_directory
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
    from quire.storage.identity.identity import format_directory

    identity = run(
        lambda: format_directory(
            directory, resolve_store(settings.store_uri()), journal=journal, entries=entries
        )
    )
    if settings.json:
        print_json({"bookie": identity, "directory": str(directory)})
    else:
        click.echo(f"{directory} is now bookie {identity}")


@bookie.command(short_help="Add directories for entry logs to a stopped bookie.")
@_directory
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


@bookie.command(short_help="Serve a formatted directory until Ctrl-C.")
@_directory
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve on; port 0 takes a free one.",
)
@click.option(
    "--listen-runs",
    metavar="HOST:PORT",
    help="Address that takes entries as plain frames, cheaper than gRPC; 'none' turns it off. "
    "[default: a free port if --listen takes a free one, otherwise none]",
)
@click.option(
    "--advertise",
    metavar="HOST",
    help="Host that clients are told; needed if --listen is 0.0.0.0 or [::].",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Address of figures (/metrics) and probes (/livez, /readyz). [default: off]",
)
@click.option(
    "--labels",
    default="",
    envvar="QUIRE_LABELS",
    metavar="LEVEL=NAME,…",
    help="Where the bookie is, by region, zone, rack and host. [default: the host is this machine]",
)
@click.option(
    "--storage",
    type=Pairs(storage_options),
    multiple=True,
    metavar="NAME=VALUE",
    help="A size or time of the storage, such as write-cache-bytes=64MiB; given several times.",
)
@click.option(
    "--limits",
    type=Pairs(service_limits),
    multiple=True,
    metavar="NAME=VALUE",
    help="How much work may be under way at once, such as reads=512; given several times.",
)
@click.option(
    "--insecure-network",
    is_flag=True,
    help="Accept that other machines reach --listen or --listen-runs, which have no TLS.",
)
@auditor_options
@logging_options
@exit_with_parent_option
@with_settings
def serve(
    settings: Settings,
    directory: Path,
    listen: str,
    listen_runs: str | None,
    advertise: str | None,
    metrics: str | None,
    labels: str,
    storage: tuple[tuple[str, float], ...],
    limits: tuple[tuple[str, float], ...],
    insecure_network: bool,
    auditor: OpenAuditor | None,
    logging: LogOutput,
    exit_with_parent: bool,
) -> None:
    """Serve a formatted directory until Ctrl-C.

    Copies of an entry are spread over different racks, zones and regions as far as labels tell them
    apart. Name the host where bookies of one machine see different names, as in containers.

    A port without TLS gives every machine that reaches it the entries of all ledgers. So an address
    other than 127.0.0.1, [::1] and localhost needs --insecure-network.

    One bookie of a cluster is elected to audit: it finds lost bookies and missing copies, and asks
    other bookies for copies (docs/operations.md, Healing).

    \b
    Examples:
      quire bookie serve /var/lib/quire --listen 10.0.0.7:4181 --insecure-network
      quire bookie serve /var/lib/quire --listen 0.0.0.0:4181 \\
          --advertise bookie7 --insecure-network
      quire bookie serve /var/lib/quire --metrics 127.0.0.1:9181
      quire bookie serve /var/lib/quire --labels region=eu,zone=a,rack=r7
    """
    logging.begin()
    allow_descriptors()
    runs = runs_address(listen, listen_runs)
    place = Labels.parse(labels)
    options = build(storage_options(), storage)
    bounds = build(service_limits(), limits)
    where = (directory, listen, runs, insecure_network, advertise, metrics, place)
    work = partial(_serve, settings, *where, options, bounds, auditor)
    run(lambda: until_orphaned(work()) if exit_with_parent else work())


def allow_descriptors() -> None:
    """Raise the limit of open files and connections to the allowed maximum: 1,024 are soon used."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def runs_address(listen: str, listen_runs: str | None) -> str | None:
    """Return the address for runs; by default a free port if `listen` takes one, else None."""
    if listen_runs is None:
        return listen if listen.endswith(":0") else None
    return None if listen_runs == "none" else listen_runs


async def _serve(
    settings: Settings,
    directory: Path,
    listen: str,
    listen_runs: str | None,
    insecure_network: bool,
    advertise: str | None,
    metrics: str | None,
    labels: Labels,
    options: StorageOptions,
    limits: ServiceLimits,
    auditor: OpenAuditor | None,
) -> None:
    from quire.repair.copies import open_copies
    from quire.repair.orders import stored_orders
    from quire.storage.server import serve as serve_bookie
    from quire.storage.serving.vitals import Stage, Vitals

    manager = ServiceManager()

    def tell(stage: Stage, remark: str) -> None:
        status = f"{stage}: {remark}" if remark else str(stage)
        ending = {"STOPPING": "1"} if stage is Stage.ENDING else {}
        manager.tell(STATUS=status, **ending)

    def announce(ready: BookieAddress) -> None:
        manager.tell(READY="1", STATUS=f"serves at {ready.address}")
        if settings.json:
            where = {"address": ready.address, "runs": ready.runs}
            print_json({"bookie": ready.bookie, **where, "pid": os.getpid()})
        else:
            click.echo(f"bookie {ready.bookie} serves {directory} at {ready.address}")
        sys.stdout.flush()

    uri = resolve_store(settings.store_uri())
    async with manager.pulse():
        await serve_bookie(
            *(directory, uri, listen),
            listen_runs=listen_runs,
            insecure_network=insecure_network,
            advertise=advertise,
            on_ready=announce,
            copies=open_copies,
            orders=stored_orders,
            auditor=auditor,
            metrics=metrics,
            labels=labels,
            options=options,
            limits=limits,
            vitals=Vitals(tell),
        )


@bookie.command(short_help="Verify everything on a stopped bookie's disk.")
@_directory
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
@_directory
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
