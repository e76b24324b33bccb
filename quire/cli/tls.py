"""The options of TLS, of all commands and of the servers among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from quire.cli.chosen import ContextOption
from quire.errors import ConfigurationError
from quire.wire.certificates import TlsMode, TlsOptions

_FILE = click.Path(dir_okay=False, path_type=Path)
_option = partial(click.option, cls=ContextOption)


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of TLS; it takes them as `tls`, None for none."""

    @_option("--tls-cert", type=_FILE, metavar="FILE", help="Own certificate, PEM.")
    @_option("--tls-key", type=_FILE, metavar="FILE", help="Its private key, PEM.")
    @_option(
        "--tls-ca", type=_FILE, metavar="FILE", help="Certificates of trusted authorities, PEM."
    )
    @_option(
        *("--tls", "tls_mode"),
        type=click.Choice([mode.value for mode in TlsMode]),
        help="With certificates: whether connections without TLS are possible too. "
        f"[default: {TlsMode.REQUIRED.value}]",
    )
    @wraps(command)
    def wrapped(
        *args: Any,
        tls_cert: Path | None,
        tls_key: Path | None,
        tls_ca: Path | None,
        tls_mode: str | None,
        **kwargs: Any,
    ) -> Any:
        return command(*args, tls=together(tls_cert, tls_key, tls_ca, tls_mode), **kwargs)

    return wrapped


def together(
    certificate: Path | None, key: Path | None, ca: Path | None, mode: str | None
) -> TlsOptions | None:
    """Return the options as one value; None without files.

    Raises:
        ConfigurationError: one of the files is not given, and another is, or the mode.
    """
    if certificate is not None and key is not None and ca is not None:
        return TlsOptions(certificate, key, ca, TlsMode(mode or TlsMode.REQUIRED))
    if certificate is None and key is None and ca is None:
        if mode is None:
            return None
        raise ConfigurationError(
            f"--tls {mode} needs --tls-cert, --tls-key and --tls-ca; the directory of a local "
            "cluster with TLS needs none of these options"
        )
    raise ConfigurationError("--tls-cert, --tls-key and --tls-ca belong together: give all three")
