"""The newest table, as one process knows it: read before it serves, then watched.

Invariants:
  - A process that has seen a table never goes back to none. A record that vanishes is a loss, or
    an attack, and the last table stays in force.
  - A process that starts after the loss denies each call. The cluster's record tells the loss from
    a cluster that never had rules (stored.py).
  - A record that cannot be read changes nothing, except at the start, when it is an error.
  - While the store is out of reach the last table stays.

So a right that was taken away ends with the next look at the latest: `LOOK_SECONDS` after the
change while the store answers.

Owns one task.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.errors import CorruptRecordError, HandleClosedError, MissingRightsError, QuireError
from quire.metastore.layout import RIGHTS
from quire.metastore.store import MetadataStore
from quire.rights.stored import find_rights
from quire.rights.table import RightsTable

LOOK_SECONDS: Final = 10.0
"""The record is read so often, besides whenever a watch reports a change."""

BACKOFF: Final = Backoff(first=0.1, last=5.0)
"""Pauses while the store cannot be reached."""

_log = logging.getLogger(__name__)


class RightsWatch:
    """Follows the table of a cluster. `look` once, then `start`; its owner closes it."""

    def __init__(self, store: MetadataStore) -> None:
        self.table: RightsTable | None = None
        """The newest table; None before there is one. Another table is another object."""
        self._store = store
        self._version: int | None = None
        self._tasks = Tasks()

    async def look(self) -> None:
        """Read the record now. Raises the store's errors, and `CorruptRecordError` without an
        earlier table to go on with.
        """
        try:
            record = await find_rights(self._store)
        except MissingRightsError as error:
            if self.table is None:
                _log.error("each call is denied: %s", error)
                self.table = RightsTable()
            record = None
        if record is None:
            if self._version is not None:
                _log.error("%s is gone from the metadata store: its last rules stay", RIGHTS)
            self._version = None
            return
        if record.version == self._version:
            return
        try:
            self.table = RightsTable.decode(record.value)
        except CorruptRecordError as error:
            if self.table is None:
                raise
            _log.error("the last rules stay: %s", error)
        else:
            _log.info("%d rules of rights are in force", len(self.table.rules))
        self._version = record.version

    def start(self) -> None:
        """Begin to follow the record."""
        self._tasks.start(self._follow(), "table of rights")

    async def close(self) -> None:
        """Follow no longer."""
        await self._tasks.stop()

    async def _follow(self) -> None:
        with suppress(HandleClosedError):
            while True:
                await retry(self._step, on=QuireError, unless=_is_closed, backoff=BACKOFF)

    async def _step(self) -> None:
        with suppress(TimeoutError):
            async with time_limit(LOOK_SECONDS):
                await self._store.wait(RIGHTS, self._version)
        await self.look()


def _is_closed(error: Exception) -> bool:
    return isinstance(error, HandleClosedError)
