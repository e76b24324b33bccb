"""The port for Kafka's clients: the table of requests, SASL, and the end in good order.

At the end clients are first sent to other gateways. Then the gateway gives up its logs, while
connections still answer: what is under way is confirmed. Then connections end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.aio.accepting import accept_connections
from quire.aio.tasks import Tasks
from quire.errors import InvalidRequestError
from quire.gateway.app import Gateway
from quire.gateway.kafka import committed, configs, fetching, offsets, topics
from quire.gateway.kafka.broker import Broker, Handler, KafkaSession
from quire.gateway.kafka.connection import LOGIN_SECONDS, KafkaConnection
from quire.gateway.kafka.coordinating import Coordinating, Coordinators
from quire.gateway.kafka.describing import Describing
from quire.gateway.kafka.errors import codes_of
from quire.gateway.kafka.fetching import close_readings
from quire.gateway.kafka.messages import (
    API_VERSIONS,
    FETCH,
    FIRST_BYTES_MAX,
    OFFSET_COMMIT,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    VERSIONS,
    Fields,
    Header,
    encode_answer,
)
from quire.gateway.kafka.nodes import Nodes
from quire.gateway.kafka.producing import Producing
from quire.gateway.metered import GatewayMeter
from quire.gateway.place import GatewayPlace
from quire.gateway.quotas import Direction
from quire.gateway.space import ConnectionPlaces, Space
from quire.gateway.status import GroupState
from quire.gateway.telling import KafkaFigures
from quire.gateway.tokens import caller
from quire.wire.tls import ServingContext

_MECHANISM: Final = "PLAIN"

_DIRECTIONS: Final = {PRODUCE: Direction.APPEND, FETCH: Direction.READ}

_log = logging.getLogger(__name__)


class Guest:
    """A connection in the table of places: its handshake first, then its requests."""

    def __init__(self) -> None:
        self.end: Callable[[], object] = _nothing
        """Ends it; appends under way are answered first."""
        self.cut: Callable[[], object] = _nothing
        """Ends it at once: its descriptor does not wait until the client agrees to the end."""


def _nothing() -> None:
    """Has not begun."""


class _GuestProtocol(asyncio.StreamReaderProtocol):
    """A connection whose handshake may end just as its place is lost."""

    _made: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the handshake is over."""
        self._made = transport
        super().connection_made(transport)

    def abort(self) -> None:
        """End the connection at once. An end by TLS would wait for the client, and the socket is
        closed meanwhile: the event loop would take the next one with its number for this one.
        """
        if isinstance(self._made, asyncio.Transport):
            self._made.abort()


async def _stream(
    accepted: socket.socket, tls: ServingContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return both directions of a connection, after the handshake."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=FIRST_BYTES_MAX)
    protocol = _GuestProtocol(reader)
    try:
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else LOGIN_SECONDS,
        )
    except BaseException:
        protocol.abort()
        raise
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class KafkaServer:
    """Answers Kafka's clients."""

    def __init__(
        self, broker: Broker, coordinators: Coordinators, meter: GatewayMeter | None = None
    ) -> None:
        self._meter = meter or GatewayMeter()
        producing, coordinating = Producing(), Coordinating(coordinators)
        describing = Describing(coordinators)
        self._broker = broker
        self._space = Space(broker.admission)
        self._places = ConnectionPlaces[Guest](broker.limits.connections)
        self._guests: dict[Guest, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._is_ending = False
        self._handlers: Mapping[int, Handler] = MappingProxyType(
            {
                PRODUCE: producing.produce,
                FETCH: fetching.fetch,
                2: offsets.list_offsets,
                3: topics.describe,
                OFFSET_COMMIT: coordinating.commit,
                9: committed.committed,
                10: coordinating.find,
                11: coordinating.join,
                12: coordinating.heartbeat,
                13: coordinating.leave,
                14: coordinating.sync,
                15: describing.describe,
                16: describing.list,
                SASL_HANDSHAKE: _handshake,
                API_VERSIONS: _versions,
                19: topics.create,
                20: topics.delete,
                21: offsets.delete_records,
                22: producing.begin,
                32: configs.describe_configs,
                33: configs.alter_configs,
                SASL_AUTHENTICATE: _authenticate,
                37: topics.create_partitions,
                42: describing.delete_groups,
                44: configs.alter_some_configs,
                47: describing.delete_offsets,
            }
        )
        assert self._handlers.keys() == VERSIONS.keys(), "every request has a handler"

    async def accept(self, listening: socket.socket, tls: ServingContext | None = None) -> None:
        """Take the connections of a bound socket, until this is cancelled."""
        await accept_connections(listening, partial(self.welcome, tls=tls), "Kafka's port")

    def welcome(self, accepted: socket.socket, tls: ServingContext | None = None) -> None:
        """Answer a connection until it ends. Its handshake counts as silence."""
        guest = Guest()
        if self._is_ending or not self._enter(guest):
            accepted.close()
            return
        serving = self._tasks.start(self._serve(guest, accepted, tls), "serves a client of Kafka")
        guest.end = guest.cut = serving.cancel
        self._guests[guest] = serving
        serving.add_done_callback(partial(self._gone, guest, accepted))

    def _enter(self, guest: Guest) -> bool:
        ended = self._places.enter(guest)
        if ended is not None:
            limit = self._broker.limits.connections
            _log.warning("Kafka's port has %d connections at most: one is ended", limit)
            ended.cut()  # it has not logged in: it has no appends
        return ended is not guest

    def _gone(self, guest: Guest, accepted: socket.socket, _: asyncio.Task[None]) -> None:
        del self._guests[guest]
        self._places.leave(guest)
        accepted.close()  # it is open if the handshake did not begin

    async def _serve(
        self, guest: Guest, accepted: socket.socket, tls: ServingContext | None
    ) -> None:
        try:
            reader, writer = await _stream(accepted, tls)
        except OSError as error:
            _log.info("a client of Kafka's port made no handshake: %s", error)
            return
        address = writer.get_extra_info("peername") or ("",)
        session = KafkaSession(is_known=not self._broker.tokens, address=str(address[0]))
        connection = KafkaConnection(
            *(reader, writer, partial(self._answer, session)),
            is_known=lambda: session.is_known,
            space=self._space,
            spoke=lambda: self._places.speak(guest),
            pause=partial(self._pause, session),
        )
        guest.end, guest.cut = connection.end, writer.transport.abort
        try:
            await connection.serve()
        finally:
            await close_readings(session)

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._guests)

    async def close(self) -> None:
        """End all connections; appends under way are answered first."""
        self._is_ending = True
        for guest in self._guests:
            guest.end()
        while self._guests:
            await asyncio.wait(list(self._guests.values()))

    def _pause(self, session: KafkaSession, key: int) -> float:
        """Return how long a request waits for the quota of its client."""
        direction = _DIRECTIONS.get(key)
        return 0.0 if direction is None else self._broker.quotas.wait(session.name, direction)

    async def _answer(self, session: KafkaSession, header: Header, body: Any) -> bytes | None:
        """Return the frame that answers a request, None if it has none."""
        if body is None:
            code = ErrorCode.unsupported_version
            if header.api_key != API_VERSIONS:
                raise InvalidRequestError(
                    f"requests of key {header.api_key} and version {header.version} are not known"
                )
            return encode_answer(header, {**_known_versions(), "error_code": code}, version=0)
        handler = self._handlers[header.api_key]
        session.client = header.client
        with self._meter.timed(f"kafka.{handler.__name__.lstrip('_')}") as status:
            with self._broker.admission.request():
                fields = await handler(self._broker, session, body)
            status.append("OK")
        if fields is None:
            return None
        for code in codes_of(fields):
            self._meter.fail(code.name)
        is_charged = header.api_key in _DIRECTIONS
        throttle = timedelta(seconds=session.throttle if is_charged else 0)
        return encode_answer(header, {**fields, "throttle_time": throttle})


