"""The port for gRPC: callers, limits, and the end in good order.

A call is served in these steps: its token, a place among the calls under way, its message within
`MESSAGE_SECONDS`, its rights, its handler. gRPC gathers a message only once it is read, so a caller
without a token costs a few bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.errors import ConfigurationError, QuireError
from quire.gateway.answers import GatewayError, NotReadyError, StalledError
from quire.gateway.app import Gateway
from quire.gateway.rpc import logs_pb2 as pb
from quire.gateway.rpc.appending import AppendStream
from quire.gateway.rpc.caller import Caller
from quire.gateway.rpc.service import HANDLERS
from quire.gateway.rpc.statuses import ERROR_KEY, RpcStatus, made, status_of
from quire.gateway.space import Space
from quire.gateway.tokens import caller as caller_of
from quire.rights.calls import LOGS
from quire.wire.transport import EOF, ServerContext, cannot_listen, open_server, split_address

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""Largest message to a gateway: each stream of appends may hold one that is on its way."""

MESSAGE_SECONDS: Final = 10.0
"""A caller has so long for the message of a call."""

GRACE_SECONDS: Final = 5.0
"""Calls under way have so long when the gateway ends."""

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["Logs"]

_UNKNOWN: Final = "send the metadata authorization: Bearer TOKEN"

_log = logging.getLogger(__name__)


class RpcPort:
    """The port of a gateway for gRPC."""

    def __init__(self, connections: int) -> None:
        """`connections` may be open at the same time."""
        self._server = open_server(connections, MESSAGE_BYTES_MAX)

    def bind(self, listen: str, certificate: Path | None = None, key: Path | None = None) -> str:
        """Listen on host:port, with TLS if there is a certificate; return the real address.

        Raises `ConfigurationError`.
        """
        host, _ = split_address(listen)
        try:
            if certificate is None or key is None:
                port = self._server.add_insecure_port(listen)
            else:
                pair = key.read_bytes(), certificate.read_bytes()
                port = self._server.add_secure_port(listen, grpc.ssl_server_credentials([pair]))
        except OSError as error:
            raise ConfigurationError(f"{error.filename} cannot be read: {error.strerror}") from None
        except RuntimeError as error:
            raise ConfigurationError(cannot_listen(listen)) from error
        return f"{host}:{port}"

    @asynccontextmanager
    async def serve(self, gateway: Gateway) -> AsyncIterator[None]:
        """Answer calls in the block; then end them."""
        calls = RpcCalls(gateway)
        methods = {each.name: calls.handler(each) for each in _SERVICE.methods}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE.full_name, methods),)
        )
        await self._server.start()
        try:
            yield
        finally:
            await calls.end()
            await self._server.stop(GRACE_SECONDS)


class RpcCalls:
    """The calls under way."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._space = Space(gateway.admission)
        self._reading = Tasks()
        self._streams: dict[AppendStream, None] = {}

    async def end(self) -> None:
        """End calls that would last; appends under way are answered."""
        for stream in self._streams:
            stream.end()
        await self._reading.stop()

    def handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler[Any, Any]:
        """Return what serves a method. The client sees the kind of call that logs.proto names."""
        reply = GetMessageClass(method.output_type).SerializeToString
        make = (
            grpc.stream_stream_rpc_method_handler
            if method.server_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        handler: grpc.RpcMethodHandler[Any, Any] = make(
            partial(self._answer, method), response_serializer=reply
        )
        return handler

    async def _answer(self, method: MethodDescriptor, _: Any, context: ServerContext) -> Any:
        """Serve one call."""
        with self._gateway.meter.timed(f"grpc.{method.name}") as status:
            try:
                answer = await self._served(method, context)
            except (QuireError, GatewayError) as error:
                end = status_of(error)
                if end.code in _LOUD:
                    _log.warning("gRPC call %s: %s", method.name, error)
            except _CallRefusedError as refusal:
                end = refusal.status
            except asyncio.CancelledError:
                if not self._gateway.is_ending:
                    raise
                end = status_of(NotReadyError("", "this gateway ends"))
            else:
                status.append("OK")
                return answer
            status.append(end.code.name)
            self._gateway.meter.fail(_kind(end))
            return await context.abort(end.code, end.message, end.metadata)

    async def _served(self, method: MethodDescriptor, context: ServerContext) -> Any:
        identity = caller_of(self._gateway.tokens, _metadata(context, "authorization"))
        if identity is None:
            raise _CallRefusedError(made("unauthorized", _UNKNOWN))
        caller = Caller(self._gateway, context, identity)
        with self._gateway.admission.request():
            if method.client_streaming:
                return await self._append(AppendStream(caller, self._space))
            data = await self._message(context)
            request: Any = caller.decode(GetMessageClass(method.input_type).FromString, data)
            if method.name != "ListLogs":
                caller.check(LOGS[method.name], request.log)
            work = HANDLERS[method.name](caller, request)
            if not method.server_streaming:
                return await work
            # A stream may have no end: the gateway's own ends it.
            return await self._reading.keep(work)

    async def _append(self, stream: AppendStream) -> None:
        self._streams[stream] = None
        try:
            await stream.serve()
        finally:
            del self._streams[stream]

    async def _message(self, context: ServerContext) -> bytes:
        try:
            async with time_limit(MESSAGE_SECONDS):
                message: Any = await context.read()
        except TimeoutError:
            reason = f"no message of the call has come for {MESSAGE_SECONDS:g} s"
            raise StalledError(reason) from None
        return b"" if message is EOF else bytes(message)


_LOUD: Final = frozenset(
    {grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS, grpc.StatusCode.INTERNAL}
)
"""Ends that an operator should see."""


class _CallRefusedError(Exception):
    """A call that is refused before it is looked at."""

    def __init__(self, status: RpcStatus) -> None:
        super().__init__(status.message)
        self.status = status


def _kind(end: RpcStatus) -> str:
    """Return the kind of an error, as HTTP names it."""
    return next(str(value) for key, value in end.metadata if key == ERROR_KEY)


def _metadata(context: ServerContext, key: str) -> str:
    found = [value for name, value in context.invocation_metadata() or () if name == key]
    return str(found[0]) if len(found) == 1 else ""
