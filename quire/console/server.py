"""A console as a process: client, sampler and HTTP server put together.

A console listens on this machine alone. An address of the network needs a certificate of the
console's own, or the consent of the operator as every server does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from quire.client import Client
from quire.connection import connect
from quire.console.access import TokenGuard, new_token
from quire.console.app import Console
from quire.console.calls import ConsoleSource
from quire.console.sampler import Sampler
from quire.errors import ConfigurationError
from quire.extras import needed_for
from quire.gateway.space import ConnectionPlaces
from quire.gateway.tokens import Token
from quire.healing.state import LOST_SECONDS
from quire.healing.verdict import ENSEMBLE
from quire.rights.guard import Guard, guarding
from quire.wire.certificates import TlsOptions
from quire.wire.descriptors import connections_max, descriptors_max
from quire.wire.exposure import exposed, is_loopback
from quire.wire.tls import serving_context
from quire.wire.transport import split_address

with needed_for("quire console", "console"):
    from quire.http_server import bind, serve_application

LISTEN: Final = "127.0.0.1:8190"

CONNECTIONS_MAX: Final = 1024
"""Connections of browsers and programs if there are enough descriptors, a quarter of them without a
permitted request so far. A browser makes six.
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """How a console is served.

    Attributes:
        listen: host:port to listen on; port 0 takes a free one.
        tokens: a request needs one of them, and has the rights of its holder; empty: a new one is
            drawn and told, with all rights of the console.
        certificate: a file with the console's certificate; with `key`, browsers come over TLS.
        key: a file with its private key.
        insecure_network: accept an address that other machines reach without TLS.
        shows_records: whether the payloads of records are shown.
        lost_seconds: the silence after which a bookie counts as lost.
        ensemble: how many writable bookies a new ledger needs.
        gateway_token: shown to gateways that ask for one; it should allow to observe and no more.
        tls: the console's certificate for its connections to bookies, as for `connect`.
    """

    listen: str = LISTEN
    tokens: Sequence[Token] = ()
    certificate: Path | None = None
    key: Path | None = None
    insecure_network: bool = False
    shows_records: bool = True
    lost_seconds: float = LOST_SECONDS
    ensemble: int = ENSEMBLE
    gateway_token: Token | None = None
    tls: TlsOptions | None = None


async def serve_console(
    store: str, options: ConsoleOptions, on_ready: Callable[[str, str | None], None]
) -> None:
    """Serve pages about a cluster until cancelled.

    Args:
        store: the metadata store of the cluster.
        options: how to serve them.
        on_ready: called with the address, and the token if it was drawn, once requests are
            answered.

    Raises:
        ConfigurationError: the address cannot be used, or needs consent or a certificate, or the
            certificate cannot be used.
        QuireError: the errors of `connect`.
    """
    tls = _tls_of(options)
    check_exposure(options)
    drawn = None if options.tokens else new_token()
    tokens = options.tokens if drawn is None else (Token(drawn),)
    listening = bind(options.listen)
    try:
        host, _ = split_address(options.listen)
        port = listening.getsockname()[1]
        address = f"{'https' if tls else 'http'}://{host}:{port}"
        guard = TokenGuard(tokens, on_loopback=is_loopback(options.listen), port=port)
        async with (
            connect(store, tls=options.tls) as client,
            _rights_of(client, address, options) as rights,
        ):
            sampler = Sampler(
                *(client, time.time),
                lost_seconds=options.lost_seconds,
                ensemble=options.ensemble,
                gateway_token=options.gateway_token.secret if options.gateway_token else "",
            )
            source = ConsoleSource(client, sampler, _now_ms, options.shows_records)
            console = Console(source, guard, rights, secure=tls)
            sampler.start()
            try:
                await serve_application(
                    console.app,
                    listening,
                    ready=partial(on_ready, address, drawn),
                    ending=console.end,
                    table=ConnectionPlaces(
                        connections_max(CONNECTIONS_MAX, descriptors_max(), ports=1)
                    ),
                    **_files_of(options),
                )
            finally:
                await sampler.close()
    finally:
        listening.close()


@asynccontextmanager
async def _rights_of(
    client: Client, address: str, options: ConsoleOptions
) -> AsyncIterator[Guard | None]:
    """Have the rights of callers in the block; None where the only token was drawn: its holder
    started the console, and may read what the console may.
    """
    if not options.tokens:
        yield None
        return
    async with guarding(client._store, f"the console at {address}") as guard:
        yield guard


def check_exposure(options: ConsoleOptions) -> None:
    """Say that other machines reach a console without TLS. Raises `ConfigurationError` without
    consent, or without tokens of the operator's.
    """
    if options.certificate is not None:
        return
    for address in exposed("console", [options.listen], accepted=options.insecure_network):
        if not options.tokens:
            raise ConfigurationError(
                f"every machine that reaches {address} could try to read the cluster: pass "
                "--token-file, or --certificate and --key"
            )
        _log.warning("%s has no TLS: each machine on the way can read tokens and records", address)


def _tls_of(options: ConsoleOptions) -> bool:
    """Return whether browsers come over TLS. Raises `ConfigurationError` for files of no use."""
    if options.certificate is None and options.key is None:
        return False
    if options.certificate is None or options.key is None:
        raise ConfigurationError("--certificate and --key belong together: pass both")
    serving_context(options.certificate, options.key)
    return True


def _files_of(options: ConsoleOptions) -> dict[str, str]:
    """Return the files of TLS, as uvicorn names them."""
    if options.certificate is None:
        return {}
    return {"ssl_certfile": str(options.certificate), "ssl_keyfile": str(options.key)}


def _now_ms() -> int:
    return round(time.time() * 1000)
