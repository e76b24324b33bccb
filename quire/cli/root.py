"""The outermost command: global options and the table of commands."""

from __future__ import annotations

import click

from quire.cli.auditing import autorecovery
from quire.cli.bench import bench
from quire.cli.bookie import bookie
from quire.cli.certificates import certificates
from quire.cli.chosen import config_option, context_option, raise_what_is_wrong
from quire.cli.cluster import cluster
from quire.cli.config import config
from quire.cli.console import console
from quire.cli.context import context as context_group
from quire.cli.dump import dump
from quire.cli.election import election
from quire.cli.exits import RootGroup
from quire.cli.gateway import gateway
from quire.cli.healing import healing
from quire.cli.ledger import ledger
from quire.cli.log import log
from quire.cli.metadata import metadata
from quire.cli.pulsar import pulsar
from quire.cli.rights import rights
from quire.cli.settings import Settings, json_option, store_option
from quire.cli.spark import spark
from quire.cli.tls import tls_options
from quire.cli.top import top
from quire.version import __version__
from quire.wire.certificates import TlsOptions


@click.group(
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "QUIRE"},
)
@click.version_option(__version__, package_name="quire", prog_name="quire")
@config_option
@context_option
@store_option(envvar="QUIRE_STORE")
@json_option(envvar="QUIRE_JSON")
@tls_options
@click.pass_context
def main(
    context: click.Context,
    store: str | None,
    as_json: bool,
    tls: TlsOptions | None,
    config: str | None,
    context_name: str | None,
) -> None:
    """A replicated log for Python.

    \b
    Try it:
      quire cluster up             # in one terminal: six bookies in ./quire-data
      echo hello | quire log append greetings
      quire log read greetings
    """
    context.obj = Settings(store, as_json, tls)
    assert isinstance(context.command, RootGroup), "made so above"
    context.command.errors_as_json |= as_json
    if context.invoked_subcommand not in ("config", "context"):  # they look at a file that is wrong
        raise_what_is_wrong(context)


for _command in (
    *(cluster, bookie, log, ledger, election, metadata, healing, autorecovery, dump, bench, spark),
    *(config, context_group, gateway, console, top, certificates, rights),
    *(pulsar,),
):
    main.add_command(_command)
