"""A gateway as a process: client, owners and HTTP server put together.

At the end the gateway first says that it is not ready, and gives its logs up while it still
answers: every request under way is confirmed, and others go on with the next gateway.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from quire.connection import connect
from quire.errors import ConfigurationError
from quire.extras import needed_for
from quire.gateway.app import Gateway
from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners
from quire.gateway.place import GatewayPlace
from quire.gateway.presence import GatewayPresence
from quire.gateway.rpc.port import RpcPort
from quire.gateway.space import ConnectionPlaces
from quire.gateway.tokens import Token
from quire.log.manifest.options import LogOptions
from quire.metastore import open_store
from quire.metastore.place import resolve_store
from quire.rights.guard import Guard, guarding
from quire.wire.certificates import TlsOptions
from quire.wire.descriptors import connections_max, descriptors_max
from quire.wire.exposure import exposed, is_loopback
from quire.wire.tls import ServingContext, serving_context
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
    origins: Sequence[str] = (),
    limits: GatewayLimits | None = None,
    options: LogOptions | None = None,
    on_ready: Callable[[GatewayPlace], None] | None = None,
    tls: TlsOptions | None = None,
    kafka: str | None = None,
    kafka_advertise: str | None = None,
    kafka_certificate: Path | None = None,
    kafka_key: Path | None = None,
    grpc: str | None = None,
    grpc_advertise: str | None = None,
    grpc_certificate: Path | None = None,
    grpc_key: Path | None = None,
) -> None:
    """Serve logs over HTTP, gRPC and to Kafka's clients, until cancelled; then end in good order.

    Args:
        store: the metadata store of the cluster.
        listen: host:port to listen on; port 0 takes a free one.
        insecure_network: accept an address that other machines reach. It needs tokens.
        advertise: the URL that other gateways send clients to; by default `http://host:port`.
        tokens: a request needs one of them, if there is any, and has the rights of its holder.
        origins: pages of these origins may use the gateway from a browser, such as
            `https://app.example.com`; `*` stands for all, and needs tokens.
        limits: how much may be under way.
        options: options of the logs that this gateway writes.
        on_ready: called with the addresses once requests are answered.
        tls: the gateway's certificate for its connections to bookies, as for `connect`.
        kafka: host:port where Kafka's clients are served; None: nowhere.
        kafka_advertise: host:port that Kafka's clients are told, by default `kafka`.
        kafka_certificate: a file with a certificate; with `kafka_key`, Kafka's clients come over
            TLS.
        kafka_key: a file with its private key.
        grpc: host:port where gRPC is served; None: nowhere.
        grpc_advertise: host:port that clients of gRPC are sent to, by default `grpc`.
        grpc_certificate: a file with a certificate; with `grpc_key`, gRPC has TLS.
        grpc_key: a file with its private key.

    Raises:
        ConfigurationError: the address cannot be used, or needs consent, tokens or `advertise`; or
            the certificate or an origin cannot be used.
        QuireError: the errors of `connect`.
    """
    limits, places = _within_descriptors(limits or GatewayLimits(), kafka, grpc)
    kafka_tls = _context("kafka", kafka_certificate, kafka_key)
    grpc_tls = _context("grpc", grpc_certificate, grpc_key)
    ports = [(listen, False), (kafka, kafka_tls is not None), (grpc, grpc_tls is not None)]
    _check_exposure(ports, insecure_network, tokens)
    _check_told((listen, advertise), (kafka, kafka_advertise), (grpc, grpc_advertise))
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(closing(bind(listen)))
        door = None if kafka is None else stack.enter_context(closing(bind(kafka)))
        rpc = None if grpc is None else RpcPort(limits.connections)
        bound = None if rpc is None or grpc is None else rpc.bind(grpc, grpc_certificate, grpc_key)
        place = GatewayPlace(
            advertise or f"http://{_address(listen, listening)}",
            None if kafka is None or door is None else kafka_advertise or _address(kafka, door),
            grpc_advertise or bound,
        )
        registry = CollectorRegistry()
        client = await stack.enter_async_context(connect(store, metrics=registry, tls=tls))
        guard = await stack.enter_async_context(_guarding(store, place.url))
        owners = Owners(client, place.url, limits, options, place.kafka, place.grpc)
        here = is_loopback(listen)
        gateway = Gateway(client, owners, limits, tokens, guard, registry, origins, is_local=here)
        endings = [owners.close]
        if door is None:
            presence = GatewayPresence(client, place)
            presence.begin()
            stack.push_async_callback(presence.leave)
            endings.insert(0, presence.leave)
        else:
            with needed_for("quire gateway serve --kafka", "kafka"):
                from quire.gateway.kafka.server import KafkaPort
            brokers = KafkaPort(gateway, place, kafka_tls)
            await stack.enter_async_context(brokers.serve(door))
            endings.insert(0, brokers.leave)
        if rpc is not None:
            await stack.enter_async_context(rpc.serve(gateway))

        async def end() -> None:
            gateway.is_ending = True
            for ending in endings:
                await ending()

        await serve_application(
            gateway.app,
            listening,
            ready=partial(on_ready or _tell_no_caller, place),
            ending=end,
            table=ConnectionPlaces(places),
        )


def _within_descriptors(limits: GatewayLimits, *others: str | None) -> tuple[GatewayLimits, int]:
    """Return limits that leave descriptors for files, and how many connections HTTP may have.

    `others` are the ports beside the one for HTTP; None stands for a port that is not served.
    """
    ports = 1 + sum(each is not None for each in others)
    share = partial(connections_max, descriptors=descriptors_max(), ports=ports)
    bounded = replace(limits, connections=share(limits.connections))
    return bounded, share(limits.requests + limits.streams)


def _address(listen: str, listening: socket.socket) -> str:
    host, _ = split_address(listen)
    return f"{host}:{listening.getsockname()[1]}"


@asynccontextmanager
async def _guarding(store: str, name: str) -> AsyncIterator[Guard]:
    opened = await open_store(resolve_store(store))
    try:
        async with guarding(opened, f"the gateway at {name}") as guard:
            yield guard
    finally:
        await opened.close()


def _context(port: str, certificate: Path | None, key: Path | None) -> ServingContext | None:
    """Return the context of a port with a certificate; None: it has no TLS."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        names = f"--{port}-certificate and --{port}-key"
        raise ConfigurationError(f"{names} belong together: pass both")
    return serving_context(certificate, key)


def _check_exposure(
    ports: Sequence[tuple[str | None, bool]], accepted: bool, tokens: tuple[Token, ...]
) -> None:
    """Say that other machines reach the gateway. Raises as `exposed`, and without tokens.

    `ports` says which ports have TLS.
    """
    plain = [address for address, has_tls in ports if address is not None and not has_tls]
    for address, _ in ports:
        if address is None or tokens or is_loopback(address):
            continue
        if accepted or address not in plain:
            raise ConfigurationError(
                f"every program that reaches {address} could read and write all logs: pass "
                "--token-file"
            )
    for address in exposed("gateway", plain, accepted=accepted):
        _log.warning("%s has no TLS: each machine on the way can read tokens and records", address)


def _check_told(*ports: tuple[str | None, str | None]) -> None:
    """Raise `ConfigurationError` for a wildcard without the address that clients are told."""
    for port, told in ports:
        if port is not None and told is None:
            advertised(port, None)


def _tell_no_caller(place: GatewayPlace) -> None:
    """The default of `on_ready`."""
