"""`quire gateway`: logs over HTTP."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from quire.cli.bookie import allow_descriptors
from quire.cli.logs import LogOutput, logging_options
from quire.cli.output import print_json
from quire.cli.pairs import Pairs, build
from quire.cli.settings import (
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.errors import ConfigurationError
from quire.gateway.limits import GatewayLimits

LOOPBACK = ("127.", "localhost", "[::1]")


@click.group(short_help="Serve logs over HTTP.")
def gateway() -> None:
    """Serve logs over HTTP, for programs that are not written in Python."""


@gateway.command(short_help="Serve logs over HTTP until Ctrl-C.")
@click.option(
    "--listen",
    default="127.0.0.1:8180",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve on; port 0 takes a free one.",
)
@click.option(
    "--advertise",
    metavar="URL",
    help="URL that other gateways send clients to. [default: http:// and --listen]",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with tokens, one a line: a request needs one, as Authorization: Bearer TOKEN.",
)
@click.option(
    "--limits",
    type=Pairs(lambda: GatewayLimits),
    multiple=True,
    metavar="NAME=VALUE",
    help="How much may be under way at once, such as requests=512; given several times.",
)
@logging_options
@exit_with_parent_option
@with_settings
def serve(
    settings: Settings,
    listen: str,
    advertise: str | None,
    token_file: Path | None,
    limits: tuple[tuple[str, float], ...],
    logging: LogOutput,
    exit_with_parent: bool,
) -> None:
    """Serve logs over HTTP until Ctrl-C.

    A log is written by one gateway at a time, and read by all. Start several gateways and give
    clients any of them: a request to append is sent on to the gateway that writes the log.

    \b
    Examples:
      quire gateway serve
      quire gateway serve --listen 127.0.0.1:8180 --token-file /etc/quire/tokens
    """
    host, port = _address(listen)
    tokens = read_tokens(token_file)
    if not tokens and not host.startswith(LOOPBACK):
        raise ConfigurationError(
            f"{listen} can be reached from other machines: name --token-file, so that not every "
            "program there reads and writes all logs"
        )
    logging.begin()
    allow_descriptors()
    bounds = build(GatewayLimits, limits)
    work = partial(_serve, settings, host, port, advertise, tokens, bounds)
    run(lambda: until_orphaned(work()) if exit_with_parent else work())


async def _serve(
    settings: Settings,
    host: str,
    port: int,
    advertise: str | None,
    tokens: tuple[str, ...],
    limits: GatewayLimits,
) -> None:
    from quire.gateway.server import serve_gateway

    def announce(address: str) -> None:
        if settings.json:
            print_json({"gateway": address})
        else:
            click.echo(f"gateway answers at {address}; its calls are in {address}/v1/openapi.json")
        sys.stdout.flush()

    where = (settings.store_uri(), host, port)
    await serve_gateway(
        *where, advertise=advertise, tokens=tokens, limits=limits, on_ready=announce
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()):
        raise ConfigurationError(f"{text!r} is not an address: write HOST:PORT")
    return host, int(port)


def read_tokens(file: Path | None) -> tuple[str, ...]:
    """Return the tokens of a file. Raises `ConfigurationError` for a file without one."""
    if file is None:
        return ()
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigurationError(f"tokens of {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not text: write one token a line") from None
    tokens = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not tokens:
        raise ConfigurationError(f"{file} has no token: write one a line")
    return tokens
