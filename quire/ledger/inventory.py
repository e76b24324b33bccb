"""The inventory of a ledger: the entries that each bookie lists, beside those metadata requires.

For auditing: it finds entries with fewer copies than the write quorum, and bookies that lack some.
Bookies are asked for lists, not for entries: the scrub and `quire bookie check` find out whether
the copies are whole. If a ledger is not closed only the finished fragments are compared: the
entries of the last fragment are not decided yet.

Not here: repair. A bookie that lost its disk's data repairs itself
(quire/storage/maintenance/self_repair.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from quire.aio.computing import compute
from quire.aio.tasks import together
from quire.bookie import list_all
from quire.entry import NO_ENTRY, BookieId, EntryId, LedgerId
from quire.errors import QuireError
from quire.ledger.info import LedgerInfo, info_of
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.quorum_call import QuorumCall, retry_transient, within
from quire.ledger.ranges import Ranges, owed_at, without
from quire.ledger.records import LedgerRecords
from quire.ledger.roster import BookieRoster, Bookies

ATTEMPTS_MAX: Final = 4
"""How often bookies are asked anew because metadata changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The entries of a ledger that one bookie lists, and the required entries that it lacks.

    `error` says why it gave no answer, and is empty if it answered. Without an answer both lists
    are empty.
    """

    bookie: BookieId
    held: Ranges
    missing: Ranges
    error: str = ""


@dataclass(frozen=True, slots=True)
class Shortage:
    """The entries first ≤ id ≤ last, listed by too few bookies.

    `copies` of the write quorum exist; `unknown` copies belong to bookies that gave no answer.
    """

    first: EntryId
    last: EntryId
    copies: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """The entries that each bookie holds. `compared_to` is the last entry compared, −1 for none.

    Bookies that metadata does not name are among the `holdings` if they hold something, such as
    entries of an abandoned attempt, or of a previous ensemble.
    """

    ledger: LedgerInfo
    compared_to: EntryId
    holdings: Sequence[Holding]
    shortages: Sequence[Shortage]

    @property
    def lost(self) -> Sequence[Shortage]:
        """The entries that no bookie holds, though every bookie that must hold them answered."""
        return [each for each in self.shortages if not each.copies and not each.unknown]


async def take_inventory(
    records: LedgerRecords, roster: BookieRoster, ledger: LedgerId, request_timeout: float
) -> Inventory:
    """Ask every registered bookie, and every bookie that metadata names, for a ledger's entries.

    A bookie that does not answer within `request_timeout` seconds, for any piece of its list, or
    answers with an error, is part of the result. Changes nothing and disturbs no client. Raises
    `NoSuchLedgerError` and the store's errors.
    """
    found = await records.read(ledger)
    for _ in range(ATTEMPTS_MAX):
        metadata = found.metadata
        bookies = {each.bookie for each in roster.known()} | named_by(metadata)
        answers: dict[BookieId, Ranges | QuireError] = {}
        async with QuorumCall[BookieId, Ranges]() as asking:
            for bookie in sorted(bookies):
                asking.ask(bookie, list_held(roster, bookie, ledger, request_timeout))
            while asking.outstanding:
                bookie, answer = await asking.next()
                answers[bookie] = answer
        # Deleted or given to others meanwhile, entries would be missed where they need not be.
        found = await records.read(ledger)
        if found.metadata == metadata:
            break
    return await compared(metadata, answers)


async def list_held(
    bookies: Bookies, bookie: BookieId, ledger: LedgerId, request_timeout: float
) -> Ranges:
    """Return the entries of a ledger that a bookie says it holds.

    Raises the bookie's errors, and `BookieUnavailableError` when a piece of the list takes longer
    than `request_timeout` seconds.
    """

    async def ask(first: EntryId) -> list[tuple[EntryId, EntryId]]:
        async def attempt() -> list[tuple[EntryId, EntryId]]:
            call = bookies.bookie(bookie).list_entries(ledger, first)
            return await within(request_timeout, bookie, call)

        return await retry_transient(attempt)

    return await list_all(ask)


async def lists_of(
    bookies: Bookies, names: Iterable[BookieId], ledger: LedgerId, request_timeout: float
) -> dict[BookieId, Ranges | QuireError]:
    """Return what some bookies say that they hold of a ledger, or why one gave no answer."""
    answers: dict[BookieId, Ranges | QuireError] = {}

    async def ask(bookie: BookieId) -> None:
        try:
            answers[bookie] = await list_held(bookies, bookie, ledger, request_timeout)
        except QuireError as error:
            answers[bookie] = error

    await together(*(ask(each) for each in sorted(names)))
    return answers


def whole_in(inventory: Inventory) -> frozenset[BookieId]:
    """Return the bookies that list every entry that they must hold. Pure."""
    whole = (each for each in inventory.holdings if not each.error and not each.missing)
    return frozenset(each.bookie for each in whole)


def named_by(metadata: LedgerMetadata) -> set[BookieId]:
    """Return the bookies of all fragments."""
    return {bookie for fragment in metadata.fragments for bookie in fragment.bookies}


def compare(metadata: LedgerMetadata, answers: Mapping[BookieId, Ranges | QuireError]) -> Inventory:
    """Return what answers mean beside metadata. A bookie without an answer is not known. Pure."""
    ends = [fragment.first - 1 for fragment in metadata.fragments[1:]]
    ends += [] if metadata.last_entry is None else [metadata.last_entry]
    missing: dict[BookieId, list[tuple[EntryId, EntryId]]] = {}
    unknown: list[tuple[EntryId, EntryId]] = []
    for fragment, end in zip(metadata.fragments, ends, strict=False):
        for position, bookie in enumerate(fragment.bookies):
            owed = owed_at(metadata, position, fragment.first, end)
            answer = answers.get(bookie)
            if answer is None or isinstance(answer, QuireError):
                unknown.extend(owed)
            else:
                missing.setdefault(bookie, []).extend(without(owed, answer))
    absent = chain.from_iterable(missing.values())
    quorum = metadata.replication.write_quorum
    return Inventory(
        info_of(metadata),
        max(ends, default=NO_ENTRY),
        list(_holdings(named_by(metadata), answers, missing)),
        list(_shortages(quorum, absent, unknown)),
    )


async def compared(
    metadata: LedgerMetadata, answers: Mapping[BookieId, Ranges | QuireError]
) -> Inventory:
    """Return as `compare`, beside the loop: a striped ledger has a range in each cycle of its
    ensemble, and a million entries take seconds of a busy core. The answers must not change
    meanwhile.
    """
    return await compute(partial(compare, metadata, answers))


def _holdings(
    named: set[BookieId],
    answers: Mapping[BookieId, Ranges | QuireError],
    missing: Mapping[BookieId, Ranges],
) -> Iterator[Holding]:
    for bookie in sorted(named.union(answers)):
        answer = answers.get(bookie, ())
        if isinstance(answer, QuireError):
            if bookie in named:
                yield Holding(bookie, (), (), str(answer))
        elif answer or bookie in named:
            yield Holding(bookie, answer, missing.get(bookie, ()))


def _shortages(
    quorum: int, absent: Iterable[tuple[EntryId, EntryId]], unknown: Ranges
) -> Iterator[Shortage]:
    """Count, entry by entry, the copies that are absent or unknown; yield where there are any."""
    steps: dict[EntryId, tuple[int, int]] = {}
    for kind, ranges in enumerate((absent, unknown)):
        for first, last in ranges:
            for at, by in ((first, 1), (last + 1, -1)):
                there = steps.get(at, (0, 0))
                steps[at] = (there[0] + by * (kind == 0), there[1] + by * (kind == 1))
    gone = unsure = start = 0
    for at in sorted(steps):
        more_gone, more_unsure = steps[at]
        if not more_gone and not more_unsure:
            continue  # one range ends where the next begins
        if gone or unsure:
            yield Shortage(start, at - 1, quorum - gone - unsure, unsure)
        gone, unsure, start = gone + more_gone, unsure + more_unsure, at
