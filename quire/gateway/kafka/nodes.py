"""The gateways that Kafka's clients are told of, as brokers.

A client knows the brokers of its last Metadata answer, and no others: it forgets the addresses that
it was started with. So every answer names all gateways. A client that knew one gateway alone
would ask that address forever after the gateway's end.

A gateway is named while it stands in one election of all of them. No office comes with it: the
election is used for its list of candidates, which forgets a dead one after its session.

Invariant: a gateway that ends is named no more before it gives up its logs. Otherwise clients would
be sent back to it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.tasks import Tasks
from quire.client import Client
from quire.errors import QuireError, RetryError
from quire.gateway.owners import GatewayPlace
from quire.wire.transport import split_address

ELECTION: Final = "kafka-gateways"

BACKOFF: Final = Backoff(first=0.02, last=5.0)

JOIN_SECONDS: Final = 10.0
"""A gateway serves after so long, even if the others cannot see it yet."""

_log = logging.getLogger(__name__)


class BrokerNode(NamedTuple):
    """A gateway as Kafka's clients see it: a broker."""

    id: int
    host: str
    port: int


def node_at(address: str) -> BrokerNode:
    """Return the node at `host:port`. All gateways give it the same id."""
    host, port = split_address(address)
    digest = blake2b(address.encode(), digest_size=4).digest()
    return BrokerNode(int.from_bytes(digest) >> 1, host, port)


class _NotSeenError(Exception):
    """The place is not among the candidates yet."""


class Nodes:
    """The gateways that answer Kafka's clients, this one among them."""

    def __init__(self, client: Client, place: GatewayPlace) -> None:
        assert place.kafka is not None
        self.mine = node_at(place.kafka)
        self._place = place
        self._election = client.election(ELECTION, str(place))
        self._tasks = Tasks()
        self._others: list[BrokerNode] = []
        self._has_left = False

    async def join(self) -> None:
        """Be named from now on, by every gateway."""
        self._tasks.start(self._stand(), "gateway stands among brokers")
        with suppress(_NotSeenError, QuireError):
            await retry(
                self._look, on=(_NotSeenError, RetryError), backoff=BACKOFF, timeout=JOIN_SECONDS
            )

    async def _look(self) -> None:
        if str(self._place) not in await self._election.candidates():
            raise _NotSeenError

    async def _stand(self) -> None:
        failures = 0
        while True:
            try:
                async with self._election.lead() as leadership:
                    failures = 0
                    await leadership.wait_lost()
            except QuireError as error:
                _log.warning("other gateways do not name this one: %s", error)
                await asyncio.sleep(BACKOFF.seconds(failures))
                failures += 1

    async def known(self) -> list[BrokerNode]:
        """Return the gateways by their ids. Those that were known last, if the store is away."""
        try:
            names = await self._election.candidates()
        except QuireError as error:
            _log.warning("Kafka's clients are told of the gateways of before: %s", error)
        else:
            places = [place for each in names if (place := GatewayPlace.named(each)) is not None]
            found = {node_at(each.kafka) for each in places if each.kafka is not None}
            self._others = sorted(found - {self.mine})
        return self._others if self._has_left else sorted({*self._others, self.mine})

    async def leave(self) -> None:
        """Be named no more."""
        self._has_left = True
        await self._tasks.stop()
        await self._election.close()


def first_guess(topic: str, nodes: list[BrokerNode]) -> BrokerNode | None:
    """Return the gateway that should write a log which none writes, the same for every client.

    Each gateway gets its share of the logs, and keeps it when another one comes or goes.
    """
    return max(nodes, key=lambda each: _weight(topic, each), default=None)


def _weight(topic: str, node: BrokerNode) -> bytes:
    return blake2b(f"{node.id} {topic}".encode(), digest_size=8).digest()
