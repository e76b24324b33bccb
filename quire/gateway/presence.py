"""The gateways of a cluster, as the metadata store knows them.

Every gateway stands in one election of all of them while it serves. No office comes with it: the
election is used for its list of candidates, which forgets a dead one after its session. Kafka's
clients are told of the gateways in it that have a port for them, and a console asks each of them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.tasks import Tasks
from quire.client import Client
from quire.errors import QuireError
from quire.gateway.elections import GATEWAYS
from quire.gateway.place import GatewayPlace

BACKOFF: Final = Backoff(first=0.02, last=5.0)

_log = logging.getLogger(__name__)


class GatewayPresence:
    """The record of one gateway among the others."""

    def __init__(self, client: Client, place: GatewayPlace) -> None:
        self._name = str(place)
        self._election = client.election(GATEWAYS, self._name)
        self._tasks = Tasks()

    def begin(self) -> None:
        """Be known from now on, as soon as the store can be reached."""
        self._tasks.start(self._stand(), "gateway stands among gateways")

    async def is_seen(self) -> bool:
        """Return whether others can see this gateway. Raises the store's errors."""
        return self._name in await self._election.candidates()

    async def _stand(self) -> None:
        failures = 0
        while True:
            try:
                async with self._election.lead() as leadership:
                    failures = 0
                    await leadership.wait_lost()
            except QuireError as error:
                _log.warning("other programs do not know this gateway: %s", error)
                await asyncio.sleep(BACKOFF.seconds(failures))
                failures += 1

    async def others(self) -> list[GatewayPlace]:
        """Return the gateways that are known, this one among them. Raises the store's errors."""
        return places_of(await self._election.candidates())

    async def leave(self) -> None:
        """Be known no more."""
        await self._tasks.stop()
        await self._election.close()


def places_of(candidates: list[str]) -> list[GatewayPlace]:
    """Return the places that the names of candidates have; other programs are left out."""
    return [place for each in candidates if (place := GatewayPlace.named(each)) is not None]


async def known_gateways(client: Client) -> list[GatewayPlace]:
    """Return the gateways of a cluster, sorted. Raises the store's errors."""
    election = client.election(GATEWAYS)
    try:
        return sorted(set(places_of(await election.candidates())), key=str)
    finally:
        await election.close()
