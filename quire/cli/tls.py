"""The options of TLS, of all commands and of the servers among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from quire.errors import ConfigurationError
from quire.wire.certificates import TlsMode, TlsOptions

_FILE = click.Path(dir_okay=False, path_type=Path)


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of TLS; it takes them as `tls`, None for none."""

    @click.option("--tls-cert", type=_FILE, metavar="FILE", help="Own certificate, PEM.")
    @click.option("--tls-key", type=_FILE, metavar="FILE", help="Its private key, PEM.")
    @click.option(
        "--tls-ca", type=_FILE, metavar="FILE", help="Certificates of trusted authorities, PEM."
    )
    @click.option(
        "--tls",
        "tls_mode",
        type=click.Choice([mode.value for mode in TlsMode]),
        default=TlsMode.REQUIRED.value,
        show_default=True,
        help="With certificates: whether connections without TLS are possible too.",
    )
    @wraps(command)
    def wrapped(
        *args: Any,
        tls_cert: Path | None,
        tls_key: Path | None,
        tls_ca: Path | None,
        tls_mode: str,
        **kwargs: Any,
    ) -> Any:
        return command(*args, tls=together(tls_cert, tls_key, tls_ca, tls_mode), **kwargs)

    return wrapped


def together(
    certificate: Path | None, key: Path | None, ca: Path | None, mode: str
) -> TlsOptions | None:
    """Return the options as one value; None without files.

    Raises:
        ConfigurationError: one of the files is not given, and another is.
    """
    if certificate is not None and key is not None and ca is not None:
        return TlsOptions(certificate, key, ca, TlsMode(mode))
    if certificate is None and key is None and ca is None:
        return None
    raise ConfigurationError("--tls-cert, --tls-key and --tls-ca belong together: give all three")
