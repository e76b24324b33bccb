"""`quire gateway`: logs over HTTP, gRPC and Kafka's protocol."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from quire.cli.logs import LogOutput, logging_options
from quire.cli.output import print_json
from quire.cli.pairs import Pairs, build
from quire.cli.serving import allow_descriptors
from quire.cli.settings import (
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.errors import ConfigurationError
from quire.gateway.limits import GatewayLimits
from quire.gateway.tokens import Token, parse_tokens

if TYPE_CHECKING:
    from quire.gateway.place import GatewayPlace


_FILE: Final = click.Path(dir_okay=False, path_type=Path)


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
    "--kafka",
    metavar="HOST:PORT",
    help="Serve Kafka's clients there, too: a log is a topic with one partition.",
)
@click.option(
    "--kafka-advertise",
    metavar="HOST:PORT",
    help="Address that Kafka's clients are told. [default: --kafka]",
)
@click.option(
    "--kafka-certificate",
    type=_FILE,
    help="Certificate to serve Kafka's clients over TLS with.",
)
@click.option("--kafka-key", type=_FILE, help="Private key of that certificate.")
@click.option("--grpc", metavar="HOST:PORT", help="Serve gRPC there, too.")
@click.option(
    "--grpc-advertise",
    metavar="HOST:PORT",
    help="Address that clients of gRPC are sent to. [default: --grpc]",
)
@click.option("--grpc-certificate", type=_FILE, help="Certificate to serve gRPC over TLS with.")
@click.option("--grpc-key", type=_FILE, help="Private key of that certificate.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with tokens, one a line, each with the identity of its holder: a request needs one, "
    "as Authorization: Bearer TOKEN.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Pages of this origin may use the gateway from a browser, such as "
    "https://app.example.com; given several times. '*' needs --token-file.",
)
@click.option(
    "--insecure-network",
    is_flag=True,
    help="Accept that other machines reach --listen, which has no TLS. Needs --token-file.",
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
    kafka: str | None,
    kafka_advertise: str | None,
    kafka_certificate: Path | None,
    kafka_key: Path | None,
    grpc: str | None,
    grpc_advertise: str | None,
    grpc_certificate: Path | None,
    grpc_key: Path | None,
    token_file: Path | None,
    origins: tuple[str, ...],
    insecure_network: bool,
    limits: tuple[tuple[str, float], ...],
    logging: LogOutput,
    exit_with_parent: bool,
) -> None:
    """Serve logs over HTTP until Ctrl-C.

    A log is written by one gateway at a time, and read by all. Start several gateways and give
    clients any of them: a request to append is sent on to the gateway that writes the log.

    A port without TLS gives every machine that reaches it the tokens and records of all requests.
    So an address other than 127.0.0.1, [::1] and localhost needs --insecure-network.

    \b
    Examples:
      quire gateway serve
      quire gateway serve --listen 127.0.0.1:8180 --token-file /etc/quire/tokens
      quire gateway serve --kafka 127.0.0.1:9092 --grpc 127.0.0.1:8190
    """
    tokens = read_tokens(token_file)
    logging.begin()
    allow_descriptors()
    bounds = build(GatewayLimits, limits)
    doors = Doors(
        *(listen, advertise, kafka, kafka_advertise, kafka_certificate, kafka_key),
        *(grpc, grpc_advertise, grpc_certificate, grpc_key),
    )
    doors.check()
    work = partial(_serve, settings, doors, insecure_network, tokens, origins, bounds)
    run(lambda: until_orphaned(work()) if exit_with_parent else work())


class Doors(NamedTuple):
    """Where a gateway listens, and which addresses it tells."""

    listen: str
    advertise: str | None
    kafka: str | None
    kafka_advertise: str | None
    kafka_certificate: Path | None
    kafka_key: Path | None
    grpc: str | None
    grpc_advertise: str | None
    grpc_certificate: Path | None
    grpc_key: Path | None

    def check(self) -> None:
        """Raise `ConfigurationError` for an option of a port that is not served."""
        for name, value in self._asdict().items():
            port, _, rest = name.partition("_")
            if rest and value is not None and getattr(self, port) is None:
                raise ConfigurationError(f"--{port}-{rest} needs --{port}")


async def _serve(
    settings: Settings,
    doors: Doors,
    insecure_network: bool,
    tokens: tuple[Token, ...],
    origins: tuple[str, ...],
    limits: GatewayLimits,
) -> None:
    from quire.gateway.server import serve_gateway

    def announce(place: GatewayPlace) -> None:
        if settings.json:
            print_json({"gateway": place.url, "kafka": place.kafka, "grpc": place.grpc})
        else:
            url = place.url
            click.echo(f"gateway answers at {url}; its calls are in {url}/v1/openapi.json")
            if place.kafka is not None:
                click.echo(f"Kafka's clients are answered at {place.kafka}")
            if place.grpc is not None:
                click.echo(f"gRPC is answered at {place.grpc}")
        sys.stdout.flush()

    ports = doors._asdict()
    await serve_gateway(
        *(settings.store_uri(), ports.pop("listen")),
        **ports,
        insecure_network=insecure_network,
        tokens=tokens,
        origins=origins,
        limits=limits,
        on_ready=announce,
        tls=settings.tls,
    )


def read_tokens(file: Path | None) -> tuple[Token, ...]:
    """Return the tokens of a file. Raises `ConfigurationError` for a file without one."""
    if file is None:
        return ()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"tokens of {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not text: write one token a line") from None
    return parse_tokens(str(file), text)
