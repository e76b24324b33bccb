"""The gateways that Kafka's clients are told of, as brokers.

A client knows the brokers of its last Metadata answer, and no others: it forgets the addresses that
it was started with. So every answer names all gateways. A client that knew one gateway alone
would ask that address forever after the gateway's end.

A gateway is named while it is known among all of them (presence.py).

Invariant: a gateway that ends is named no more before it gives up its logs. Otherwise clients would
be sent back to it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from quire.aio.retry import retry
from quire.client import Client
from quire.errors import QuireError, RetryError
from quire.gateway.place import GatewayPlace
from quire.gateway.presence import BACKOFF, GatewayPresence
from quire.wire.transport import split_address

JOIN_SECONDS: Final = 10.0
"""A gateway serves after so long, even if the others cannot see it yet."""

_log = logging.getLogger(__name__)


class BrokerNode(NamedTuple):
    """A gateway as Kafka's clients see it: a broker."""

    id: int
    host: str
    """Without the brackets that an IPv6 address has before a port, as Kafka tells it."""
    port: int

    @property
    def address(self) -> str:
        """The node as host:port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def node_at(address: str) -> BrokerNode:
    """Return the node at `host:port`. All gateways give it the same id."""
    host, port = split_address(address)
    digest = blake2b(address.encode(), digest_size=4).digest()
    return BrokerNode(int.from_bytes(digest) >> 1, host.strip("[]"), port)


class _NotSeenError(Exception):
    """The place is not among the candidates yet."""


class Nodes:
    """The gateways that answer Kafka's clients, this one among them."""

    def __init__(self, client: Client, place: GatewayPlace) -> None:
        assert place.kafka is not None
        self.mine = node_at(place.kafka)
        self._presence = GatewayPresence(client, place)
        self._others: list[BrokerNode] = []
        self._has_left = False

    async def join(self) -> None:
        """Be named from now on, by every gateway."""
        self._presence.begin()
        with suppress(_NotSeenError, QuireError):
            await retry(
                self._look, on=(_NotSeenError, RetryError), backoff=BACKOFF, timeout=JOIN_SECONDS
            )

    async def _look(self) -> None:
        if not await self._presence.is_seen():
            raise _NotSeenError

    async def known(self) -> list[BrokerNode]:
        """Return the gateways by their ids. The last known ones, if the store is away."""
        try:
            places = await self._presence.others()
        except QuireError as error:
            _log.warning("Kafka's clients are told of the gateways of before: %s", error)
        else:
            found = {node_at(each.kafka) for each in places if each.kafka is not None}
            self._others = sorted(found - {self.mine})
        return self._others if self._has_left else sorted({*self._others, self.mine})

    async def leave(self) -> None:
        """Be named no more."""
        self._has_left = True
        await self._presence.leave()


def first_guess(topic: str, nodes: list[BrokerNode]) -> BrokerNode | None:
    """Return the gateway that should write a log which none writes, the same for every client.

    Each gateway gets its share of the logs, and keeps it when another one comes or goes.
    """
    return max(nodes, key=lambda each: _weight(topic, each), default=None)


def _weight(topic: str, node: BrokerNode) -> bytes:
    return blake2b(f"{node.id} {topic}".encode(), digest_size=8).digest()
