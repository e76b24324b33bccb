"""The writer's hold on its ledger's metadata record.

Every change is a compare-and-set on the version last seen, and every outcome has a reaction:

  conflict          read again: an edit of finished fragments is taken in and the change repeated;
                    IN_RECOVERY means fenced; CLOSED means closed; a last fragment that is neither
                    the known nor the tried fragment was written by another client: fenced
  outcome unknown   read again and repeat *the same* change until it or a conflict is seen: giving
                    up half-way would let the lost request be applied when the writer has moved on
  unavailable       nothing changed; the caller decides, unless an outcome is still unknown

Not here: when to change the ensemble, and how LAC is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.aio.timing import time_limit
from quire.entry import EntryId, LedgerId
from quire.errors import (
    LedgerClosedError,
    LedgerFencedError,
    QuireError,
    RetryError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.records import LedgerRecords, VersionedMetadata
from quire.metastore.changes import Change

BACKOFF: Final = Backoff(first=0.05, last=1.0)
"""Pauses between attempts at an unreachable store, doubling. The caller's deadline ends them."""

T = TypeVar("T")

Decision: TypeAlias = Callable[[LedgerMetadata], LedgerMetadata | None]
"""The next value given the current one; None when the current value is the wanted value."""


class LedgerRecord:
    """The record of a ledger that this process writes."""

    __slots__ = (
        "_attempt",
        "_doubt",
        "_is_asking",
        "_is_patient",
        "_records",
        "_version",
        "metadata",
        "seen",
    )

    def __init__(self, records: LedgerRecords, metadata: LedgerMetadata, version: int) -> None:
        self.metadata = metadata
        """The value last confirmed to be the record's."""
        self._version = self.seen = version
        """`seen` is the last version that was read or written. The record was the same, or moved on
        by a change that another layer made together with `unchanged`."""
        self._records = records
        self._attempt: Fragment | None = None
        self._doubt: StoreOutcomeUnknownError | None = None
        self._is_patient = False
        self._is_asking = False
        """Whether a change with an unknown outcome was sent."""

    @property
    def ledger(self) -> LedgerId:
        return self.metadata.ledger

    @property
    def is_settled(self) -> bool:
        """Whether no change of the record is under way or in doubt."""
        return self._attempt is None and self._doubt is None and not self._is_asking

    @property
    def path(self) -> str | None:
        """See `LedgerRecords.path`."""
        return self._records.path(self.ledger)

    def unchanged(self) -> Sequence[Change]:
        """Return the changes that can be made only while the record is as it was last seen.

        Making them may move the record's version on; the next change here then reads it again.
        """
        return self._records.guard(VersionedMetadata(self.metadata, self._version))

    async def begin_fragment(self, fragment: Fragment) -> None:
        """Let entries from `fragment.first` on live on another ensemble.

        Returns when the record says so. Raises `StoreUnavailableError` when it provably does not;
        `LedgerFencedError`, `LedgerClosedError`, `NoSuchLedgerError` or `CorruptRecordError`
        when this writer's time is over. May wait as long as the store is away. After a
        cancellation only `close` may follow.
        """

        def decide(current: LedgerMetadata) -> LedgerMetadata | None:
            self._check_ours(current)
            if current.last_fragment == fragment:
                return None
            return current.with_fragment(fragment)

        self._attempt = fragment
        try:
            await self._change(decide)
        except StoreUnavailableError:
            self._attempt = None  # it was not made, and will not be
            raise
        self._attempt = None

    async def close(
        self,
        last_entry: EntryId,
        length: int,
        timeout: float,
        replicas: Sequence[Replica] = (),
    ) -> None:
        """Close the ledger, or find it closed at the same end. `timeout` in seconds.

        `replicas` are positions that were given to other bookies for it.

        Raises `LedgerFencedError` when it is being recovered and `LedgerClosedError` when
        another client closed it at another end; `StoreUnavailableError` or
        `StoreOutcomeUnknownError` when time runs out.
        """

        def decide(current: LedgerMetadata) -> LedgerMetadata | None:
            if (current.last_entry, current.length) == (last_entry, length):
                return None
            self._check_ours(current)
            return current.closed(last_entry, length).with_replicas(replicas)

        try:
            self._is_patient = True
            async with time_limit(timeout):
                await self._change(decide)
        except TimeoutError:
            text = f"ledger {self.ledger} could not be closed within {timeout:g} s"
            if self._doubt is None and self._is_asking:
                raise StoreOutcomeUnknownError(self._records.name(self.ledger), text) from None
            raise self._doubt or StoreUnavailableError(self._records.uri, text) from None

    async def taken_over(self) -> QuireError:
        """Return, once the record says that this writer's time is over, the error that says so.

        Follows the record by a watch and waits for a store that cannot be reached, forever if
        necessary. A writer that closes the ledger itself cancels this first.
        """
        version = self.seen
        while True:
            try:
                change = partial(self._next_change, version)
                found, version = await retry(change, on=RetryError, backoff=BACKOFF)
                self.seen = version
            except QuireError as error:
                return error
            if found.is_closed:
                return LedgerClosedError(self.ledger, found.last_entry)
            if found.state is LedgerState.IN_RECOVERY:
                return LedgerFencedError(self.ledger)

    async def _next_change(self, version: int) -> tuple[LedgerMetadata, int]:
        """Return the record and its version once that is not `version` any more."""
        await self._records.wait(self.ledger, version)
        found = await self._records.read(self.ledger)
        return found.metadata, found.version

    def _check_ours(self, current: LedgerMetadata) -> None:
        if current.is_closed:
            raise LedgerClosedError(self.ledger, current.last_entry)
        ours = (self.metadata.last_fragment, self._attempt)
        if current.state is LedgerState.IN_RECOVERY or current.last_fragment not in ours:
            raise LedgerFencedError(self.ledger)

    async def _change(self, decide: Decision) -> None:
        current, version = self.metadata, self._version
        while True:
            wanted = decide(current)
            if wanted is None:
                break
            try:
                version = await self._put(wanted, version)
            except (VersionConflictError, StoreOutcomeUnknownError):
                current, version = await self._read()
                continue
            current = wanted
            break
        self.metadata, self._version, self._doubt = current, version, None
        self.seen = max(self.seen, version)

    async def _put(self, wanted: LedgerMetadata, version: int) -> int:
        async def put() -> int:
            self._is_asking = True
            try:
                found = await self._records.change(wanted, version)
            except Exception:
                self._is_asking = False
                raise
            self._is_asking = False
            return found.version

        try:
            return await self._settle(put)
        except StoreOutcomeUnknownError as error:
            self._doubt = error
            await asyncio.sleep(BACKOFF.first)
            raise

    async def _read(self) -> tuple[LedgerMetadata, int]:
        found = await self._settle(lambda: self._records.read(self.ledger))
        return found.metadata, found.version

    async def _settle(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the store's answer; while an outcome is unknown, however long it is away."""

        def is_final(error: Exception) -> bool:
            return self._doubt is None and not self._is_patient

        return await retry(call, on=StoreUnavailableError, unless=is_final, backoff=BACKOFF)
