"""A gateway as a process: client, owners and HTTP server put together.

At the end the gateway first says that it is not ready, and gives its logs up while it still
answers: every request under way is confirmed, and others go on with the next gateway.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from quire.connection import connect
from quire.errors import ConfigurationError
from quire.extras import needed_for
from quire.gateway.app import Gateway
from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners
from quire.gateway.tokens import Token
from quire.log.manifest.options import LogOptions
from quire.metastore import open_store
from quire.metastore.place import resolve_store
from quire.rights.guard import Guard, guarding
from quire.wire.certificates import TlsOptions
from quire.wire.exposure import exposed
from quire.wire.transport import advertised, split_address

with needed_for("quire gateway", "gateway"):
    from prometheus_client import CollectorRegistry

    from quire.http_server import bind, serve_application

_log = logging.getLogger(__name__)


async def serve_gateway(
    store: str,
    listen: str,
    *,
    insecure_network: bool = False,
    advertise: str | None = None,
    tokens: tuple[Token, ...] = (),
    limits: GatewayLimits | None = None,
    options: LogOptions | None = None,
    on_ready: Callable[[str], None] | None = None,
    tls: TlsOptions | None = None,
) -> None:
    """Serve logs over HTTP until cancelled, then end in good order.

    Args:
        store: the metadata store of the cluster.
        listen: host:port to listen on; port 0 takes a free one.
        insecure_network: accept an address that other machines reach. It needs tokens.
        advertise: the URL that other gateways send clients to; by default `http://host:port`.
        tokens: a request needs one of them, if there is any, and has the rights of its holder.
        limits: how much may be under way.
        options: options of the logs that this gateway writes.
        on_ready: called with the URL once requests are answered.
        tls: the gateway's certificate for its connections to bookies, as for `connect`.

    Raises:
        ConfigurationError: the address cannot be used, or needs consent, tokens or `advertise`.
        QuireError: the errors of `connect`.
    """
    limits = limits or GatewayLimits()
    _check_exposure(listen, insecure_network, tokens)
    if advertise is None:
        advertised(listen, None)  # raises for a wildcard
    listening = bind(listen)
    try:
        host, _ = split_address(listen)
        at = advertise or f"http://{host}:{listening.getsockname()[1]}"
        registry = CollectorRegistry()
        async with (
            connect(store, metrics=registry, tls=tls) as client,
            _guarding(store, at) as guard,
        ):
            owners = Owners(client, at, limits, options)
            gateway = Gateway(client, owners, limits, tokens, guard, registry)

            async def end() -> None:
                gateway.is_ending = True
                await owners.close()

            await serve_application(
                gateway.app,
                listening,
                ready=partial(on_ready or _tell_no_caller, at),
                ending=end,
            )
    finally:
        listening.close()


@asynccontextmanager
async def _guarding(store: str, name: str) -> AsyncIterator[Guard]:
    opened = await open_store(resolve_store(store))
    try:
        async with guarding(opened, f"the gateway at {name}") as guard:
            yield guard
    finally:
        await opened.close()


def _check_exposure(listen: str, accepted: bool, tokens: tuple[Token, ...]) -> None:
    """Say that other machines reach the gateway. Raises as `exposed`, and without tokens."""
    for address in exposed("gateway", [listen], accepted=accepted):
        if not tokens:
            raise ConfigurationError(
                f"every program that reaches {address} could read and write all logs: pass "
                "--token-file"
            )
        _log.warning("%s has no TLS: each machine on the way can read tokens and records", address)


def _tell_no_caller(address: str) -> None:
    """The default of `on_ready`."""
