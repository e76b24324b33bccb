"""One look at the gateways: which are known, what each says, and rates from looks before.

A gateway that does not answer stays in the look, with the reason. The work of a look is bounded:
`GATEWAYS_MAX` are asked, `AT_ONCE_MAX` at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from quire.aio.tasks import each
from quire.console.asking import GatewaySilentError
from quire.console.looks import GatewayLook
from quire.gateway.place import GatewayPlace
from quire.gateway.status import GatewayStatus

GATEWAYS_MAX: Final = 500
AT_ONCE_MAX: Final = 16

LOOKS_KEPT: Final = 12
"""A minute of a gateway's totals: its rates are over so long."""

Ask = Callable[[str], Awaitable[GatewayStatus]]


class _StatusAt(NamedTuple):
    at_ms: int
    status: GatewayStatus


class GatewayLooks:
    """What gateways said over the last minute."""

    def __init__(self, ask: Ask) -> None:
        """`ask` returns the status at a URL, or raises `GatewaySilentError`."""
        self._ask = ask
        self._told: dict[str, deque[_StatusAt]] = {}

    async def look(
        self, places: Sequence[GatewayPlace], now_ms: Callable[[], int]
    ) -> list[GatewayLook]:
        """Ask the gateways at some places, and forget all others."""
        known = list(places)[:GATEWAYS_MAX]
        for gone in sorted(self._told.keys() - {place.url for place in known}):
            del self._told[gone]

        async def look(place: GatewayPlace) -> GatewayLook:
            try:
                status = await self._ask(place.url)
            except GatewaySilentError as error:
                self._told.pop(place.url, None)
                return GatewayLook(place, trouble=str(error))
            return self._kept(place, _StatusAt(now_ms(), status))

        return await each(known, look, AT_ONCE_MAX)

    def _kept(self, place: GatewayPlace, now: _StatusAt) -> GatewayLook:
        kept = self._told.setdefault(place.url, deque(maxlen=LOOKS_KEPT))
        if kept and not _goes_on(kept[-1].status, now.status):
            kept.clear()
        kept.append(now)
        return look_of(place, kept[0], now)


def _goes_on(before: GatewayStatus, now: GatewayStatus) -> bool:
    """Whether a gateway is the same process as before: its totals did not fall."""
    totals = [
        (before.up_seconds, now.up_seconds),
        (before.requests, now.requests),
        (before.append_bytes, now.append_bytes),
        (before.read_bytes, now.read_bytes),
    ]
    return all(one <= two for one, two in totals)


def look_of(place: GatewayPlace, before: _StatusAt, now: _StatusAt) -> GatewayLook:
    """Return the status of a gateway, with its rates since a time before. Pure."""
    passed = (now.at_ms - before.at_ms) / 1000
    look = GatewayLook(place, now.status, now.at_ms)
    if passed <= 0:
        return look
    return look._replace(
        requests_per_second=(now.status.requests - before.status.requests) / passed,
        append_bytes_per_second=(now.status.append_bytes - before.status.append_bytes) / passed,
        read_bytes_per_second=(now.status.read_bytes - before.status.read_bytes) / passed,
    )