def _known_versions() -> dict[str, Any]:
    keys = [
        {"api_key": key, "min_version": lowest, "max_version": highest}
        for key, (lowest, highest) in sorted(VERSIONS.items())
    ]
    return {"error_code": ErrorCode.none, "api_keys": keys}


async def _versions(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer ApiVersions."""
    return _known_versions()


async def _handshake(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer SaslHandshake: there is PLAIN."""
    is_known = request.mechanism == _MECHANISM
    code = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
    return {"error_code": code, "mechanisms": [_MECHANISM]}


async def _authenticate(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer SaslAuthenticate: the password is a token; the name of the user says nothing."""
    password = request.auth_bytes.rpartition(b"\0")[2]
    identity = caller(broker.tokens, f"Bearer {password.decode(errors='replace')}")
    fields: dict[str, Any] = {"auth_bytes": b"", "error_message": None}
    if identity is None:
        message = "the password is not a token of this gateway"
        code = ErrorCode.sasl_authentication_failed
        return fields | {"error_code": code, "error_message": message}
    session.identity, session.is_known = identity, True
    return fields | {"error_code": ErrorCode.none}


class KafkaPort(KafkaFigures):
    """The port of a gateway for Kafka's clients."""

    def __init__(
        self, gateway: Gateway, place: GatewayPlace, tls: ServingContext | None = None
    ) -> None:
        """Connections have TLS if there is a context for it."""
        self._tls = tls
        self._nodes = Nodes(gateway.client, place)
        broker = Broker(
            *(gateway.client, gateway.owners, self._nodes, gateway.admission),
            *(gateway.quotas, gateway.limits, gateway.guard, gateway.tokens),
            has_tls=tls is not None,
        )
        self._coordinators = Coordinators(gateway.client, place, gateway.limits)
        self._server = KafkaServer(broker, self._coordinators, gateway.meter)
        gateway.kafka = self

    @asynccontextmanager
    async def serve(self, listening: socket.socket) -> AsyncIterator[None]:
        """Answer the connections of a bound socket in the block; then end them."""
        listening.setblocking(False)
        accepting = Tasks()
        accepted = self._server.accept(listening, self._tls)
        accepting.start(accepted, "takes connections of Kafka's clients")
        try:
            await self._nodes.join()
            yield
        finally:
            await accepting.stop()
            listening.close()
            await self.leave()
            await self._server.close()

    def connections(self) -> int:
        """Return how many clients are connected."""
        return self._server.connections

    def groups(self) -> list[GroupState]:
        """Return the groups that this gateway coordinates, by name."""
        return [
            GroupState(name, str(group.stage), len(group.members), group.generation)
            for name, group in self._coordinators.groups()
        ]

    async def leave(self) -> None:
        """Send clients to other gateways, before this one gives up its logs."""
        await self._nodes.leave()
        await self._coordinators.close()
