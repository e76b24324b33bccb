"""An index of the records of all ledgers: which bookies a ledger names, and the other way round.

For the auditor, which keeps it up to date by reading what changed. A million ledgers of three
places take some 80 MB: the rows are in arrays of numbers, sorted by ledger id, and bookies are
numbers, too. Ids mostly ascend, so a new row goes to the end. A dropped row is marked, and removed
with others when a quarter of the rows is marked.

A row has all that says which entries a bookie must hold, so that ledgers can be compared with the
outlines of bookies without reading their records.

Pure. The index may lag the store: every act that follows from it decides again on the record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from quire.entry import NO_ENTRY, BookieId, EntryId, LedgerId
from quire.labels import LEVELS, Domain, Labels
from quire.ledger.domains import ANYWHERE, Placement
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.spreading import write_sets

DROPPED: Final = 0
"""The shape of a row that does not count any more."""

SLACK: Final = 64
"""Rows that may be in vain in a small index."""

REMEMBERED_MAX: Final = 20_000
"""Ensembles with a decided spread that are remembered: some megabytes."""

_DEPTHS: Final = tuple(enumerate(LEVELS, start=1))


class Shape(NamedTuple):
    """What many ledgers have in common."""

    replication: Replication
    is_closed: bool
    is_empty: bool
    placement: Placement = ANYWHERE


class Row(NamedTuple):
    """One ledger's record, as far as healing asks."""

    shape: Shape
    firsts: tuple[EntryId, ...]
    """The first entry of each fragment."""
    ensembles: tuple[tuple[BookieId, ...], ...]
    """The bookies of each fragment, by position."""
    last: EntryId
    """The last entry, if the ledger is closed; -1 without any."""

    @property
    def bookies(self) -> set[BookieId]:
        """The bookies that the record names."""
        return {bookie for ensemble in self.ensembles for bookie in ensemble}


class Lost(NamedTuple):
    """Some bookies that count as lost, in the index's own numbers."""

    is_lost: bytes
    """By the number of the bookie."""


class BookieDomains:
    """The domains of bookies whose copies count, in the index's own numbers."""

    def __init__(self, labels: Sequence[Labels | None], everywhere: Iterable[Labels] = ()) -> None:
        """`labels` are by the number of the bookie; None: its copies do not count. `everywhere` are
        the places of all bookies, those without a ledger as well.
        """
        self._labels = labels
        self._by_level: dict[str, list[Domain | None]] = {}
        paths = {each.path for each in everywhere}
        counts = {level: len({path[:depth] for path in paths}) for depth, level in _DEPTHS}
        self.reach: Final = {level: count for level, count in counts.items() if count > 1}
        """How many domains there are, at the levels with several."""
        self._paths = [None if each is None else each.path for each in labels]
        self._narrow: dict[tuple[int, bytes], bool] = {}

    def at(self, level: str) -> Sequence[Domain | None]:
        """Return the domain of each bookie; None for one that counts in no domain."""
        found = self._by_level.get(level)
        if found is None:
            found = self._by_level[level] = [
                each.domain(level) if each is not None and each.names(level) else None
                for each in self._labels
            ]
        return found

    def is_narrow(self, number: int, shape: Shape, members: array[int]) -> bool:
        """Whether a write set of a ledger is in fewer domains than it aims at, and than there are.
        False if a copy does not count. Remembered by the number of the shape.
        """
        key = (number, members.tobytes())
        found = self._narrow.get(key)
        if found is None:
            if len(self._narrow) >= REMEMBERED_MAX:
                self._narrow.clear()
            found = self._narrow[key] = self._decide(shape, [self._paths[each] for each in members])
        return found

    def _decide(self, shape: Shape, paths: Sequence[Domain | None]) -> bool:
        there = [each for each in paths if each is not None]
        if len(there) < len(paths):
            return False
        wishes, size = shape.placement.wishes(shape.replication), shape.replication.ensemble
        sets = write_sets(shape.replication)
        return any(
            len({there[first + position][:depth] for position in each})
            < min(wishes[level], self.reach[level])
            for depth, level in _DEPTHS
            if level in self.reach
            for first in range(0, len(there), size)
            for each in sets
        )


