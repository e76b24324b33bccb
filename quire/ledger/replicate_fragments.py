"""Full quorum: before such a ledger is closed, every entry is on all Qw bookies of its write set.

A confirmed entry is on Qa of them; the others had failed or were late. The client that closes the
ledger, its writer or a recoverer, first asks each bookie of each fragment for a list of its entries
and copies the missing entries from the other bookies, all positions at once. A bookie with damage,
which cannot list its entries, is given all of them again; a busy bookie is waited for. A bookie
that does not answer or takes nothing within the time of a request is replaced by a spare, which is
given everything of its position.

Replacements are legal edits of re-replication and appear in metadata together with the end, when
they hold all entries of their positions. Only confirmed entries are copied, so copies of an
abandoned attempt are harmless.

Not here: the end (`writer`, `recovery`), and a ledger after its close.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from quire.bookie import READ_BYTES_MAX, Bookie, list_all
from quire.entry import BookieId, Entry, EntryId, LedgerId, Sealer
from quire.errors import CorruptEntryError, NotEnoughBookiesError, QuireError
from quire.ledger.domains import Candidate
from quire.ledger.fetch import EntryFetcher
from quire.ledger.metadata import Fragment, LedgerMetadata, Replica
from quire.ledger.options import LedgerOptions
from quire.ledger.placement import replace
from quire.ledger.quorum_call import QuorumCall, retry_busy, retry_transient, within
from quire.ledger.ranges import Ranges, owed_at, without
from quire.ledger.roster import Bookies, seated
from quire.run import RUN_BYTES_MAX, pack_run

T = TypeVar("T")


class FragmentReplication:
    """Completes the copies of one ledger."""

    def __init__(
        self, bookies: Bookies, sealer: Sealer, options: LedgerOptions, rng: random.Random
    ) -> None:
        self._bookies = bookies
        self._sealer = sealer
        self._options = options
        self._rng = rng
        self._fetcher = EntryFetcher(bookies, sealer, options)
        self._failed: set[BookieId] = set()

    async def run(self, metadata: LedgerMetadata, last: EntryId) -> list[Replica]:
        """Return the replaced positions once every entry up to `last` is on its whole write set.

        Raises `NotEnoughBookiesError` when no bookie can hold a copy, and `UnreadableError`
        when an entry cannot be read to be copied. Can be repeated.
        """
        replicas: list[Replica] = []
        ends = [fragment.first - 1 for fragment in metadata.fragments[1:]] + [last]
        for fragment, end in zip(metadata.fragments, ends, strict=True):
            if fragment.first <= end:
                replicas += await self._complete(metadata, fragment, end)
        return replicas

    async def _complete(
        self, metadata: LedgerMetadata, fragment: Fragment, last: EntryId
    ) -> list[Replica]:
        seats = tuple(seated(fragment, self._bookies))
        unsure = set(range(len(seats)))
        while unsure:
            holders = [each.bookie for each in seats]
            failed = await self._copy(metadata, fragment, last, holders, sorted(unsure))
            self._failed.update(holders[position] for position in failed)
            if failed:
                seats = self._replace(metadata, seats, failed)
            unsure = set(failed)
        return [
            Replica(fragment.first, position, old, new.bookie, new.labels)
            for position, (old, new) in enumerate(zip(fragment.bookies, seats, strict=True))
            if old != new.bookie
        ]

    def _replace(
        self, metadata: LedgerMetadata, seats: Sequence[Candidate], failed: list[int]
    ) -> tuple[Candidate, ...]:
        taken = self._failed.union(each.bookie for each in seats)
        spares = [each for each in self._bookies.candidates() if each.bookie not in taken]
        if len(spares) < len(failed):
            raise NotEnoughBookiesError(len(failed), len(spares))
        drawn = replace(
            *(self._rng, seats, failed, spares, metadata.replication, metadata.placement),
            self._bookies.places(),
        )
        kept = [position for position in failed if drawn[position] == seats[position]]
        if kept:  # the spares for these are in no domain that the placement allows
            raise NotEnoughBookiesError(len(failed), len(failed) - len(kept))
        return drawn

    async def _copy(
        self,
        metadata: LedgerMetadata,
        fragment: Fragment,
        last: EntryId,
        holders: Sequence[BookieId],
        positions: Sequence[int],
    ) -> list[int]:
        """Copy missing entries to all positions at once; return positions with a failed bookie."""
        failed = []
        async with QuorumCall[int, bool]() as asking:
            for position in positions:
                supply = self._supply(metadata, fragment, last, position, holders[position])
                asking.ask(position, supply)
            while asking.outstanding:
                position, is_full = await asking.next()
                if isinstance(is_full, QuireError):
                    raise is_full
                if not is_full:
                    failed.append(position)
        return sorted(failed)

    async def _supply(
        self,
        metadata: LedgerMetadata,
        fragment: Fragment,
        last: EntryId,
        position: int,
        bookie: BookieId,
    ) -> bool:
        """Copy missing entries to a bookie, a read at a time; False when it failed."""
        is_written_to = metadata.replication.is_written_to
        held: Ranges
        try:
            held = await list_all(partial(self._list, bookie), fragment.first, last)
        except CorruptEntryError:
            held = ()  # it cannot tell which copies are whole: it gets everything again
        except QuireError:
            return False
        for low, high in stretches(metadata, position, fragment.first, last, held):
            while low <= high:
                entries = await self._read(metadata, fragment, position, low, high)
                wanted = [each for each in entries if is_written_to(each.entry, position)]
                try:
                    await self._give(bookie, wanted)
                except QuireError:
                    return False
                rest = range(entries[-1].entry + 1, high + 1)
                low = next((entry for entry in rest if is_written_to(entry, position)), high + 1)
        return True

    async def _list(self, bookie: BookieId, first: EntryId) -> list[tuple[EntryId, EntryId]]:
        ledger = self._sealer.ledger
        return await self._ask(bookie, lambda link: link.list_entries(ledger, first))

    async def _read(
        self,
        metadata: LedgerMetadata,
        fragment: Fragment,
        position: int,
        first: EntryId,
        last: EntryId,
    ) -> list[Entry]:
        """Read entries from `first` on from the other positions, as long as they will do."""

        async def attempt() -> list[Entry]:
            self._fetcher.suspect(fragment.bookies[position])
            ensemble, turn = fragment.bookies, position + 1
            return await self._fetcher.fetch(
                metadata.replication, ensemble, first, last, turn=turn, bytes_max=READ_BYTES_MAX
            )

        return await retry_transient(attempt)

    async def _give(self, bookie: BookieId, entries: Sequence[Entry]) -> None:
        """Copy entries to a bookie. Raises when it does not take them."""
        ledger, key, seal = self._sealer.ledger, self._sealer.access_key, self._sealer.seal
        frames = (seal(each.entry, each.lac, each.length, each.payload) for each in entries)
        for run in runs(frames):
            await self._ask(bookie, partial(_add, ledger, key, run))

    async def _ask(self, bookie: BookieId, call: Callable[[Bookie], Awaitable[T]]) -> T:
        """Return a bookie's answer; a busy bookie is asked again while its time lasts."""

        async def attempt() -> T:
            return await call(self._bookies.bookie(bookie))

        patient = retry_transient(lambda: retry_busy(attempt))
        return await within(self._options.request_timeout, bookie, patient)


