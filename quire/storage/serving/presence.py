"""A serving bookie as its operator sees it: it obeys a wish, and beats its heart.

Put together from three parts: the watch of its standing, the guard that refuses entries while the
bookie is off duty, and the heart that tells how the bookie is. A change of the wish is told with
the next turn of the loop, so that an operator sees at once that it is obeyed.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from quire.bookie import BookieAddress
from quire.labels import Labels
from quire.metastore.heartbeat import Heartbeat, Place
from quire.metastore.standing import Wish
from quire.metastore.store import MetadataStore
from quire.storage.identity.heart import Heart
from quire.storage.identity.wish_watch import WishWatch
from quire.storage.serving.obedient import ObedientBookie
from quire.version import __version__


class Presence:
    """One bookie's standing and heartbeat. `look` before it serves, `start` before clients find
    it; its owner closes it.
    """

    def __init__(
        self,
        store: MetadataStore,
        bookie: ObedientBookie,
        places: Callable[[], Awaitable[Sequence[Place]]],
        *,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """`places` returns the bookie's directories and their space, `clock` the wall clock in
        seconds.
        """
        self._bookie = bookie
        self._places = places
        self._clock = clock
        self._wish = Wish.SERVE
        self._here: BookieAddress | None = None
        self._watch = WishWatch(store, bookie.name, self._obey, clock)
        self._heart = Heart(store, bookie.name, self._account, rng)

    async def look(self) -> None:
        """Learn the wish, and follow it from now on. Raises the store's errors."""
        await self._watch.look()
        self._watch.start()

    async def start(self, address: BookieAddress) -> None:
        """Tell how the bookie is, now and from now on; clients find it at `address`."""
        self._here = address
        await self._heart.start()

    async def close(self) -> None:
        """Follow no wish and tell nothing any more. The last heartbeat stays."""
        await self._heart.close()
        await self._watch.close()

    def place(self, started: Labels) -> Labels:
        """Return where the bookie is: an operator may have said so meanwhile."""
        return self._watch.standing.place(started)

    def _obey(self, wish: Wish) -> None:
        if wish is self._wish:
            return
        self._wish = wish
        if wish.takes_entries:
            self._bookie.take_entries()
        else:
            self._bookie.take_none(str(wish))
        self._heart.hurry()

    async def _account(self) -> Heartbeat:
        assert self._here is not None, "a heart beats after `start`"
        info = await self._bookie.info()
        return Heartbeat(
            round(self._clock() * 1000),
            self._here.address,
            self.place(self._here.labels),
            __version__,
            self._wish,
            info.writable,
            info.ledgers or 0,
            info.in_limbo or 0,
            tuple(await self._places()),
        )
