"""Facts of bookies, made in a line."""

from __future__ import annotations

from quire.bookie import BookieAddress, BookieInfo
from quire.healing.state import BookieFacts
from quire.healing.verdict import ClusterFacts
from quire.labels import Labels
from quire.metastore.heartbeat import Heartbeat, Place
from quire.metastore.standing import SERVING, Standing, Wish

NOW = 1_700_000_000_000
AWAY = Standing(Wish.AWAY, "new fan", "anna@desk", NOW - 60_000, NOW + 60_000)
DRAIN = Standing(Wish.DRAIN, "", "", NOW - 60_000)
GONE = Standing(Wish.GONE, "", "", NOW - 60_000)


def bookie(
    name: str = "b1",
    *,
    up: bool = True,
    heard: float | None = 10.0,
    standing: Standing = SERVING,
    writable: bool = True,
    version: str = "1.0",
    silence: str = "",
    in_limbo: int = 0,
    free: int = 50,
    damaged: tuple[str, ...] = (),
) -> BookieFacts:
    """A bookie that was heard of so many seconds ago, on a host of its own name."""
    here = BookieAddress(name, f"{name}:1", writable, labels=Labels(host=f"h-{name}"))
    disks = (Place("/disk", "main", free, 100),)
    beat = Heartbeat(
        *(NOW, here.address, here.labels, version, Wish.SERVE, writable, 7, in_limbo, disks)
    )
    answers = up and not silence
    return BookieFacts(
        name,
        here if up else None,
        version if up else "",
        standing,
        None if heard is None else beat,
        None if heard is None else NOW - round(heard * 1000),
        BookieInfo(name, writable, free, 100, 7, in_limbo) if answers else None,
        silence,
        damaged,
    )


def cluster(*bookies: BookieFacts, ensemble: int = 1, **others: object) -> ClusterFacts:
    return ClusterFacts(bookies, NOW, ensemble=ensemble, **others)  # type: ignore[arg-type]
