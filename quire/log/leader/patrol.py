"""One watch for all leaders at rest: their manifests are compared with the versions that they saw.

A watch of each manifest costs a task, and ten thousand of them cost a store more than the logs do.
So one task goes round: it asks the store which of some manifests have other versions. It wakes
their leaders, and those that have something to do by now. A round takes `ROUND_SECONDS`, or longer
where there are more manifests than it may ask for in that time. The task runs while a leader rests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf
from typing import Final, Protocol

from quire.aio.tasks import Tasks
from quire.errors import QuireError
from quire.metastore.store import MetadataStore

_log = logging.getLogger(__name__)

ROUND_SECONDS: Final = 10.0
"""Pause between two rounds: so late does a resting leader learn of other options."""

AT_ONCE_MAX: Final = 500
"""Manifests that are asked for together: two milliseconds of SQLite's thread."""

PAUSE_SECONDS: Final = 0.1
"""Pause between two questions of a round."""


class Sleeper(Protocol):
    """A leader that does not look at its manifest: it rests, or was woken a moment ago."""

    def _views(self) -> Mapping[str, int | None]:
        """Return the records of its log and ledger, with the versions that it saw."""
        ...

    @property
    def _due_at(self) -> float:
        """Loop time of its next duty; infinity for none."""
        ...

    def _rouse(self) -> None:
        """Look at the manifest, from now on."""
        ...


class Patrol:
    """Wakes resting leaders of one directory when their manifests change."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._sleepers: dict[str, tuple[Sleeper, ...]] = {}
        self._tasks = Tasks()
        self._going: asyncio.Task[None] | None = None
        self._is_rousing = False
        """Whether its task rouses leaders: then it notices that all are gone."""

    def watch(self, path: str, sleeper: Sleeper) -> None:
        """Rouse a leader, of the manifest at a path, when one of its records has another version.

        Harmless again.
        """
        known = self._sleepers.get(path, ())
        if not any(each is sleeper for each in known):
            self._sleepers[path] = (*known, sleeper)
        if self._going is None:
            self._going = self._tasks.start(self._go_round(), "patrol of resting logs")

    def forget(self, path: str, sleeper: Sleeper) -> None:
        """Watch a record no more for a leader."""
        left = tuple(each for each in self._sleepers.pop(path, ()) if each is not sleeper)
        if left:
            self._sleepers[path] = left
        going = self._going
        if going is not None and not self._sleepers and not self._is_rousing:
            self._going = None
            going.cancel()

    async def _go_round(self) -> None:
        """Go round until no leader rests any more."""
        while self._sleepers:
            await asyncio.sleep(ROUND_SECONDS)
            now = asyncio.get_running_loop().time()
            paths = iter(tuple(self._sleepers))
            while some := tuple(islice(paths, AT_ONCE_MAX)):
                self._rouse(await self._changed(some))
                self._rouse(some, now)
                await asyncio.sleep(PAUSE_SECONDS)
        self._going = None

    async def _changed(self, paths: tuple[str, ...]) -> list[str]:
        """Return the manifests that changed. A store that is away has no news.

        Neither has a store with a defect: the next question must come all the same.
        """
        views: dict[str, int | None] = {}
        owners: dict[str, list[str]] = {}
        changed: dict[str, None] = {}
        for path in paths:
            for sleeper in self._sleepers.get(path, ()):
                for record, version in sleeper._views().items():
                    if views.setdefault(record, version) != version:
                        changed[path] = None  # one of its leaders was deposed by the other
                    owners.setdefault(record, []).append(path)
        try:
            for record in await self._store.changed(views):
                changed.update(dict.fromkeys(owners[record]))
        except QuireError:
            return []
        except Exception as error:
            self._meet(error)
            return []
        return list(changed)

    def _rouse(self, paths: Iterable[str], now: float = inf) -> None:
        """Rouse the leaders of some manifests that have something to do at a time."""
        self._is_rousing = True
        try:
            for path in paths:
                for each in self._sleepers.get(path, ()):
                    if each._due_at <= now:
                        self._rouse_one(each)
        finally:
            self._is_rousing = False

    def _rouse_one(self, sleeper: Sleeper) -> None:
        """Rouse a leader. A defect of one leader must not keep the others asleep."""
        try:
            sleeper._rouse()
        except Exception as error:
            self._meet(error)

    def _meet(self, error: Exception) -> None:
        _log.error("the patrol of resting logs meets a defect", exc_info=error)
