"""Ids of new ledgers, drawn as Apache BookKeeper's clients draw them.

Short ids are the numbers that ZooKeeper gives to sequential records below `idgen`. When these are
used up, clients go on below `idgen-long`: a record there has the upper half of an id in its name,
and the lower half is drawn below it. Every client of a cluster must draw here, or two ledgers get
one id.

The records are ephemeral and deleted at once; a record that stays, because its deletion was not
answered, goes with the session.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Final

from quire.bookkeeper.layouts import SHORT_MAX, Form, Layout
from quire.entry import LedgerId
from quire.errors import (
    ConflictError,
    NodeExistsError,
    NoSuchNodeError,
    OutcomeUnknownError,
    RetryError,
    SessionExpiredError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedError,
)
from quire.metastore.store import MetadataStore, Session

SESSION_SECONDS: Final = 10.0
ATTEMPTS_MAX: Final = 4
"""Draws without a known outcome before the call gives up: each loses an id at most."""

UPPER_BITS: Final = 32
FIRST_UPPER: Final = 1
UPPER_MAX: Final = 2**31 - 1
LOWER_MAX: Final = 2**31 - 1
"""ZooKeeper counts with 32 bits and a sign: from here on its numbers turn negative."""

_UPPER: Final = re.compile(r"HOB-([0-9]{10})")
_SEQUENCE: Final = re.compile(r"ID-(-?[0-9]{10,11})")


class LedgerIdSupply:
    """The ids of one cluster. Its session ends with the store."""

    def __init__(self, store: MetadataStore, layout: Layout) -> None:
        self._store = store
        self._layout = layout
        self._session: Session | None = None
        self._drawing = asyncio.Lock()

    async def next(self) -> LedgerId:
        """Return an id that no other client gets. Raises the store's errors, and
        `UnsupportedError` when the layout has no ids left.

        Cancelling, and an unknown outcome, lose ids but never give one out twice.
        """
        async with self._drawing:
            short, long = self._layout.id_prefixes()
            if not await self._exists(long):
                drawn = await self._draw(f"{short}/ID-")
                if 0 <= drawn < SHORT_MAX:
                    return drawn
                if self._layout.form in (Form.FLAT, Form.LEGACY):
                    raise UnsupportedError(
                        f"the layout {self._layout.form.value} of {self._layout.root}",
                        f"ledger ids above {SHORT_MAX - 1}",
                    )
            return await self._next_long(long)

    async def _next_long(self, path: str) -> LedgerId:
        upper = await self._upper(path)
        while upper <= UPPER_MAX:
            lower = await self._draw(f"{path}/HOB-{upper:010d}/ID-")
            if 0 <= lower < LOWER_MAX:
                return upper << UPPER_BITS | lower
            upper += 1
            await self._make(f"{path}/HOB-{upper:010d}")
        raise UnsupportedError(f"the cluster at {self._layout.root}", "any more ledger ids")

    async def _upper(self, path: str) -> int:
        names = map(_UPPER.fullmatch, await self._store.children(path))
        found = [int(each[1]) for each in names if each is not None]
        if found:
            return max(found)
        await self._make(f"{path}/HOB-{FIRST_UPPER:010d}")
        return FIRST_UPPER

    async def _make(self, path: str) -> None:
        with suppress(NodeExistsError):
            await self._store.create(path, b"")

    async def _exists(self, path: str) -> bool:
        try:
            await self._store.get(path)
        except NoSuchNodeError:
            return False
        return True

    async def _draw(self, prefix: str) -> int:
        """Return the number of a sequential record that is made, and deleted again."""
        for _ in range(ATTEMPTS_MAX):
            session = await self._live_session()
            try:
                path = await session.create_sequential(prefix, b"")
            except SessionExpiredError:
                self._session = None
                continue
            except StoreOutcomeUnknownError:
                continue
            with suppress(ConflictError, NoSuchNodeError, OutcomeUnknownError, RetryError):
                await self._store.delete(path)
            found = _SEQUENCE.fullmatch(path.rpartition("/")[2])
            if found is None:
                raise StoreUnavailableError(
                    self._store.uri, f"{path} lacks the number of a sequential record"
                )
            return int(found[1])
        raise StoreUnavailableError(
            self._store.uri, f"{ATTEMPTS_MAX} records at {prefix} were not answered"
        )

    async def _live_session(self) -> Session:
        if self._session is None or self._session.expired:
            self._session = await self._store.open_session(SESSION_SECONDS)
        return self._session
