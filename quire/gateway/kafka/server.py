"""Connections of Kafka's clients: requests are answered in the order of their coming.

Batches of producers are worked on while earlier ones are under way, so that a connection is not
limited to one sync at a time. Everything else waits for its turn, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.aio.tasks import stop
from quire.errors import InvalidRequestError, QuireError
from quire.gateway.answers import GatewayError
from quire.gateway.app import Gateway
from quire.gateway.kafka import fetching, topics
from quire.gateway.kafka.broker import Broker, Handler, KafkaSession, node_at
from quire.gateway.kafka.coordinating import Coordinating, Coordinators
from quire.gateway.kafka.fetching import close_readings
from quire.gateway.kafka.messages import (
    API_VERSIONS,
    FRAME_BYTES_MAX,
    VERSIONS,
    Fields,
    Header,
    decode_request,
    encode_answer,
)
from quire.gateway.kafka.producing import Producing
from quire.gateway.owners import GatewayPlace
from quire.gateway.tokens import caller

PIPELINED_MAX: Final = 16
"""Requests of one connection that are worked on at the same time."""

PRODUCE: Final = 0
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_OPEN: Final = frozenset({API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE})
"""Answered without a token."""

_MECHANISM: Final = "PLAIN"

_log = logging.getLogger(__name__)


class KafkaServer:
    """Answers Kafka's clients."""

    def __init__(self, broker: Broker, coordinators: Coordinators) -> None:
        producing, coordinating = Producing(), Coordinating(coordinators)
        self._broker = broker
        self._handlers: Mapping[int, Handler] = MappingProxyType(
            {
                PRODUCE: producing.produce,
                1: fetching.fetch,
                2: topics.list_offsets,
                3: topics.describe,
                8: coordinating.commit,
                9: coordinating.committed,
                10: coordinating.find,
                11: coordinating.join,
                12: coordinating.heartbeat,
                13: coordinating.leave,
                14: coordinating.sync,
                _SASL_HANDSHAKE: _handshake,
                API_VERSIONS: _versions,
                19: topics.create,
                20: topics.delete,
                22: producing.begin,
                32: topics.describe_configs,
                _SASL_AUTHENTICATE: _authenticate,
            }
        )
        assert self._handlers.keys() == VERSIONS.keys(), "every request has a handler"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends."""
        session = KafkaSession(is_known=not self._broker.tokens)
        answers: asyncio.Queue[asyncio.Task[bytes | None] | None] = asyncio.Queue(PIPELINED_MAX)
        writing = asyncio.ensure_future(_write(answers, writer))
        try:
            reading = asyncio.ensure_future(self._read(session, reader, answers))
            await asyncio.wait([reading, writing], return_when=asyncio.FIRST_COMPLETED)
            await stop(reading)
        finally:
            while not answers.empty():
                task = answers.get_nowait()
                if task is not None:
                    task.cancel()
            await stop(writing)
            await close_readings(session)
            writer.close()

    async def _read(
        self,
        session: KafkaSession,
        reader: asyncio.StreamReader,
        answers: asyncio.Queue[asyncio.Task[bytes | None] | None],
    ) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), signed=True)
                if not 0 < size <= FRAME_BYTES_MAX:
                    _log.warning("a client of Kafka's port sent a message of %d bytes", size)
                    break
                message = await reader.readexactly(size)
                try:
                    header, body = decode_request(message)
                except InvalidRequestError as error:
                    _log.warning("a client of Kafka's port: %s", error)
                    break
                session.client = header.client
                if header.api_key not in _OPEN and not session.is_known:
                    break  # as Kafka does before SASL has ended
                task = asyncio.ensure_future(self._answer(session, header, body))
                await answers.put(task)
                if header.api_key != PRODUCE:
                    await asyncio.wait([task])
        await answers.put(None)

    async def _answer(self, session: KafkaSession, header: Header, body: Any) -> bytes | None:
        """Return the frame that answers a request, None if it has none."""
        if body is None:
            code = ErrorCode.unsupported_version
            if header.api_key != API_VERSIONS:
                raise InvalidRequestError(
                    f"requests of key {header.api_key} and version {header.version} are not known"
                )
            return encode_answer(header, {**_known_versions(), "error_code": code}, version=0)
        with self._broker.admission.request():
            fields = await self._handlers[header.api_key](self._broker, session, body)
        return None if fields is None else encode_answer(header, fields)


async def _write(
    answers: asyncio.Queue[asyncio.Task[bytes | None] | None], writer: asyncio.StreamWriter
) -> None:
    """Write answers in the order of requests, until one fails or all are written."""
    while (task := await answers.get()) is not None:
        try:
            frame = await task
            if frame is not None:
                writer.write(frame)
                await writer.drain()
        except (QuireError, GatewayError) as error:
            _log.warning("a connection of Kafka's port ends: %s", error)
            return
        except ConnectionError:
            return


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


@asynccontextmanager
async def serve_kafka(
    gateway: Gateway, place: GatewayPlace, listening: socket.socket
) -> AsyncIterator[None]:
    """Answer the connections of a bound socket in the block; then end them."""
    assert place.kafka is not None
    broker = Broker(
        *(gateway.client, gateway.owners, node_at(place.kafka), gateway.admission),
        *(gateway.limits, gateway.guard, gateway.tokens),
    )
    coordinators = Coordinators(gateway.client, place)
    server = KafkaServer(broker, coordinators)
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await server.serve(reader, writer)
        finally:
            connections.discard(task)

    running = await asyncio.start_server(connected, sock=listening, limit=2**20)
    try:
        yield
    finally:
        running.close()
        await stop(*connections)
        await coordinators.close()
