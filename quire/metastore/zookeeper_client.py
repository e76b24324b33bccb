"""Making kazoo's client: how it reconnects, encrypts, says who it is; and what it does not know.

Two things are added to kazoo, both small:

* a request that takes a watch back. ZooKeeper has it since 3.5; without it a watch that nobody
  waits for any longer stays on the server, and here, until the record changes.
* a `select` that does not sleep on a TLS connection which holds decrypted answers already. They
  come several to a packet, and kazoo would read the second one only when the next packet arrives.

Nothing here knows an event loop.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import ACL, make_acl

from quire.errors import ConfigurationError
from quire.metastore.zookeeper_uri import Access, Auth, ZooKeeperOptions

HANDSHAKES_PER_TIMEOUT: Final = 3
"""A server that is starting may take a connection and never answer it; the session has to survive
that. kazoo waits for a handshake as long as the session's timeout divided by the number of hosts.
"""

_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
_NO_WATCHER: Final = -121
_ANY_WATCHER: Final = 3


class _NoWatcherError(kazoo_errors.ZookeeperError):  # type: ignore[misc]
    """A watch that was to be taken back had fired already."""


# kazoo takes its connection down over a code it does not know.
kazoo_errors.EXCEPTIONS.setdefault(_NO_WATCHER, _NoWatcherError)


class RemoveWatches(NamedTuple):
    """The request that takes back all watches of this session on a path."""

    path: str
    client: KazooClient
    type: int = 18

    def serialize(self) -> bytes:
        """Return the request's body: the path, and which kind of watch."""
        path = self.path.encode()
        return len(path).to_bytes(4, "big") + path + _ANY_WATCHER.to_bytes(4, "big")

    def deserialize(self, data: bytes, offset: int) -> bool:
        """Take the answer, which is empty. kazoo calls this in the thread that owns its watches."""
        self.client._data_watchers.pop(self.path, None)
        self.client._child_watchers.pop(self.path, None)
        return True


def remove_watches(client: KazooClient, path: str) -> None:
    """Ask the server to forget this session's watches on a path; the answer is of no interest."""
    client._call(RemoveWatches(path, client), client.handler.async_result())


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def select(self, readable: Any, *others: Any) -> Any:
        buffered = [each for each in readable if hasattr(each, "pending") and each.pending()]
        if not buffered:
            return super().select(readable, *others)
        rest = [each for each in readable if each not in buffered]
        found = super().select(rest, [], [], 0)[0] if rest else []
        return [*buffered, *found], [], []


def make_client(
    hosts: str,
    timeout: float,
    options: ZooKeeperOptions,
    credentials: tuple[str, str] | None,
    logger: logging.LoggerAdapter[logging.Logger],
) -> KazooClient:
    """Return a client that was not started. Raises `ConfigurationError` without pure-sasl."""
    return KazooClient(
        hosts=_often_enough(hosts),
        timeout=timeout,
        handler=_Handler(),
        connection_retry=dict(_RECONNECT),
        logger=logger,
        default_acl=_acl(options.acl),
        use_ssl=options.tls,
        verify_certs=options.verify,
        check_hostname=options.tls and options.verify,
        ca=options.ca,
        certfile=options.certificate,
        keyfile=options.key,
        **_identity(options.auth, credentials),
    )


def _identity(auth: Auth | None, credentials: tuple[str, str] | None) -> dict[str, Any]:
    if auth is None or credentials is None:
        return {}
    name, password = credentials
    if auth is Auth.DIGEST:
        return {"auth_data": [("digest", f"{name}:{password}")]}
    try:
        import puresasl  # noqa: F401
    except ImportError:
        raise ConfigurationError("auth=sasl needs a package: `pip install pure-sasl`") from None
    return {"sasl_options": {"mechanism": "DIGEST-MD5", "username": name, "password": password}}


def _acl(access: Access) -> list[ACL] | None:
    ours = make_acl("auth", "", all=True)
    match access:
        case Access.OPEN:
            return None
        case Access.PRIVATE:
            return [ours]
        case Access.READABLE:
            return [ours, make_acl("world", "anyone", read=True)]


def _often_enough(hosts: str) -> str:
    """Return some hosts, named again until there are HANDSHAKES_PER_TIMEOUT of them."""
    rounds = -(-HANDSHAKES_PER_TIMEOUT // len(hosts.split(",")))
    return ",".join([hosts] * rounds)
