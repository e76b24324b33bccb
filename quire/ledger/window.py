"""The append window: pushed entries, acks of each position, and the confirmed entries they prove.

Bookies ack in order, so one number per ensemble position is enough: its
*watermark*, the highest entry it acked. A position holds every entry of its write sets that is at
or below its watermark and not yet confirmed. An entry is confirmed when Qa positions of its write
set have watermarks at or above it and every entry below it is confirmed; LAC is the last such
entry. Where acks count domains (`ack_rule`), copies in that many domains must have it, too.

When a position is given to another bookie its watermark returns to LAC, so an ack of the bookie
that left cannot count: no other place could remember it. LAC stands still
between `freeze` and `thaw`, for a change of the ensemble starts at LAC + 1 and must still do so
when it is done. The domains of the new bookies come with the change, under the same freeze.

Invariants (`check`):

  A1  −1 ≤ LAC ≤ pushed, and the fragment starts at or below LAC + 1.
  A2  No watermark is above the last entry pushed.
  A3  No watermark is below the LAC of its position's last replacement.
  A4  While not frozen, LAC is the entry that the watermarks prove, neither more nor less.
  A5  While frozen, LAC does not move.

Pure: it knows positions and numbers, neither bookies nor bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quire.entry import NO_ENTRY, EntryId
from quire.ledger.ack_rule import AckRule
from quire.ledger.quorum import Replication


class AppendWindow:
    """Watermarks of one writer. Every operation is O(E · Qw) or less, whatever is in flight."""

    __slots__ = (
        "_floors",
        "_frozen_at",
        "_rank",
        "_rule",
        "_single",
        "_watermarks",
        "_write_sets",
        "first",
        "lac",
        "pushed",
    )

    def __init__(
        self,
        replication: Replication,
        confirmed: EntryId = NO_ENTRY,
        rule: AckRule | None = None,
        first: EntryId | None = None,
    ) -> None:
        """Begin after the entry `confirmed`, with nothing in flight; `rule` is the fragment's.

        `first` is the fragment's first entry: the next one by default.
        """
        self.lac = confirmed
        self.pushed = confirmed
        self.first = confirmed + 1 if first is None else first
        """First entry of the fragment being written."""
        self._rank = replication.write_quorum - replication.ack_quorum
        """Index of the Qa-th largest watermark of a write set, sorted ascending."""
        self._rule = rule or AckRule(replication)
        self._write_sets = tuple(
            replication.write_set(residue)
            for residue in range(replication.ensemble if replication.is_striped else 1)
        )
        self._single = len(self._write_sets) == 1
        self._watermarks = [confirmed] * replication.ensemble
        self._floors = [confirmed] * replication.ensemble
        self._frozen_at: EntryId | None = None

    @property
    def pending(self) -> range:
        """The entries pushed and not confirmed."""
        return range(self.lac + 1, self.pushed + 1)

    @property
    def is_frozen(self) -> bool:
        return self._frozen_at is not None

    def watermark(self, position: int) -> EntryId:
        """Return the highest entry a position acked; below it may lie gaps, but only up to LAC."""
        return self._watermarks[position]

    def push(self) -> EntryId:
        """Take the next entry id."""
        self.pushed += 1
        return self.pushed

    def acknowledge(self, position: int, entry: EntryId) -> EntryId:
        """Note that a position holds all its unconfirmed entries up to `entry`; return LAC."""
        assert entry <= self.pushed, f"entry {entry} was acked but only {self.pushed} was pushed"
        if entry > self._watermarks[position]:
            self._watermarks[position] = entry
            if self._frozen_at is None:
                self.lac = self._proven()
        return self.lac

    def freeze(self) -> EntryId:
        """Hold LAC still and return the first entry of the fragment that a change would begin."""
        assert self._frozen_at is None, "frozen twice"
        self._frozen_at = self.lac
        return self.lac + 1

    def replace(
        self, positions: Iterable[int], first: EntryId, rule: AckRule | None = None
    ) -> None:
        """Begin a fragment at `first` = LAC + 1 with other bookies at these positions.

        `rule` is the new fragment's; None where acks count no domains.
        """
        assert self._frozen_at is not None, "replaced while acks were not frozen"
        assert first == self.lac + 1, f"fragment at {first} but LAC is {self.lac}"
        self.first = first
        self._rule = rule or self._rule
        for position in positions:
            self._watermarks[position] = self._floors[position] = self.lac

    def restart(self, position: int, entry: EntryId) -> None:
        """Let a position begin again after `entry`: later acked entries may be lost. LAC stays."""
        self._watermarks[position] = self._floors[position] = entry

    def obey(self, rule: AckRule) -> None:
        """Count by the rule of another fragment: for acceptance, which no fragment freezes."""
        self._rule = rule

    def thaw(self) -> EntryId:
        """Let LAC move again; return the LAC that the acks received meanwhile prove."""
        assert self._frozen_at is not None, "thawed but not frozen"
        self._frozen_at = None
        self.lac = self._proven()
        return self.lac

    def _proven(self) -> EntryId:
        """Return the LAC that the watermarks prove, given the present one."""
        marks, rank, lac = self._watermarks, self._rank, self.lac
        if self._single:
            copied = sorted(marks)[rank]
            if copied > lac and self._rule.counts_domains:
                copied = self._reached(marks, self._write_sets[0], copied)
            return copied if copied > lac else lac
        stripes = len(self._write_sets)
        proven = self.pushed
        for residue, write_set in enumerate(self._write_sets):
            copied = sorted([marks[position] for position in write_set])[rank]
            reached = max(lac, self._reached(marks, write_set, copied))
            unconfirmed = reached + 1 + (residue - reached - 1) % stripes
            proven = min(proven, unconfirmed - 1)
        return proven

    def _reached(
        self, marks: Sequence[EntryId], write_set: Sequence[int], copied: EntryId
    ) -> EntryId:
        """Return the last entry of a write set that counts, of those that Qa positions have."""
        if not self._rule.counts_domains:
            return copied
        return min(copied, self._rule.spread_through(write_set, marks))

    def check(self) -> None:
        """Assert the invariants; for tests and the simulator."""
        assert NO_ENTRY <= self.lac <= self.pushed, "A1"
        assert 0 <= self.first <= self.lac + 1, "A1"
        assert max(self._watermarks) <= self.pushed, "A2"
        marks_and_floors = zip(self._watermarks, self._floors, strict=True)
        assert all(floor <= mark for mark, floor in marks_and_floors), "A3"
        if self._frozen_at is None:
            assert self.lac == self._proven(), "A4"
        else:
            assert self.lac == self._frozen_at, "A5"
