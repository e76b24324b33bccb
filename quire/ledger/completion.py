"""Full quorum: before such a ledger is closed, every entry is on all Qw bookies of its write set.

A confirmed entry is on Qa of them; the others had failed or were behind. Whoever closes the ledger,
its writer or a recoverer, first asks each bookie of each fragment what it holds and copies what it
lacks from the others. One with damage, that cannot say what it holds, is given all of it again. One
that does not answer or takes nothing is replaced by a spare, which is given everything of its
position.

Replacements are legal edits of re-replication and appear in metadata together with the end, when
they hold what they stand for. Only confirmed entries are copied, so copies of an attempt that is
given up are harmless.

Not here: the end (`writer`, `recovery`), and what becomes of a ledger after it was closed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from quire.bookie import READ_BYTES_MAX, Bookie, list_all
from quire.entry import BookieId, EntryId, Sealer
from quire.errors import CorruptEntryError, NotEnoughBookiesError, QuireError
from quire.ledger.asking import Asking, within
from quire.ledger.fetch import EntryFetcher
from quire.ledger.metadata import Fragment, LedgerMetadata, Replica
from quire.ledger.options import LedgerOptions
from quire.ledger.placement import replace
from quire.ledger.quorum import Replication
from quire.ledger.roster import Bookies
from quire.run import pack_run

Ranges = Sequence[tuple[EntryId, EntryId]]


class Completion:
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
        """Return when every entry up to `last` is on its whole write set; says who was replaced.

        Raises `NotEnoughBookiesError` when there is nobody to hold a copy, and `UnreadableError`
        when an entry cannot be read to be copied. Can be repeated.
        """
        replicas: list[Replica] = []
        ends = [fragment.first - 1 for fragment in metadata.fragments[1:]] + [last]
        for fragment, end in zip(metadata.fragments, ends, strict=True):
            if fragment.first <= end:
                replicas += await self._complete(metadata.replication, fragment, end)
        return replicas

    async def _complete(
        self, replication: Replication, fragment: Fragment, last: EntryId
    ) -> list[Replica]:
        holders = list(fragment.bookies)
        unsure = set(range(len(holders)))
        while unsure:
            failed = await self._copy(replication, fragment, last, holders, sorted(unsure))
            self._failed.update(holders[position] for position in failed)
            if failed:
                holders = self._replace(holders, failed)
            unsure = set(failed)
        return [
            Replica(fragment.first, position, old, new)
            for position, (old, new) in enumerate(zip(fragment.bookies, holders, strict=True))
            if old != new
        ]

    def _replace(self, holders: list[BookieId], failed: list[int]) -> list[BookieId]:
        taken = self._failed.union(holders)
        spares = [each for each in self._bookies.writable() if each not in taken]
        if len(spares) < len(failed):
            raise NotEnoughBookiesError(len(failed), len(spares))
        return list(replace(self._rng, holders, failed, spares))

    async def _copy(
        self,
        replication: Replication,
        fragment: Fragment,
        last: EntryId,
        holders: Sequence[BookieId],
        positions: Sequence[int],
    ) -> list[int]:
        """Give positions what they lack; return those whose bookie failed."""
        failed = []
        async with Asking[int, Ranges]() as asking:
            for position in positions:
                asking.ask(position, self._held(holders[position], fragment.first, last))
            while asking.outstanding:
                position, held = await asking.next()
                if isinstance(held, CorruptEntryError):
                    held = ()  # it cannot tell what is whole: it gets everything again
                if isinstance(held, QuireError):
                    failed.append(position)
                    continue
                wanted = [
                    entry
                    for entry in missing(held, fragment.first, last)
                    if replication.is_written_to(entry, position)
                ]
                if not await self._give(replication, fragment, holders[position], wanted):
                    failed.append(position)
        return sorted(failed)

    async def _held(self, bookie: BookieId, first: EntryId, last: EntryId) -> Ranges:
        async def ask(start: EntryId) -> list[tuple[EntryId, EntryId]]:
            call = self._bookies.bookie(bookie).list_entries(self._sealer.ledger, start)
            return await within(self._options.request_timeout, bookie, call)

        return await list_all(ask, first, last)

    async def _give(
        self,
        replication: Replication,
        fragment: Fragment,
        bookie: BookieId,
        wanted: Sequence[EntryId],
    ) -> bool:
        """Copy entries to a bookie, a read at a time; returns whether it took them."""
        left = list(wanted)
        while left:
            stretch = next(stretches(left))
            entries = await self._fetcher.fetch(
                replication,
                fragment.bookies,
                stretch[0],
                stretch[-1],
                turn=stretch[0],
                bytes_max=READ_BYTES_MAX,
            )
            del left[: len(entries)]
            seal = self._sealer.seal
            run = pack_run(
                seal(entry.entry, entry.lac, entry.length, entry.payload) for entry in entries
            )
            try:
                link: Bookie = self._bookies.bookie(bookie)
                ledger, key = self._sealer.ledger, self._sealer.access_key
                call = link.add(ledger, key, run, recovery=True)
                await within(self._options.request_timeout, bookie, call)
            except QuireError:
                return False
        return True


def missing(held: Ranges, first: EntryId, last: EntryId) -> Iterator[EntryId]:
    """Yield the entries first..last that no range has."""
    at = first
    for low, high in held:
        yield from range(at, min(low, last + 1))
        at = max(at, high + 1)
    yield from range(at, last + 1)


def stretches(entries: Sequence[EntryId]) -> Iterator[list[EntryId]]:
    """Yield the entries in lists of consecutive ones."""
    start = 0
    for index in range(1, len(entries) + 1):
        if index == len(entries) or entries[index] != entries[index - 1] + 1:
            yield list(entries[start:index])
            start = index
