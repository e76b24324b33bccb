"""`quire cluster`: a cluster on this machine, and what clients see of any cluster."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import click

from quire.cli.output import Value, note, print_json, print_table, progress
from quire.cli.settings import (
    DEFAULT_DATA,
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.cluster import LocalCluster


@click.group()
def cluster() -> None:
    """Run a cluster on this machine, or look at one."""


@cluster.command()
@click.option("--bookies", default=6, show_default=True, help="How many bookies to run.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(DEFAULT_DATA),
    show_default=True,
    help="Directory of the cluster; created when missing, kept afterwards.",
)
@click.option("--temporary", is_flag=True, help="Use a temporary directory, removed at the end.")
@click.option(
    "--metadata",
    metavar="URI",
    help="Metadata store to use, such as zk://host:2181/root. [default: SQLite in the directory]",
)
@exit_with_parent_option
@with_settings
def up(
    settings: Settings,
    bookies: int,
    data: Path,
    temporary: bool,
    metadata: str | None,
    exit_with_parent: bool,
) -> None:
    """Run bookies on this machine until Ctrl-C.

    What was written is kept in the directory and served again by the next `cluster up`.
    --store and QUIRE_STORE have no say here: a cluster has its own store unless --metadata names
    another.

    \b
    Example:
      quire cluster up --bookies 6 --data ./quire-data
    """
    local = LocalCluster(None if temporary else data, bookies, store=metadata)
    run(lambda: until_orphaned(_up(settings, local)) if exit_with_parent else _up(settings, local))


async def _up(settings: Settings, local: LocalCluster) -> None:
    kept = not local.is_temporary
    with progress(f"Starting {local.bookies} bookies", local.bookies) as advance:
        await local.start(lambda _: advance(1))
    try:
        _announce(settings, local, kept)
        while True:
            death = await local.next_death()
            note(f"bookie {death.index} is gone: {death.last_words}")
    finally:
        await local.stop()
        if kept:
            note(f"Stopped. The data is kept in {local.directory}: `quire cluster up` resumes it.")
        else:
            note(f"Stopped. The temporary directory {local.directory} was removed.")


def _announce(settings: Settings, local: LocalCluster, kept: bool) -> None:
    rows = [
        (index, ready.bookie, ready.address, local.pid(index))
        for index in range(local.bookies)
        if (ready := local.ready(index))
    ]
    if settings.json:
        names = ("index", "bookie", "address", "pid")
        bookies: list[Value] = [dict(zip(names, row, strict=True)) for row in rows]
        print_json(
            {"store": local.store_uri, "directory": str(local.directory), "bookies": bookies}
        )
        return
    print_table(("", "bookie", "address", "pid"), rows, empty="")
    where = "." if kept else ", which is temporary and will be removed."
    click.echo(f"\n{local.bookies} bookies are up in {local.directory}{where}")
    click.echo("Use it from another terminal:\n")
    click.echo(f"  export QUIRE_STORE={shlex.quote(local.store_uri)}")
    click.echo("  echo hello | quire log append greetings")
    click.echo("  quire log tail greetings\n\nCtrl-C stops everything.")


@cluster.command()
@with_settings
def status(settings: Settings) -> None:
    """Say how a cluster is doing: its bookies, and what is in it.

    \b
    Example:
      quire cluster status --store ./quire-data
    """
    run(lambda: _status(settings))


async def _status(settings: Settings) -> None:
    async with settings.connect() as client:
        bookies = client.bookies()
        logs, ledgers = await asyncio.gather(client.list_logs(), client.list_ledgers())
        writable = sum(bookie.writable for bookie in bookies)
        if settings.json:
            print_json(
                {
                    "store": client.store_uri,
                    "bookies": len(bookies),
                    "writable": writable,
                    "logs": len(logs),
                    "ledgers": len(ledgers),
                }
            )
            return
        click.echo(f"store    {client.store_uri}")
        click.echo(f"bookies  {len(bookies)} registered, {writable} of them writable")
        click.echo(f"content  {len(logs)} logs, {len(ledgers)} ledgers")
