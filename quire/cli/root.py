"""The outermost command: global options and the table of commands."""

from __future__ import annotations

import click

from quire.cli.bench import bench
from quire.cli.bookie import bookie
from quire.cli.cluster import cluster
from quire.cli.dump import dump
from quire.cli.election import election
from quire.cli.exits import RootGroup
from quire.cli.healing import healing
from quire.cli.ledger import ledger
from quire.cli.log import log
from quire.cli.metadata import metadata
from quire.cli.settings import Settings, json_option, store_option
from quire.cli.spark import spark
from quire.version import __version__


@click.group(cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="quire", prog_name="quire")
@store_option(envvar="QUIRE_STORE")
@json_option
@click.pass_context
def main(context: click.Context, store: str | None, as_json: bool) -> None:
    """A replicated log for Python.

    \b
    Try it:
      quire cluster up             # in one terminal: six bookies in ./quire-data
      echo hello | quire log append greetings
      quire log read greetings
    """
    context.obj = Settings(store, as_json)


for _command in (cluster, bookie, log, ledger, election, metadata, healing, dump, bench, spark):
    main.add_command(_command)
