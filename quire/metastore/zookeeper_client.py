"""Making kazoo's client: how it reconnects, encrypts and authenticates; and its missing features.

A few things are added to kazoo, all small:

* a connection that is lost amid SASL counts as lost. kazoo takes it for a refusal, after which it
  never tries again; a server that refuses says so.
* a short wait for a host that is gone without a word: the others are tried in time.
* connecting by TLS, with the name checked, and nothing left open when that fails. Each connection
  looks at the files: certificates are renewed while a process runs.
* its owner hears when a thread ends, for how long the server granted the session, and how long ago
  the server answered.
* its owner hears when no server will take the session again. A server hangs up on a client that has
  seen a later change than the server has, and kazoo would return to it forever.

Nothing here knows an event loop.
"""

from __future__ import annotations

import logging
import math
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionDropped

from quire.errors import ConfigurationError
from quire.extras import needed_for
from quire.metastore.zookeeper_probe import probe
from quire.metastore.zookeeper_requests import reason_of
from quire.metastore.zookeeper_uri import Auth, ZooKeeperOptions
from quire.tls_files import RenewedFiles, refuse_password

HANDSHAKES_PER_TIMEOUT: Final = 3
"""A server that is starting may take a connection and never answer it; the session has to survive
that. kazoo waits for a handshake as long as the session's timeout divided by the number of hosts.
"""

CONNECT_SECONDS_MAX: Final = 1.5
"""A host that is gone without a word answers no SYN; after a lost SYN the kernel repeats it in 1 s.
kazoo would wait for it as long as the session lasts, and lose the session meanwhile.
"""

_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}

BROKEN: Final = "socket connection broken"
"""What kazoo says of a server that hangs up without an answer."""

COMPLAINTS_MAX: Final = 3
"""Different reasons that are remembered of why a client cannot connect."""

LOG: Final = logging.getLogger("quire.metastore.zookeeper")
LOG.addHandler(logging.NullHandler())


class Complaints:
    """Why there is no connection: the latest reasons, each once. A name can stand for several
    addresses, and the answer of the last one need not be the helpful one.
    """

    def __init__(self) -> None:
        self._said: dict[str, None] = {}

    def add(self, complaint: str) -> None:
        self._said.pop(complaint, None)
        self._said[complaint] = None
        if len(self._said) > COMPLAINTS_MAX:
            del self._said[next(iter(self._said))]

    def clear(self) -> None:
        self._said.clear()

    def __str__(self) -> str:
        return "; ".join(self._said)

    def text(self, *, may_be_tls: bool) -> str:
        """Return what to add to "no connection". `may_be_tls` tells that no server has ever
        answered, and that TLS was not tried.
        """
        said = str(self)
        if may_be_tls and BROKEN in said:
            said += "; if it is a port for TLS, add tls=yes to the URI"
        return f": {said}" if said else ""


class Listening(logging.LoggerAdapter[logging.Logger]):
    """kazoo's logger; passes on what kazoo warns of, which is why it cannot connect.

    kazoo writes whole requests and answers: the password of `auth=digest`, and values of records.
    They are named here, and not shown.
    """

    def __init__(self, on_warning: Callable[[str], None]) -> None:
        super().__init__(LOG, {})
        self._on_warning = on_warning

    def warning(self, msg: object, *arguments: object, **options: Any) -> None:
        self._on_warning(str(msg) % arguments if arguments else str(msg))
        super().warning(msg, *arguments, **options)

    def log(self, level: int, msg: object, *arguments: object, **options: Any) -> None:
        if self.isEnabledFor(level):
            super().log(level, msg, *map(_named, arguments), **options)


def _named(argument: object) -> object:
    """Return an argument of kazoo's as a log may show it."""
    if argument is None or isinstance(argument, str | int | float | BaseException):
        return argument
    path = getattr(argument, "path", "")
    return f"{type(argument).__name__} {path}".strip()


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, options: ZooKeeperOptions, hosts: str) -> None:
        super().__init__()
        self._hosts = len(hosts.split(","))
        self._context: RenewedFiles[ssl.SSLContext] | None = None
        if options.tls:
            make = partial(_tls_context, options)
            self._context = RenewedFiles(options.files, make, LOG, clock=time.monotonic)
        self.is_tls = options.tls
        self.on_end: Callable[[str], None] = lambda _: None
        self.on_grant: Callable[[float], None] = lambda _: None
        self.on_refusal: Callable[[str], None] = lambda _: None
        self.granted = math.inf
        self.heard_at = math.inf

    def spawn(self, func: Callable[..., None], *arguments: Any, **named: Any) -> Any:
        """Start one of kazoo's threads. However it ends, `on_end` is told in it why."""

        def run() -> None:
            reason = "it ended"
            try:
                func(*arguments, **named)
            except BaseException as error:
                reason = reason_of(error)
            self.on_end(reason)

        return super().spawn(run)

    def create_connection(self, *arguments: Any, **named: Any) -> socket.socket:
        """Connect. kazoo's own way leaves the socket open when a certificate is refused."""
        named["timeout"] = min(named["timeout"] / self._hosts, CONNECT_SECONDS_MAX)
        if self._context is None:
            plain: socket.socket = super().create_connection(*arguments, **named)
            return plain
        context = self._context.newest()
        plain = socket.create_connection(named["address"], named["timeout"])
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname=named["hostname"].strip("[]"))
        except BaseException:
            plain.close()
            raise