class Index:
    """See the module."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._shape_of = array("I")
        self._starts = array("Q")
        self._counts = array("I")
        self._lasts = array("q")
        self._members = array("I")
        """Of each row: the bookies of all fragments, then the first entries of all fragments but
        the first, each as two numbers of 32 bits, the high one first.
        """
        self._in_vain = 0
        """Numbers among the members that no row uses."""
        self._dropped = 0
        self._shapes: list[Shape | None] = [None]
        self._shape_numbers: dict[Shape, int] = {}
        self._bookies: list[BookieId] = []
        self._numbers: dict[BookieId, int] = {}
        self._held: list[array[int]] = []
        """By bookie, ledgers that named it once, each perhaps more than once."""
        self._stale: list[int] = []
        """By bookie, how many of these may not name it any more, or are out of order."""
        self._open: set[LedgerId] = set()

    def __len__(self) -> int:
        return len(self._ids) - self._dropped

    def __contains__(self, ledger: LedgerId) -> bool:
        return self._at(ledger) is not None

    def row(self, ledger: LedgerId) -> Row | None:
        """Return the row of a ledger; None if it has none."""
        at = self._at(ledger)
        if at is None:
            return None
        shape = self._shapes[self._shape_of[at]]
        assert shape is not None, "a row that counts has a shape"
        names = [self._bookies[each] for each in self._members_at(at)]
        size = shape.replication.ensemble
        ensembles = (tuple(names[first : first + size]) for first in range(0, len(names), size))
        starts = self._firsts_at(at)
        firsts = (high << 32 | low for high, low in zip(starts[::2], starts[1::2], strict=True))
        return Row(shape, (0, *firsts), tuple(ensembles), self._lasts[at])

    def between(self, first: LedgerId, last: LedgerId) -> list[LedgerId]:
        """Return the ledgers with first ≤ id ≤ last, ascending."""
        low, high = bisect_left(self._ids, first), bisect_right(self._ids, last)
        return [self._ids[at] for at in range(low, high) if self._shape_of[at] != DROPPED]

    def is_closed(self, ledger: LedgerId) -> bool:
        """Whether a ledger is known, and closed."""
        return ledger in self and ledger not in self._open

    def after(self, ledger: LedgerId, count: int) -> list[LedgerId]:
        """Return so many ledgers at most with ids above one, ascending."""
        found: list[LedgerId] = []
        for at in range(bisect_right(self._ids, ledger), len(self._ids)):
            if len(found) == count:
                break
            if self._shape_of[at] != DROPPED:
                found.append(self._ids[at])
        return found

    def highest(self) -> LedgerId:
        """Return the highest id, perhaps of a ledger that was dropped; -1 without any."""
        return self._ids[-1] if self._ids else -1

    def names_closed(self, bookie: BookieId) -> bool:
        """Whether a closed ledger names a bookie."""
        return any(each not in self._open for each in self.ledgers_of(bookie))

    def open_ledgers(self) -> list[LedgerId]:
        """Return the ledgers that are not closed, ascending."""
        return sorted(self._open)

    def bookies(self) -> list[BookieId]:
        """Return the bookies that some ledger named once, sorted."""
        return sorted(self._numbers)

    def ledgers_of(self, bookie: BookieId) -> Sequence[LedgerId]:
        """Return the ledgers that name a bookie, ascending."""
        number = self._numbers.get(bookie)
        if number is None:
            return ()
        if self._stale[number]:
            self._tidy(number)
        return self._held[number]

    def lost(self, bookies: Collection[BookieId]) -> Lost:
        """Return some bookies for `copies_left`."""
        return Lost(bytes(each in bookies for each in self._bookies))

    def copies_left(self, ledger: LedgerId, lost: Lost) -> int:
        """Return how many copies every entry of a ledger still has, at least, by its record. A
        ledger without entries has as many as it would write.
        """
        at = self._at(ledger)
        assert at is not None, f"ledger {ledger} is not in the index"
        shape = self._shapes[self._shape_of[at]]
        assert shape is not None, "a row that counts has a shape"
        replication = shape.replication
        size, quorum = replication.ensemble, replication.write_quorum
        if shape.is_empty:
            return quorum
        gone = [lost.is_lost[each] for each in self._members_at(at)]
        if size == quorum:
            return quorum - max(sum(gone[each : each + size]) for each in range(0, len(gone), size))
        sets = [replication.write_set(each) for each in range(size)]
        firsts = range(0, len(gone), size)
        return quorum - max(sum(gone[first + p] for p in each) for first in firsts for each in sets)

    @property
    def requires_domains(self) -> bool:
        """Whether some ledger, perhaps one that was dropped, must be in several domains."""
        return any(each is not None and each.placement.needs() for each in self._shapes)

    def places(self, labels: Mapping[BookieId, Labels]) -> BookieDomains:
        """Return where bookies are for `lacks_domains`; copies of all others do not count."""
        return BookieDomains([labels.get(each) for each in self._bookies], labels.values())

    def lacks_domains(self, ledger: LedgerId, places: BookieDomains) -> bool:
        """Whether a write set of a closed ledger is in fewer domains than its placement requires.
        False for a ledger without entries, and for an unknown one.
        """
        at = self._at(ledger)
        shape = None if at is None else self._shapes[self._shape_of[at]]
        if at is None or shape is None or not shape.is_closed or shape.is_empty:
            return False
        if shape.placement is ANYWHERE or not (needs := shape.placement.needs()):
            return False
        members, size = self._members_at(at), shape.replication.ensemble
        sets = write_sets(shape.replication)
        for level, least in needs.items():
            domains = [places.at(level)[each] for each in members]
            for first in range(0, len(domains), size):
                ensemble = domains[first : first + size]
                for each in sets:
                    found = {ensemble[position] for position in each}
                    if len(found) - (None in found) < least:
                        return True
        return False

    def is_narrow(self, ledger: LedgerId, places: BookieDomains) -> bool:
        """Whether a closed ledger with entries may be in more domains than it is, with as many as
        there are: whether a move raises its measure is another question. False for a ledger with a
        copy that does not count.
        """
        at = self._at(ledger)
        number = DROPPED if at is None else self._shape_of[at]
        shape = self._shapes[number]
        if at is None or shape is None or not shape.is_closed or shape.is_empty:
            return False
        return places.is_narrow(number, shape, self._members_at(at))

    def put(self, metadata: LedgerMetadata) -> None:
        """Take in a record that was read."""
        ledger = metadata.ledger
        members = array("I", map(self._number, _named(metadata)))
        at = bisect_left(self._ids, ledger)
        if at < len(self._ids) and self._ids[at] == ledger:
            before = self._release(at)
        else:
            before = set()
            self._insert(at, ledger)
        self._shape_of[at] = self._shape(metadata)
        self._starts[at], self._counts[at] = len(self._members), len(members)
        self._members.extend(members)
        for fragment in metadata.fragments[1:]:
            self._members.extend(divmod(fragment.first, 1 << 32))
        last = metadata.last_entry
        self._lasts[at] = NO_ENTRY if last is None else last
        after = set(members)
        for number in sorted(after - before):
            self._hold(number, ledger)
        for number in sorted(before - after):
            self._let_go(number)
        if metadata.is_closed:
            self._open.discard(ledger)
        else:
            self._open.add(ledger)
        self._compact()

    def drop(self, ledger: LedgerId) -> None:
        """Forget a ledger: it was deleted. Harmless for an unknown ledger."""
        at = self._at(ledger)
        if at is None:
            return
        before = self._release(at)
        self._shape_of[at] = DROPPED
        self._starts[at] = self._counts[at] = 0
        self._dropped += 1
        self._open.discard(ledger)
        for number in sorted(before):
            self._let_go(number)
        self._compact()

    def _at(self, ledger: LedgerId) -> int | None:
        at = bisect_left(self._ids, ledger)
        if at == len(self._ids) or self._ids[at] != ledger or self._shape_of[at] == DROPPED:
            return None
        return at

    def _members_at(self, at: int) -> array[int]:
        start = self._starts[at]
        return self._members[start : start + self._counts[at]]

    def _firsts_at(self, at: int) -> array[int]:
        start = self._starts[at] + self._counts[at]
        return self._members[start : start + self._size_at(at) - self._counts[at]]

    def _size_at(self, at: int) -> int:
        """Return how many numbers of `_members` a row has."""
        count, shape = self._counts[at], self._shapes[self._shape_of[at]]
        if shape is None:
            return 0
        return count + 2 * (count // shape.replication.ensemble - 1)

    def _insert(self, at: int, ledger: LedgerId) -> None:
        self._ids.insert(at, ledger)
        for column in (self._shape_of, self._starts, self._counts, self._lasts):
            column.insert(at, 0)

    def _release(self, at: int) -> set[int]:
        """Give up the members of a row that is to be replaced; return them."""
        if self._shape_of[at] == DROPPED:
            self._dropped -= 1
            return set()
        self._in_vain += self._size_at(at)
        return set(self._members_at(at))

    def _number(self, bookie: BookieId) -> int:
        number = self._numbers.get(bookie)
        if number is None:
            number = self._numbers[bookie] = len(self._bookies)
            self._bookies.append(bookie)
            self._held.append(array("q"))
            self._stale.append(0)
        return number

    def _shape(self, metadata: LedgerMetadata) -> int:
        is_empty = metadata.last_entry == NO_ENTRY
        placement = metadata.placement if metadata.placement != ANYWHERE else ANYWHERE
        shape = Shape(metadata.replication, metadata.is_closed, is_empty, placement)
        number = self._shape_numbers.get(shape)
        if number is None:
            number = self._shape_numbers[shape] = len(self._shapes)
            self._shapes.append(shape)
        return number

    def _hold(self, number: int, ledger: LedgerId) -> None:
        held = self._held[number]
        if held and held[-1] >= ledger:
            self._stale[number] += 1
        held.append(ledger)

    def _let_go(self, number: int) -> None:
        self._stale[number] += 1
        if self._stale[number] > len(self._held[number]) // 2 + SLACK:
            self._tidy(number)

    def _tidy(self, number: int) -> None:
        def names(ledger: LedgerId) -> bool:
            at = self._at(ledger)
            return at is not None and number in self._members_at(at)

        self._held[number] = array("q", sorted(set(filter(names, self._held[number]))))
        self._stale[number] = 0

    def _compact(self) -> None:
        if self._dropped > len(self._ids) // 4 + SLACK:
            keeps = bytes(each != DROPPED for each in self._shape_of)
            self._ids = _kept(self._ids, keeps)
            self._starts = _kept(self._starts, keeps)
            self._counts = _kept(self._counts, keeps)
            self._lasts = _kept(self._lasts, keeps)
            self._shape_of = _kept(self._shape_of, keeps)
            self._dropped = 0
        if self._in_vain > len(self._members) // 4 + SLACK:
            members = array("I")
            for at in range(len(self._ids)):
                start = len(members)
                members.extend(self._members_at(at) + self._firsts_at(at))
                self._starts[at] = start
            self._members, self._in_vain = members, 0


def _named(metadata: LedgerMetadata) -> Iterator[BookieId]:
    for fragment in metadata.fragments:
        yield from fragment.bookies


def _kept(column: array[int], keeps: bytes) -> array[int]:
    return array(column.typecode, (each for each, keep in zip(column, keeps, strict=True) if keep))
