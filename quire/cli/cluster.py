"""`quire cluster`: a cluster on this machine, and what clients see of any cluster."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from quire.aio.tasks import first_of
from quire.cli.console import Beside, console_beside
from quire.cli.health import gather, healing_fields, healing_text, health, states_text
from quire.cli.output import Value, note, print_json, print_table, progress
from quire.cli.rolling import roll_check
from quire.cli.settings import (
    DEFAULT_DATA,
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.cli.upgrade import upgrade
from quire.cluster import LocalCluster
from quire.cluster.zookeeper.ensemble import SIZES
from quire.healing.state import LOST_SECONDS
from quire.healing.verdict import health as judge
from quire.labels import Labels
from quire.metastore.zookeeper_probe import ServerStatus
from quire.view.gather import zookeepers


@click.group(short_help="Run a cluster on this machine, or look at one.")
def cluster() -> None:
    """Run a cluster on this machine, or look at one."""


cluster.add_command(health)
cluster.add_command(upgrade)
cluster.add_command(roll_check)


@cluster.command(short_help="Run bookies on this machine until Ctrl-C.")
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
@click.option(
    "--zookeeper",
    type=click.Choice([str(size) for size in SIZES]),
    is_flag=False,
    flag_value="1",
    metavar="[N]",
    help="Run ZooKeeper as metadata store: one server, or 3 or 5.",
)
@click.option(
    "--zookeeper-jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with ZooKeeper's jars. [default: the jars of pyspark]",
)
@click.option(
    "--labels",
    multiple=True,
    metavar="LEVEL=NAME,…",
    help="Labels for the bookies, given several times: the bookies take them in turn.",
)
@click.option(
    "--console",
    "with_console",
    is_flag=True,
    help="Serve pages about the cluster, too, and open them where there is a browser.",
)
@click.option("--tls", is_flag=True, help="Mutual TLS, with certificates made for the cluster.")
@exit_with_parent_option
@with_settings
def up(
    settings: Settings,
    bookies: int,
    data: Path,
    temporary: bool,
    metadata: str | None,
    zookeeper: str | None,
    zookeeper_jars: Path | None,
    labels: tuple[str, ...],
    with_console: bool,
    tls: bool,
    exit_with_parent: bool,
) -> None:
    """Run bookies on this machine until Ctrl-C.

    The data is kept in the directory, and the next `cluster up` serves it again. --store and
    QUIRE_STORE are ignored here: a cluster has its own store unless --metadata names another.

    With --tls the directory has certificates in `tls/`. A client that names the directory as its
    store finds them there; others need the files (`quire --tls-cert …`).

    \b
    Examples:
      quire cluster up --bookies 6 --data ./quire-data
      quire cluster up --zookeeper 3 --data ./quire-zookeeper
      quire cluster up --labels rack=r1 --labels rack=r2 --labels rack=r3
      quire cluster up --console
    """
    beside = console_beside(settings) if with_console else None
    make = partial(
        LocalCluster,
        None if temporary else data,
        bookies,
        store=metadata,
        zookeeper=int(zookeeper) if zookeeper else None,
        zookeeper_jars=zookeeper_jars,
        labels=[Labels.parse(each) for each in labels],
        tls=tls,
    )
    work = partial(_up, settings, make, beside)
    run(lambda: until_orphaned(work()) if exit_with_parent else work())


async def _up(settings: Settings, make: Callable[[], LocalCluster], beside: Beside | None) -> None:
    local = make()  # here: no signal ends this process before a temporary directory has an owner
    kept = not local.is_temporary
    with progress(f"Starting {local.bookies} bookies", local.bookies) as advance:
        await local.start(lambda _: advance(1))
    try:
        _announce(settings, local, kept)
        if beside is None:
            await _tell_deaths(local)
        else:
            await first_of(_tell_deaths(local), beside(local.store_uri, local.tls))
    finally:
        await local.stop()
        if kept:
            note(f"Stopped. The data is kept in {local.directory}: the same command resumes it.")
        else:
            note(f"Stopped. The temporary directory {local.directory} was removed.")


async def _tell_deaths(local: LocalCluster) -> None:
    while True:
        death = await local.next_death()
        note(f"{death.who} is gone: {death.last_words}")


def _announce(settings: Settings, local: LocalCluster, kept: bool) -> None:
    rows = [
        (index, ready.bookie, ready.address, local.pid(index))
        for index in range(local.bookies)
        if (ready := local.ready(index))
    ]
    servers = [
        (number, server.address, server.pid)
        for number, server in enumerate(
            local.zookeeper.ensemble.servers if local.zookeeper else [], start=1
        )
    ]
    if settings.json:
        names = ("index", "bookie", "address", "pid")
        bookies: list[Value] = [dict(zip(names, row, strict=True)) for row in rows]
        print_json(
            {
                "store": store_of(local),
                "directory": str(local.directory),
                "bookies": bookies,
                "zookeeper": [
                    dict(zip(("number", "address", "pid"), row, strict=True)) for row in servers
                ],
            }
        )
        return
    print_table(("", "bookie", "address", "pid"), rows, empty="")
    if servers:
        click.echo()
        print_table(("", "ZooKeeper", "pid"), servers, empty="")
    where = "." if kept else ", which is temporary and will be removed."
    click.echo(f"\n{local.bookies} bookies are up in {local.directory}{where}")
    click.echo("Use it from another terminal:\n")
    click.echo(f"  export QUIRE_STORE={shlex.quote(store_of(local))}")
    click.echo("  echo hello | quire log append greetings")
    click.echo("  quire log tail greetings\n\nCtrl-C stops everything.")


def store_of(local: LocalCluster) -> str:
    """Return the name under which a client finds the store, and its certificates if it needs some:
    they are in the directory.
    """
    return str(local.directory.resolve()) if local.tls else local.store_uri


@cluster.command(short_help="Show a cluster's bookies and contents.")
@with_settings
def status(settings: Settings) -> None:
    """Show how many bookies, logs and ledgers a cluster has, and its health.

    \b
    Example:
      quire cluster status --store ./quire-data
    """
    run(lambda: _status(settings))


async def _status(settings: Settings) -> None:
    async with settings.connect() as client:
        bookies = client.bookies()
        logs, ledgers, servers, facts = await asyncio.gather(
            client.list_logs(),
            client.list_ledgers(),
            zookeepers(client.store_uri),
            gather(client, LOST_SECONDS),
        )
        verdict = judge(facts)
        writable = sum(bookie.writable for bookie in bookies)
        if settings.json:
            print_json(
                {
                    "store": client.store_uri,
                    "bookies": len(bookies),
                    "writable": writable,
                    "health": str(verdict.severity),
                    "states": {str(state): count for state, count in facts.states().items()},
                    "healing": healing_fields(facts),
                    "logs": len(logs),
                    "ledgers": len(ledgers),
                    "zookeeper": [
                        {"address": address, "mode": found.mode if found else None}
                        for address, found in servers
                    ],
                }
            )
            return
        click.echo(f"store    {client.store_uri}")
        for address, found in servers:
            click.echo(f"         {address}  {_describe(found)}")
        click.echo(f"bookies  {len(bookies)} registered, {writable} of them writable")
        click.echo(f"         {states_text(facts)}")
        click.echo(f"content  {len(logs)} logs, {len(ledgers)} ledgers")
        click.echo(f"healing  {healing_text(facts)}")
        click.echo(f"health   {verdict.summary}")
        if verdict.findings:
            note("`quire cluster health` gives the reasons and remedies.")


def _describe(status: ServerStatus | None) -> str:
    if status is None:
        return "no answer to srvr"
    return f"{status.mode}, ZooKeeper {status.version}, {status.records} records"
