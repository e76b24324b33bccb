"""Reading a ledger.

Only confirmed entries may be read: up to the last entry of a closed ledger, up to LAC of a ledger
that is still written. Everything delivered was verified with the ledger's key. A reader never
fences and never disturbs the writer; a client that wants the end decided opens with recovery
(`catalog`).

A reader keeps the metadata it was opened with and looks again when bookies cannot serve it: a
ledger that was open has changed ensembles since, a closed one may have been re-replicated.

Not here: waiting for entries that are not there yet (`following`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.handle import Handle
from quire.aio.home import home_here
from quire.bookie import check_range
from quire.entry import Entry, EntryId, LedgerId, Sealer
from quire.errors import (
    HandleClosedError,
    InvalidRequestError,
    NoSuchEntryError,
    UnreadableError,
)
from quire.ledger.fetch import EntryFetcher
from quire.ledger.following import EntrySource, SharedTails, follow
from quire.ledger.info import LedgerInfo, info_of
from quire.ledger.known import KnownLedger
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.options import LedgerOptions
from quire.ledger.read_ahead import PAYLOAD_BYTES_GUESS, read_ahead
from quire.ledger.read_lac import covered_end, covered_lac
from quire.ledger.records import LedgerRecords, VersionedMetadata
from quire.ledger.roster import Bookies
from quire.ledger.versioned import judged_by_metadata
from quire.metrics.meter import SILENT_METER, ClientMeter

LAC_POLLS: Final = Backoff(first=0.005, last=0.1)
"""Pauses between two looks for the last entry. The first is half of the time that a writer takes to
announce it.
"""


class LedgerReader(Handle):
    """A handle for reading one ledger; `LedgerCatalog` opens it.

    All reading methods raise `HandleClosedError` after `close`, `UnreadableError` when too many
    copies are out of reach (`StoreUnavailableError` when the metadata store is, too), and
    `NoSuchLedgerError` when the ledger was deleted meanwhile. They may be used concurrently and
    cancelled at any time.
    """

    def __init__(
        self,
        records: LedgerRecords,
        bookies: Bookies,
        sealer: Sealer,
        opened: VersionedMetadata,
        options: LedgerOptions,
        meter: ClientMeter = SILENT_METER,
        tails: SharedTails | None = None,
    ) -> None:
        self._known = KnownLedger(records, bookies, sealer, opened, options)
        self._opened = opened
        self._options = options
        self._meter = meter
        self._tails = tails or SharedTails()
        self._fetcher = EntryFetcher(bookies, sealer, options, meter)
        self._home = home_here()
        self._closed = asyncio.Event()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "open"
        return f"<LedgerReader of ledger {self.ledger}, {state}>"

    @property
    def ledger(self) -> LedgerId:
        """The ledger's id."""
        return self._known.ledger

    @property
    def info(self) -> LedgerInfo:
        """The ledger's state, quorums and fragments, as last seen."""
        return info_of(self._metadata)

    @property
    def _metadata(self) -> LedgerMetadata:
        """The ledger's record as last seen."""
        return self._known.metadata

    @property
    def is_closed(self) -> bool:
        """Whether the ledger is known to have its final end."""
        return self._known.is_closed

    async def last_confirmed(self) -> EntryId:
        """Return the last entry of a closed ledger, or a LAC of an open ledger.

        Returns:
            The entry's id, −1 for none. The LAC is at or above every LAC that was announced before
            the call: bookies that cover all write sets were asked. The writer announces with a
            delay, at most `LedgerOptions.lac_idle` after its last append. Bookies that crash
            may forget what no entry carried (docs/protocol.md, section 5).

        Raises:
            UnreadableError: too few bookies answer.
            HandleClosedError: the reader was closed.
            QuireError: the errors of the metadata store.

        Cancellation: ends the question only.
        """
        self._check_open()
        known = self._known
        if not known.is_closed:
            await known.refresh()
        if not known.is_closed:
            timeout = self._options.request_timeout
            async with judged_by_metadata(known.records):
                lac = await covered_lac(known.bookies, known.sealer, known.metadata, timeout)
            known.confirm(lac)
        return known.confirmed

    async def last_acknowledged(self) -> EntryId:
        """Return the last entry, at or above every entry that was acknowledged before the call.

        It waits until that entry is confirmed, which a living writer sees to.

        Returns:
            The entry's id, −1 for none.

        Raises:
            UnreadableError: too few bookies answer, or the entry is not confirmed within
                `LedgerOptions.request_timeout`, because the writer is gone.
            HandleClosedError: the reader was closed.
            QuireError: the errors of the metadata store.

        Cancellation: ends the question only.

        Guarantees: linearizable, where `last_confirmed` may lag behind the writer by its
            announcement.
        """
        self._check_open()
        known = self._known
        await known.refresh()
        if known.is_closed:
            return known.confirmed
        timeout, pauses = self._options.request_timeout, LAC_POLLS.pauses()
        async with judged_by_metadata(known.records):
            end = await covered_end(known.bookies, known.sealer, known.metadata, timeout)
        deadline = asyncio.get_running_loop().time() + timeout
        while await self.last_confirmed() < end and not known.is_closed:
            if asyncio.get_running_loop().time() >= deadline:
                reason = (
                    "it is not confirmed, and its writer is silent: have the writer append; or, if "
                    "it is gone, open the ledger, or its log, to recover it (client.recover_log, "
                    "`quire log end --recover`)"
                )
                raise UnreadableError(self.ledger, end, reason)
            await asyncio.sleep(pauses.next())
        return known.confirmed

    async def read_entry(self, entry: EntryId) -> Entry:
        """Return one entry.

        Args:
            entry: the entry's id.

        Returns:
            The entry, verified with the ledger's key.

        Raises:
            InvalidRequestError: the id is negative, or after the last confirmed entry.
            NoSuchEntryError: the id is after the end of a closed ledger.
            UnreadableError: too few copies can be read.
            HandleClosedError: the reader was closed.

        Cancellation: ends the reading only.
        """
        await self._bound(entry, entry)
        return (await self._fetch(entry, entry, 1, entry))[0]

    async def read(
        self, first: EntryId = 0, last: EntryId | None = None
    ) -> AsyncGenerator[Entry, None]:
        """Yield entries in order, reading ahead by at most `LedgerOptions.read_ahead_bytes`.

        Args:
            first: the first entry.
            last: the last entry; None for all that are confirmed now.

        Yields:
            The entries, each verified with the ledger's key.

        Raises:
            InvalidRequestError: the range is invalid, or passes the last confirmed entry.
            NoSuchEntryError: the range passes the end of a closed ledger.
            UnreadableError: too few copies can be read.
            HandleClosedError: the reader was closed.

        Cancellation: ends the reading only.
        """
        async with aclosing(self.read_runs(first, last)) as runs:
            async for run in runs:
                for entry in run:
                    yield entry

    async def read_runs(
        self, first: EntryId = 0, last: EntryId | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        """Yield lists of consecutive entries as they arrive.

        Args:
            first: the first entry.
            last: the last entry; None for all that are confirmed now.

        Yields:
            At least one entry each; all of them together are what `read` yields.

        Raises:
            QuireError: as `read`.

        Cancellation: ends the reading only.
        """
        end = await self._bound(first, last)
        if (small := await self._pushed(first, end)) is not None:
            yield small
            return
        async with aclosing(self._runs(first, end)) as runs:
            async for run in runs:
                yield run

    async def read_unconfirmed(self, first: EntryId, last: EntryId) -> AsyncGenerator[Entry, None]:
        """Yield entries whether they are confirmed or not.

        An entry beyond the last confirmed one may vanish again: recovery decides.

        Args:
            first: the first entry.
            last: the last entry.

        Yields:
            The entries, each verified with the ledger's key.

        Raises:
            NoSuchEntryError: at the first missing entry. After the end of a ledger known to be
                closed every entry is missing, even if bookies still have copies.
            UnreadableError: too few copies can be read.

        Cancellation: ends the reading only.
        """
        self._check_range(first, last)
        end = min(last, self._known.confirmed) if self.is_closed else last
        if first <= end:
            async with aclosing(self._runs(first, end)) as runs:
                async for run in runs:
                    for entry in run:
                        yield entry
        if end < last:
            raise NoSuchEntryError(self.ledger, max(first, end + 1))

    async def follow(self, first: EntryId = 0) -> AsyncGenerator[Entry, None]:
        """Yield entries as they are confirmed, until the ledger is closed and all were delivered.

        Bookies announce; nothing is polled while they do. Lost bookies and an unreachable store
        are waited for. While the ledger is in recovery nothing new appears until it is closed.
        All followers of a ledger in one client ask the bookies as one.

        Args:
            first: the first entry.

        Yields:
            The confirmed entries, each verified with the ledger's key.

        Raises:
            InvalidRequestError: `first` is not the id of an entry.
            NoSuchEntryError: the ledger is closed below `first` − 1.
            EntryLostError: no bookie had a sound copy of the next entry for half a minute.
            NoSuchLedgerError: the ledger was deleted.
            HandleClosedError: the reader was closed.

        Cancellation: ends the following only.
        """
        async with aclosing(self._follow(first)) as runs:
            async for run in runs:
                for entry in run:
                    yield entry

    async def follow_runs(self, first: EntryId = 0) -> AsyncGenerator[list[Entry], None]:
        """Yield lists of consecutive entries as they are confirmed.

        Args:
            first: the first entry.

        Yields:
            At least one entry each; all of them together are what `follow` yields.

        Raises:
            QuireError: as `follow`.

        Cancellation: ends the following only.
        """
        async with aclosing(self._follow(first)) as runs:
            async for run in runs:
                yield run

    def _follow(self, first: EntryId) -> AsyncGenerator[list[Entry], None]:
        check_range(first, first)
        return follow(self._tails, self._source(), self._begin_tail, self._closed, first)

    def _source(self) -> EntrySource:
        return EntrySource(self._known, self.read_runs, self._meter)

    def _begin_tail(self) -> EntrySource:
        """Return the source of a tail, which outlives this reader while others follow."""
        return LedgerReader(
            *(self._known.records, self._known.bookies, self._known.sealer, self._opened),
            *(self._options, self._meter),
        )._source()

    async def close(self) -> None:
        """Close the handle. A second call does nothing.

        A read under way may still return entries that are on their way. If there are more, it then
        ends with `HandleClosedError`.

        Raises:
            Nothing: a reader holds nothing that can fail to close.

        Cancellation: the call does not wait, so it cannot be cancelled.
        """
        self._closed.set()
        self._tails.wake(self._known)

    def _check_open(self) -> None:
        self._home.check(self)
        if self._closed.is_set():
            raise HandleClosedError(f"reader of ledger {self.ledger}")

    def _check_range(self, first: EntryId, last: EntryId | None) -> None:
        self._check_open()
        check_range(first, first if last is None else last)

    async def _bound(self, first: EntryId, last: EntryId | None) -> EntryId:
        """Return the last entry for a read of confirmed entries, asking bookies if the known LAC is
        too low.
        """
        self._check_range(first, last)
        wanted = first - 1 if last is None else last
        known = self._known.confirmed
        if not self.is_closed and (last is None or wanted > known):
            known = await self.last_confirmed()
        if wanted <= known:
            return known if last is None else last
        if self.is_closed:
            raise NoSuchEntryError(self.ledger, wanted)
        raise InvalidRequestError(
            f"entry {wanted} of ledger {self.ledger} is past the last confirmed entry {known}: "
            "follow the ledger, or read unconfirmed entries"
        )

    async def _pushed(self, first: EntryId, last: EntryId) -> list[Entry] | None:
        """Return a small part of a closed ledger in one list; None if it has to be fetched."""
        metadata = self._metadata
        if metadata.length is None or metadata.last_entry is None or first > last:
            return None
        size = metadata.length * (last - first + 1) // (metadata.last_entry + 1)
        fragment = metadata.fragment_of(first)
        if size > self._options.small_read_bytes or fragment != metadata.fragment_of(last):
            return None
        return await self._fetcher.fetch_pushed(
            metadata.replication, fragment.bookies, first, last, turn=first
        )

    def _runs(self, first: EntryId, last: EntryId) -> AsyncGenerator[list[Entry], None]:
        async def fetch(begin: EntryId, end: EntryId, bytes_max: int) -> list[Entry]:
            return await self._fetch(begin, end, bytes_max, turn=first)

        metadata, guess = self._metadata, PAYLOAD_BYTES_GUESS
        if metadata.length and metadata.last_entry is not None:
            guess = metadata.length // (metadata.last_entry + 1)
        return read_ahead(fetch, first, last, self._options, guess)

    async def _fetch(self, first: EntryId, last: EntryId, bytes_max: int, turn: int) -> list[Entry]:
        """Fetch by the metadata at hand, and once more if that turns out to be old.

        If the store cannot say whether it is old, the store's error is raised: replaced bookies
        truly deny entries that their successors hold, and a client that is cut off from all must
        not report a loss.
        """
        self._check_open()
        used = self._known.version
        try:
            return await self._fetch_now(first, last, bytes_max, turn)
        except (UnreadableError, NoSuchEntryError):
            await self._known.refresh()
            if self._known.version == used:  # another call may have refreshed meanwhile
                raise
        return await self._fetch_now(first, last, bytes_max, turn)

    async def _fetch_now(
        self, first: EntryId, last: EntryId, bytes_max: int, turn: int
    ) -> list[Entry]:
        metadata = self._metadata
        fragment = metadata.fragment_of(first)
        above = (each.first - 1 for each in metadata.fragments if each.first > first)
        async with judged_by_metadata(self._known.records):
            return await self._fetcher.fetch(
                metadata.replication,
                fragment.bookies,
                first,
                min([last, *above]),
                turn=turn,
                bytes_max=bytes_max,
            )
