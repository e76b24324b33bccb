"""`quire console`: pages about a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from quire.cli.gateway import read_tokens
from quire.cli.health import ensemble_option, lost_after_option
from quire.cli.logs import LogOutput, logging_options
from quire.cli.output import print_json
from quire.cli.serving import allow_descriptors
from quire.cli.settings import (
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.wire.certificates import TlsOptions, local_tls

if TYPE_CHECKING:
    from quire.console.server import ConsoleOptions

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Serve pages about a cluster.")
@click.option(
    "--listen",
    default="127.0.0.1:8190",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve on; port 0 takes a free one.",
)
@click.option(
    "--token-file",
    type=_FILE,
    help="File with tokens, one a line: a request needs one. [default: a new token is printed]",
)
@click.option("--certificate", type=_FILE, help="Certificate to serve over TLS with.")
@click.option("--key", type=_FILE, help="Private key of the certificate.")
@click.option(
    "--insecure-network",
    is_flag=True,
    help="Accept that other machines reach --listen without TLS. Needs --token-file.",
)
@click.option("--no-records", is_flag=True, help="Show no payload of any record.")
@click.option(
    "--gateway-token-file",
    type=_FILE,
    help="File with a token for gateways that ask for one; its first line counts.",
)
@ensemble_option
@lost_after_option
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@logging_options
@exit_with_parent_option
@with_settings
def console(
    settings: Settings,
    listen: str,
    token_file: Path | None,
    certificate: Path | None,
    key: Path | None,
    insecure_network: bool,
    no_records: bool,
    gateway_token_file: Path | None,
    ensemble: int,
    lost_after: float,
    opens: bool,
    logging: LogOutput,
    exit_with_parent: bool,
) -> None:
    """Serve pages about a cluster until Ctrl-C: health, bookies, logs, healing.

    A console only reads. It reads with the rights of this process, so each request needs a token:
    the printed address has a new one, or --token-file has them.

    \b
    Examples:
      quire console
      quire console --open --store zk://zoo1:2181/quire
      quire console --listen 0.0.0.0:8190 --certificate c.pem --key k.pem \\
          --token-file /etc/quire/tokens
    """
    from quire.console.server import ConsoleOptions

    logging.begin()
    options = ConsoleOptions(
        *(listen, read_tokens(token_file), certificate, key, insecure_network, not no_records),
        lost_seconds=lost_after,
        ensemble=ensemble,
        gateway_token=next(iter(read_tokens(gateway_token_file)), None),
        tls=settings.tls or local_tls(settings.store_uri()),
    )
    work = partial(show, settings.store_uri(), options, partial(announce, settings, opens=opens))
    run(lambda: until_orphaned(work()) if exit_with_parent else work())


async def show(
    store: str, options: ConsoleOptions, on_ready: Callable[[str, str | None], None]
) -> None:
    """Serve a console until cancelled. Its process then takes as many descriptors as it may."""
    from quire.console.server import serve_console

    allow_descriptors()
    await serve_console(store, options, on_ready)


Beside: TypeAlias = Callable[[str, TlsOptions | None], Coroutine[Any, Any, None]]
"""Serves a console of the cluster at a store's URI, with a certificate for its bookies."""


def console_beside(settings: Settings) -> Beside:
    """Return a console to serve beside a local cluster, on a free port of this machine.

    Raises `MissingExtraError`, before the cluster is started.
    """
    from quire.console.server import ConsoleOptions

    ready = partial(announce, settings, opens=True)
    return lambda store, tls: show(store, ConsoleOptions("127.0.0.1:0", tls=tls), ready)


def announce(settings: Settings, address: str, token: str | None, *, opens: bool = False) -> None:
    """Say where the console is; with `opens`, show it in a browser where there is one."""
    link = address if token is None else f"{address}/open?token={token}"
    if settings.json:
        print_json({"console": address, "token": token})
    else:
        click.echo(f"console is at {link}")
    sys.stdout.flush()
    if opens:
        open_in_browser(link)


def open_in_browser(link: str) -> bool:
    """Open a page in a browser with windows; return whether there is one. The address was printed:
    a machine without windows needs no other word.
    """
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return False
    return click.launch(link) == 0
