"""The outermost command: global options and the table of commands."""

from __future__ import annotations

from typing import Final

import click

from quire.cli.chosen import config_option, context_option, raise_what_is_wrong
from quire.cli.exits import JSON_VARIABLE, RootGroup
from quire.cli.later import Commands
from quire.cli.settings import Settings, json_option, store_option
from quire.cli.tls import tls_options
from quire.cli.variables import ROOT, name_variables
from quire.version import __version__, is_compiled
from quire.wire.certificates import TlsOptions

PLACES: Final = {
    "cluster": "quire.cli.cluster:cluster",
    "bookie": "quire.cli.bookie:bookie",
    "log": "quire.cli.log:log",
    "ledger": "quire.cli.ledger:ledger",
    "election": "quire.cli.election:election",
    "metadata": "quire.cli.metadata:metadata",
    "healing": "quire.cli.healing:healing",
    "autorecovery": "quire.cli.auditing:autorecovery",
    "dump": "quire.cli.dump:dump",
    "bench": "quire.cli.bench:bench",
    "spark": "quire.cli.spark:spark",
    "config": "quire.cli.config:config",
    "context": "quire.cli.context:context",
    "gateway": "quire.cli.gateway:gateway",
    "console": "quire.cli.console:console",
    "top": "quire.cli.top:top",
    "certificates": "quire.cli.certificates:certificates",
    "rights": "quire.cli.rights:rights",
    "pulsar": "quire.cli.pulsar:pulsar",
    "dlog": "quire.cli.dlog:dlog",
}
"""Where each command is. A process imports the one that its arguments name."""

_BUILD: Final = " (compiled)" if is_compiled() else ""


@click.group(
    cls=RootGroup,
    commands=Commands(PLACES),
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": ROOT},
)
@click.version_option(
    __version__, prog_name="quire", message=f"%(prog)s, version %(version)s{_BUILD}"
)
@config_option
@context_option
@store_option(envvar="QUIRE_STORE")
@json_option(envvar=JSON_VARIABLE)
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


name_variables(main, ROOT)
