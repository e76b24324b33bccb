"""gRPC as quire uses it: the options of both ends, and the meaning of its errors in words.

Options are part of the protocol: both ends must agree on the largest message, and a server must
tolerate the pings of its clients. Nothing here knows the contents of a message.
"""

from __future__ import annotations

import re
from asyncio import InvalidStateError
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from quire.entry import BookieId
from quire.errors import ConfigurationError
from quire.requests import checked_id
from quire.run import FRAME_BYTES_MAX, RUN_BYTES_MAX
from quire.wire import bookie_pb2 as pb
from quire.wire.certificates import Certificates, Credentials
from quire.wire.grpc_calls import Door, at_door
from quire.wire.grpc_tls import channel_credentials, guarded, server_credentials
from quire.wire.identity import server_name

BATCH_BYTES_MAX: Final = 1024 * 1024
"""Runs are put into one message until it has this many bytes; a larger run travels alone."""

SENT_RUN_BYTES_MAX: Final = RUN_BYTES_MAX + FRAME_BYTES_MAX + 4
"""Largest run that can be sent: one byte short of the limit, and then one frame of the largest
size."""

MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Largest message: BATCH_BYTES_MAX + SENT_RUN_BYTES_MAX is 6 MiB and a little; the rest is
headroom."""

REQUEST_BYTES_MAX: Final = 16 * 1024
"""Largest message to a port of gRPC beside a port for frames: runs go there. The largest of the
other calls asks for 1,000 outlines and has 10,037 bytes. gRPC refuses a message by its announced
size, before it gathers the message.
"""

WINDOW_BYTES_MAX: Final = 65_535
"""The most that a server holds of a message before it reads the message. gRPC would let the window
grow to 16 MiB where the network is fast, for calls that nothing reads, too. It opens the window of
a message that is read as far as the message needs.
"""

RPCS_MAX: Final = 16_384
"""Calls one server carries at the same time, of all clients, long polls included."""

CONNECTIONS_MAX: Final = 8192
"""Connections to one server, if there are descriptors for them."""

STREAMS_PER_CONNECTION_MAX: Final = 4096

KEEPALIVE_SECONDS: Final = 10
"""A silent connection with calls on it is tried this often, so that a dead peer is noticed."""

HANDSHAKE_SECONDS: Final = 10
"""A client has so long to begin to speak HTTP/2."""

IDLE_SECONDS: Final = 300
"""A connection without a call for so long is closed. A client that is there makes another."""

_KEEPALIVE_ANSWER_SECONDS: Final = 5
_HOST: Final = re.compile(r"\[[^\[\]/]+\]|[^\s\[\]/:]+")
"""A name, an IPv4 address, or an IPv6 address in brackets: a bookie never has `unix:/path`."""

_BACKOFF_FIRST_MS: Final = 50
_BACKOFF_LAST_MS: Final = 1000

EOF: Final[object] = grpc.aio.EOF  # type: ignore[attr-defined]
"""What reading a message gives at the end of a stream."""

RESOURCE_EXHAUSTED: Final = grpc.StatusCode.RESOURCE_EXHAUSTED
"""The status of a call that is broken off because it costs the server too much."""

RpcError: TypeAlias = grpc.aio.AioRpcError
"""How a call fails on the client; `explain` says why."""

WRITE_ERRORS: Final = (grpc.aio.AioRpcError, grpc.aio.BaseError, InvalidStateError)
"""What writing to a stream that is over may raise, depending on how it ended."""

ENDED_ERRORS: Final = (grpc.aio.InternalError,)
"""What ending a call of a server may raise when its connection is gone."""

ServerContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
"""One call on the server."""

REQUEST_KEY: Final = "quire-request"
"""The metadata of a call with the id of its request, or of its stream of runs."""

Options: TypeAlias = tuple[tuple[str, int], ...]

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["Bookie"]

_HANDLERS: Final[dict[bool, Any]] = {
    False: grpc.stream_unary_rpc_method_handler,
    True: grpc.stream_stream_rpc_method_handler,
}

_SENT: Final = ("grpc.max_send_message_length", MESSAGE_BYTES_MAX)

CHANNEL_OPTIONS: Final[Options] = (
    _SENT,
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),
    # A call that was sent may have been carried out: only ledger code may decide to send it again.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # One connection per stub: a broken connection affects no other stub.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", _BACKOFF_FIRST_MS),
    ("grpc.min_reconnect_backoff_ms", _BACKOFF_LAST_MS),
    ("grpc.max_reconnect_backoff_ms", _BACKOFF_LAST_MS),
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_ANSWER_SECONDS * 1000),
    ("grpc.http2.max_pings_without_data", 0),
)

SERVER_OPTIONS: Final[Options] = (
    _SENT,
    ("grpc.http2.bdp_probe", 0),
    # Two bookies on one port would share its connections at random.
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_SECONDS * 500),
    ("grpc.keepalive_time_ms", 3 * KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_ANSWER_SECONDS * 1000),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),
    ("grpc.max_connection_idle_ms", IDLE_SECONDS * 1000),
)


def open_channel(
    address: str, bookie: BookieId = "", credentials: Credentials | None = None
) -> grpc.aio.Channel:
    """Return a channel to host:port; it connects when first used. Needs a running event loop.

    With credentials it has TLS, and only the bookie is taken for the other side.
    """
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    name = ("grpc.ssl_target_name_override", server_name(bookie))
    return grpc.aio.secure_channel(
        address, channel_credentials(credentials), options=(*CHANNEL_OPTIONS, name)
    )


def open_server(
    connections: int = CONNECTIONS_MAX, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> grpc.aio.Server:
    """Return a server without services and ports, of at most so many connections, whose messages
    are at most so large.
    """
    options = (
        *SERVER_OPTIONS,
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.http2.lookahead_bytes", min(message_bytes_max, WINDOW_BYTES_MAX)),
    )
    return grpc.aio.server(options=options, maximum_concurrent_rpcs=RPCS_MAX)


def add_service(
    server: grpc.aio.Server,
    servicer: object,
    door: Door,
    clock: Callable[[], float] | None = None,
    message_bytes_max: int = MESSAGE_BYTES_MAX,
) -> None:
    """Have a server answer the calls of `quire.v1.Bookie`, each by the servicer's method.

    Args:
        server: not started yet.
        servicer: has a method for each call. What `Read` yields goes out as it is: reads.py has
            serialized it. `Add` reads messages that nothing has decoded.
        door: gives calls their places.
        clock: a wall clock, if each call is served only for as long as the certificate of the
            caller lives.
        message_bytes_max: the largest message that the server takes.
    """
    methods = {
        method.name: _handler(servicer, method, door, clock, message_bytes_max)
        for method in _SERVICE.methods
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_SERVICE.full_name, methods),)
    )


def _handler(
    servicer: object,
    method: MethodDescriptor,
    door: Door,
    clock: Callable[[], float] | None,
    message_bytes_max: int,
) -> grpc.RpcMethodHandler[Any, Any]:
    reply = GetMessageClass(method.output_type).SerializeToString
    decode = None if method.client_streaming else GetMessageClass(method.input_type).FromString
    behaviour = at_door(getattr(servicer, method.name), door, decode, message_bytes_max)
    handler: grpc.RpcMethodHandler[Any, Any] = _HANDLERS[method.server_streaming](
        behaviour if clock is None else guarded(behaviour, clock),
        response_serializer=None if method.name == "Read" else reply,
    )
    return handler


def split_address(listen: str) -> tuple[str, int]:
    """Return host and port of an address to listen on. Raises `ConfigurationError` for another."""
    host, _, port = listen.rpartition(":")
    if not _HOST.fullmatch(host) or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"{listen!r} is not an address to listen on: expected host:port")
    return host, int(port)


def bind(server: grpc.aio.Server, listen: str, certificates: Certificates | None = None) -> str:
    """Let a server that was not started listen on host:port, with TLS if there are certificates,
    and return the address with the real port.

    Raises `ConfigurationError` when it cannot, naming the address and what to do.
    """
    host, _ = split_address(listen)
    try:
        if certificates is None:
            bound = server.add_insecure_port(listen)
        else:
            bound = server.add_secure_port(listen, server_credentials(certificates))
    except RuntimeError as error:
        raise ConfigurationError(cannot_listen(listen)) from error
    return f"{host}:{bound}"


WILDCARDS: Final = frozenset({"0.0.0.0", "[::]", "::", "[::0]"})
"""Hosts that stand for every address of this machine, and for none that a client can reach."""


def advertised(address: str, host: str | None) -> str:
    """Return the address that clients are told.

    Args:
        address: host:port at which the server listens.
        host: the host to tell instead, or None to tell the address's host.

    Raises:
        ConfigurationError: the host is a wildcard, or not a host.
    """
    listening, port = split_address(address)
    told = listening if host is None else host
    if told in WILDCARDS:
        raise ConfigurationError(
            f"{told} stands for every address of this machine, and clients cannot be told it: name "
            "the host that they reach, with --advertise HOST"
        )
    split_address(f"{told}:{port}")
    return f"{told}:{port}"


def cannot_listen(listen: str) -> str:
    """Say why an address may be refused, and what to do."""
    return (
        f"cannot listen on {listen}: the port may be in use by another process, or the host may "
        "not be this machine's; choose another port, or port 0 for any that is free"
    )


def explain(error: RpcError, timeout: float | None = None) -> str:
    """Say in a few words why a call failed; `timeout` is the deadline it had, in seconds."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and timeout is not None:
        return f"no answer within {timeout:g} s"
    if code is grpc.StatusCode.UNAVAILABLE and details:
        return details
    return f"{code.name.lower().replace('_', ' ')}: {details}" if details else code.name.lower()


def metadata_of(request: str) -> tuple[tuple[str, str], ...] | None:
    """Return the metadata of a call that has an id; None without one."""
    return ((REQUEST_KEY, request),) if request else None


def request_of(context: ServerContext) -> str:
    """Return the id that a client gave a call; empty if it gave none."""
    metadata = context.invocation_metadata() or ()
    return next((checked_id(value) for key, value in metadata if key == REQUEST_KEY), "")