def make_client(
    hosts: str,
    timeout: float,
    options: ZooKeeperOptions,
    credentials: tuple[str, str] | None,
    logger: logging.LoggerAdapter[logging.Logger],
) -> KazooClient:
    """Return a client that was not started. Raises `ConfigurationError` without pure-sasl."""
    client = KazooClient(
        hosts=_often_enough(hosts),
        timeout=timeout,
        handler=_Handler(options, _often_enough(hosts)),
        connection_retry=dict(_RECONNECT),
        logger=logger,
        **_identity(options.auth, credentials),
    )
    connection = client._connection
    authenticate = connection._authenticate_with_sasl
    connection._authenticate_with_sasl = lambda *host: _authenticate(authenticate, *host)
    connect = connection._connect
    connection._connect = lambda *host: _connect(client, connect, *host)
    read = connection._read_socket
    connection._read_socket = lambda timeout: _read(client, read, timeout)
    return client


def seconds_of_silence(client: KazooClient) -> float:
    """Return how long ago the server was heard of, by any thread's clock."""
    silence: float = time.monotonic() - client.handler.heard_at
    return silence


def stop_client(client: KazooClient) -> None:
    """End a client's session and threads; blocks, for the session's timeout at most."""
    # kazoo complains when a server that does not answer keeps its thread busy; the thread
    # ends by itself when its connection times out.
    for step in (client.stop, client.close):
        with suppress(Exception):
            step()


def _connect(client: KazooClient, connect: Callable[..., Any], *host: Any) -> tuple[float, float]:
    """Connect, and tell for how many seconds the session was granted; kazoo reads for 2/3 of it."""
    try:
        read_milliseconds, connect_milliseconds = connect(*host)
    except ConnectionDropped:
        if client._connection._socket is not None and client.last_zxid:
            _explain_hang_up(client, *host[1:])
        raise
    handler = client.handler
    handler.heard_at = time.monotonic()
    handler.granted = read_milliseconds * 1.5 / 1000
    handler.on_grant(handler.granted)
    return read_milliseconds, connect_milliseconds


def _explain_hang_up(client: KazooClient, host: str, port: int) -> None:
    """Tell the client's owner if the session cannot go on: the server that hung up is known to be
    older than changes the client has seen, or the session's time is over.
    """
    status = None if client.handler.is_tls else probe(host, port)
    if status is not None and status.is_older_than(client.last_zxid):
        client.handler.on_refusal(
            f"the data of ZooKeeper at {host}:{port} ends at change 0x{status.zxid:x}, and this "
            f"client has seen 0x{client.last_zxid:x}: it was put back from an older copy, or it "
            "is another ensemble. If it was put back, run `quire metadata adopt`"
        )
    elif seconds_of_silence(client) >= client.handler.granted:
        client.handler.on_refusal(
            f"ZooKeeper at {host}:{port} hangs up on a session whose time is over"
        )


def _read(client: KazooClient, read: Callable[[float], Any], timeout: float) -> Any:
    answer = read(timeout)
    client.handler.heard_at = time.monotonic()
    return answer


def _authenticate(authenticate: Callable[..., None], *host: Any) -> None:
    try:
        authenticate(*host)
    except kazoo_errors.AuthFailedError as error:
        if isinstance(error.__cause__, ConnectionDropped):
            raise error.__cause__ from None
        raise


def _tls_context(options: ZooKeeperOptions) -> ssl.SSLContext:
    """Raises `ConfigurationError` when a certificate or key cannot be used."""
    try:
        context = ssl.create_default_context(cafile=options.ca)
        if options.certificate and options.key:
            refuse = partial(refuse_password, options.key)
            context.load_cert_chain(options.certificate, options.key, refuse)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        files = ", ".join(filter(None, options.files))
        raise ConfigurationError(f"{files}: no usable certificates and key: {error}") from error
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _identity(auth: Auth | None, credentials: tuple[str, str] | None) -> dict[str, Any]:
    if auth is None or credentials is None:
        return {}
    name, password = credentials
    if auth is Auth.DIGEST:
        return {"auth_data": [("digest", f"{name}:{password}")]}
    with needed_for("auth=sasl", "sasl"):
        import puresasl  # noqa: F401
    return {"sasl_options": {"mechanism": "DIGEST-MD5", "username": name, "password": password}}


def _often_enough(hosts: str) -> str:
    """Return some hosts, named again until there are HANDSHAKES_PER_TIMEOUT of them."""
    rounds = -(-HANDSHAKES_PER_TIMEOUT // len(hosts.split(",")))
    return ",".join([hosts] * rounds)
