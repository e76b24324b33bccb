"""Options of replication and protection, shared by ledger and log commands."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from quire.ledger.quorum import Replication
from quire.log.records.keyring import Keyring, read_key_file

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def _as_bytes(context: click.Context, parameter: click.Parameter, value: str | None) -> bytes:
    return os.fsencode(value or "")


password_option = click.option(
    "--password",
    envvar="QUIRE_PASSWORD",
    callback=_as_bytes,
    help="Password of the ledger or log. [env: QUIRE_PASSWORD, hidden from other users]",
)


def _as_keyring(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> Keyring | None:
    return None if value is None else read_key_file(value)


key_file_option = click.option(
    "--key-file",
    "keyring",
    envvar="QUIRE_KEY_FILE",
    metavar="FILE",
    callback=_as_keyring,
    help="Keys of an encrypted log: a line each, its id and 64 hexadecimal digits; the first key "
    "encrypts. [env: QUIRE_KEY_FILE]",
)


key_path_option = click.option(
    "--key-file",
    envvar="QUIRE_KEY_FILE",
    metavar="FILE",
    help="Keys of an encrypted log, in a file that every worker has. [env: QUIRE_KEY_FILE]",
)


def replication_options(command: FunctionT) -> Callable[..., Any]:
    """Give a command `--ensemble`, `--write-quorum` and `--ack-quorum`, passed as `replication`."""

    @click.option(
        "--ensemble", default=3, show_default=True, help="Bookies a ledger is spread over."
    )
    @click.option("--write-quorum", default=3, show_default=True, help="Copies of every entry.")
    @click.option("--ack-quorum", default=2, show_default=True, help="Copies before it counts.")
    @functools.wraps(command)
    def wrapped(
        *args: Any, ensemble: int, write_quorum: int, ack_quorum: int, **kwargs: Any
    ) -> Any:
        replication = Replication(ensemble, write_quorum, ack_quorum)
        return command(*args, replication=replication, **kwargs)

    return wrapped
