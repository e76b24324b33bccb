"""`quire certificates`: certificates for clusters of one's own, and a look at any."""

from __future__ import annotations

import ipaddress
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from quire.cli.durations import Duration
from quire.cli.output import Value, print_fields, print_json
from quire.cli.settings import Settings, run, with_settings
from quire.errors import ConfigurationError
from quire.wire.certificates import (
    alternative_names,
    day,
    parse_certificates,
    read_file,
    validity_of,
)
from quire.wire.identity import AmbiguousIdentityError, identity_of
from quire.wire.issuing import AUTHORITY_SECONDS, CA, CERTIFICATE_SECONDS, Authority, Pair

DIRECTORY: Final = "quire-certificates"

_LABEL: Final = "[A-Za-z0-9_-]{1,63}"
_HOST: Final = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
HOST_CHARACTERS_MAX: Final = 253
"""Of a DNS name."""

_directory = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DIRECTORY,
    show_default=True,
    help="Where the authority and the new files are.",
)


def _life(seconds: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--for",
        "seconds",
        type=Duration(least=60.0),
        default=f"{seconds / 86400:.0f}d",
        show_default=True,
        metavar="DURATION",
        help="How long it is valid.",
    )


@click.group(short_help="Make certificates for a cluster, and look at them.")
def certificates() -> None:
    """Make certificates for a cluster, and look at them.

    The authority is made for test clusters, and for small ones. Others take certificates from the
    authority that their machines have; docs/security.md says which names these need.
    """


@certificates.group(short_help="Make an authority, or have it issue a certificate.")
def issue() -> None:
    """Make an authority, or have it issue the certificate of a bookie or a client."""


@issue.command(short_help="Make a new authority.")
@_directory
@_life(AUTHORITY_SECONDS)
@with_settings
def ca(settings: Settings, directory: Path, seconds: float) -> None:
    """Make a new authority: ca.pem is for everyone, ca-key.pem for a safe place.

    \b
    Example:
      quire certificates issue ca --directory /safe/quire
    """
    for file in (directory / f"{CA}.pem", directory / f"{CA}-key.pem"):
        if file.exists():
            raise ConfigurationError(
                f"{file} exists already: move it away first, or give another --directory"
            )
    _write(settings, directory, CA, Authority.make("quire authority", seconds).pair)


@issue.command(short_help="Issue the certificate of a bookie.")
@click.argument("bookie")
@_directory
@_life(CERTIFICATE_SECONDS)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="A name or address to add, for other programs. quire's clients need none. Repeatable.",
)
@with_settings
def bookie(
    settings: Settings, bookie: str, directory: Path, seconds: float, hosts: tuple[str, ...]
) -> None:
    """Issue the certificate of BOOKIE: its id, or the directory that is its disk.

    \b
    Examples:
      quire certificates issue bookie /var/lib/quire
      quire certificates issue bookie 5f2c9e0b7a1d4c338e6f0a9b2d4c6e81 --for 30d
    """
    from quire.storage.identity.identity import ID_DIGITS, bookie_of, is_bookie_id

    is_path = "/" in bookie or os.path.isdir(bookie)
    if not is_path and not is_bookie_id(bookie):
        raise ConfigurationError(
            f"{bookie!r} is neither the id of a bookie, which is {ID_DIGITS} digits 0-9 and a-f, "
            "nor a directory: `quire bookie list --all` prints the ids"
        )
    for each in hosts:
        _check_host(each)
    found = run(lambda: bookie_of(Path(bookie))) if is_path else bookie
    pair = Authority.load(directory).bookie(found, hosts, seconds)
    _write(settings, directory, f"bookie-{found}", pair)


def _check_host(host: str) -> None:
    """Raise `ConfigurationError` for text that no client compares with a name or an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        is_name = _HOST.fullmatch(host) and not host.rpartition(".")[2].isdigit()
        if not is_name or len(host) > HOST_CHARACTERS_MAX:
            raise ConfigurationError(
                f"--host {host!r} is neither a DNS name nor an address: write one such as "
                "bookie7.example.com, xn--bcher-kva.example or 10.0.0.7"
            ) from None


@issue.command(short_help="Issue the certificate of a client.")
@click.argument("name")
@_directory
@_life(CERTIFICATE_SECONDS)
@with_settings
def client(settings: Settings, name: str, directory: Path, seconds: float) -> None:
    """Issue the certificate of a client: a program, a service, or an operator.

    Its identity is quire://client/NAME.

    \b
    Example:
      quire certificates issue client orders
    """
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
        raise ConfigurationError(
            f"{name!r} cannot name a client: letters, digits, '-', '_' and '.' can"
        )
    _write(settings, directory, f"client-{name}", Authority.load(directory).client(name, seconds))


def _write(settings: Settings, directory: Path, name: str, pair: Pair) -> None:
    certificate, key = pair.write(directory, name)
    if settings.json:
        print_json({"certificate": str(certificate), "key": str(key)})
    else:
        click.echo(f"{certificate} is the certificate, {key} its key")


@certificates.command(short_help="Print what a certificate says.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@with_settings
def show(settings: Settings, file: Path) -> None:
    """Print the identity, the names and the life of each certificate in FILE.

    \b
    Example:
      quire certificates show /etc/quire/bookie.pem
    """
    for found in parse_certificates(file, read_file(file)):
        uris, names = alternative_names(found)
        life = validity_of(found)
        try:
            identity = str(identity_of(uris, names))
        except AmbiguousIdentityError:
            identity = ""
        left = life.end - time.time()
        fields: dict[str, Value] = {
            "subject": found.subject.rfc4514_string(),
            "issuer": found.issuer.rfc4514_string(),
            "identity": identity or None,
            "names": ", ".join([*uris, *names]) or None,
            "from": day(life.begin),
            "until": day(life.end),
            "days_left": round(left / 86400, 1),
            "serial": f"{found.serial_number:x}",
        }
        if settings.json:
            print_json(fields)
        else:
            print_fields(fields)