async def _add(ledger: LedgerId, key: bytes, run: bytes, link: Bookie) -> None:
    await link.add(ledger, key, run, recovery=True)


def stretches(
    metadata: LedgerMetadata, position: int, first: EntryId, last: EntryId, held: Ranges
) -> Iterator[tuple[EntryId, EntryId]]:
    """Yield the missing entries of a position in first..last, as ascending ranges.

    In a striped ensemble a range includes entries of other positions: they are read along, because
    one read of many is cheaper than many of one. A range includes no entry that the position must
    hold and holds.
    """
    is_written_to, found = metadata.replication.is_written_to, None
    others = metadata.replication.ensemble - metadata.replication.write_quorum
    for low, high in without(owed_at(metadata, position, first, last), held):
        if found is not None:
            between = range(found[1] + 1, low)
            if len(between) <= others and not any(is_written_to(e, position) for e in between):
                found = found[0], high
                continue
            yield found
        found = low, high
    if found is not None:
        yield found


def runs(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Pack frames into runs of at most `RUN_BYTES_MAX` bytes, or of one larger frame."""
    waiting: list[bytes] = []
    size = 0
    for frame in frames:
        if waiting and size + len(frame) > RUN_BYTES_MAX:
            yield pack_run(waiting)
            waiting, size = [], 0
        waiting.append(frame)
        size += len(frame)
    if waiting:
        yield pack_run(waiting)
