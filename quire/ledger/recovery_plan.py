"""The decisions of recovery: where to start, the fate of each entry, and the end to close with.

A recoverer must end a ledger so that every confirmed entry stays and all recoverers agree. It
knows only the bookies' answers, and each answer is one of three: a valid copy, an explicit "no
such entry" from a bookie that cannot have lost any, or nothing usable (an error, silence, a bad
digest). Rules:

  P1  The start is decided once bookies that answered the fencing tail read cover every write set.
      It is the highest LAC they prove, but never below the last fragment: entries under it are
      confirmed.
  P2  One valid copy recovers an entry. Qw − Qa + 1 explicit negatives from its write set prove
      that it was not and never will be confirmed, so the ledger ends before it. An unusable
      answer is never a negative. Neither is *retired* (`LedgerRetiredError`): it ends the recovery,
      and metadata tells its meaning.
  P3  Everything is judged by the metadata as it was when recovery began: a bookie that recovery
      itself put into the ensemble lacks entries rightly.
  P4  Recovery's changes of the ensemble appear in metadata together with the end, or never.
  P5  A record of an older incarnation may lack the ledger's later ensembles. Then every bookie of
      the cluster is asked, as if each entry from the last recorded fragment on had been written to
      all K of them: K − Qa + 1 explicit negatives end the ledger. Recovery starts before the
      fragment, and writes all that it finds back to the ensemble that the record will name.

Pure: answers in, verdicts out. `recovery` sends the requests and bounds their time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from quire.entry import NO_ENTRY, BookieId, Entry, EntryId
from quire.errors import CorruptRecordError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.metastore.layout import ledger_path


class Answer(StrEnum):
    """What one bookie said about one entry."""

    OK = "ok"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Panel(NamedTuple):
    """The bookies that a recovery asks, and the replication that it counts their answers with."""

    replication: Replication
    bookies: tuple[BookieId, ...]


def is_older(metadata: LedgerMetadata, incarnation: int) -> bool:
    """Return whether a record may lack changes that the store had confirmed (P5)."""
    return metadata.incarnation < incarnation


def last_ensemble(metadata: LedgerMetadata) -> Panel:
    """Return the bookies to ask about a ledger with all of its ensembles in its record."""
    return Panel(metadata.replication, metadata.last_fragment.bookies)


def every_bookie(metadata: LedgerMetadata, cluster: Iterable[BookieId]) -> Panel:
    """Return the bookies to ask about a ledger with unknown later ensembles (P5).

    `cluster` names the bookies that have a cookie or are registered. Each entry that was ever
    acknowledged is held by Qa of them, so it survives Qa − 1 bookies that do not answer.
    """
    bookies = tuple(sorted({*cluster, *metadata.last_fragment.bookies}))
    count = len(bookies)
    return Panel(Replication(count, count, metadata.replication.ack_quorum), bookies)


class EntryVerdict(StrEnum):
    """The conclusion from the answers so far about one entry."""

    RECOVER = "recover"
    END = "end"
    UNDECIDED = "undecided"
    FAIL = "fail"


def judge(
    replication: Replication, entry: EntryId, answers: Mapping[int, Answer | None]
) -> EntryVerdict:
    """Return the verdict on an entry (P2). `answers` maps positions to answers; others are
    awaited.
    """
    said = [answers.get(position) for position in replication.write_set(entry)]
    if Answer.OK in said:
        return EntryVerdict.RECOVER
    if said.count(Answer.ABSENT) >= replication.coverage:
        return EntryVerdict.END
    return EntryVerdict.UNDECIDED if None in said else EntryVerdict.FAIL


def start_of_recovery(
    replication: Replication, last_fragment: Fragment, tails: Mapping[int, EntryId | None]
) -> EntryId | None:
    """Return the entry to start recovery after, None until enough bookies have answered (P1).

    `read_lac` maps the positions of the last ensemble that answered to the LAC their answer proves,
    None when it proves nothing. The result is confirmed, and so is everything below it.
    """
    proven = {position: lac for position, lac in sorted(tails.items()) if lac is not None}
    if not replication.is_covered(proven):
        return None
    return max(*proven.values(), last_fragment.first - 1, NO_ENTRY)


class Evidence:
    """The answers of one ensemble's bookies about the entries from `next` on.

    Runs come in as runs; the verdict is on one entry, `next`, and `take` moves on after RECOVER.
    A bookie's newest word about an entry stands, except that a valid copy once seen stays seen.
    """

    def __init__(self, replication: Replication, first: EntryId) -> None:
        self.next = first
        self._replication = replication
        self._found: dict[EntryId, Entry] = {}
        self._absent: dict[int, tuple[EntryId, EntryId]] = {}
        self._doubts: dict[EntryId, set[int]] = {}

    def wants(self, entry: EntryId) -> bool:
        """Return whether a copy of an entry would tell anything new."""
        return entry >= self.next and entry not in self._found

    def hold(self, entries: Iterable[Entry]) -> None:
        """Valid copies were seen."""
        for entry in entries:
            if self.wants(entry.entry):
                self._found[entry.entry] = entry

    def deny(self, position: int, first: EntryId, last: EntryId) -> None:
        """A bookie that cannot have lost any said that it holds no entry of first..last."""
        self._absent[position] = (first, last)

    def doubt(self, position: int, entry: EntryId) -> None:
        """A bookie's answer about an entry is not usable."""
        if entry >= self.next:
            self._doubts.setdefault(entry, set()).add(position)

    def answers(self) -> dict[int, Answer | None]:
        """Return the answers about `next` of its write set, in the order of the set."""
        return {
            position: self._answer(position) for position in self._replication.write_set(self.next)
        }

    def judge(self) -> EntryVerdict:
        """Return the verdict on `next`."""
        if self.next in self._found:
            return EntryVerdict.RECOVER
        return judge(self._replication, self.next, self.answers())

    def unanswered(self) -> list[int]:
        """Return the positions of the write set of `next` that have not spoken about it."""
        return [position for position, answer in self.answers().items() if answer is None]

    def take(self) -> Entry:
        """Return the copy of `next` and move on to the entry after it. Only after RECOVER."""
        entry = self._found.pop(self.next)
        self._doubts.pop(self.next, None)
        self.next += 1
        return entry

    def _answer(self, position: int) -> Answer | None:
        first, last = self._absent.get(position, (0, NO_ENTRY))
        if first <= self.next <= last:
            return Answer.ABSENT
        return Answer.UNKNOWN if position in self._doubts.get(self.next, ()) else None


def closing_change(
    current: LedgerMetadata,
    frozen: LedgerMetadata,
    mended: LedgerMetadata,
    end: Entry | None,
    replicas: Sequence[Replica] = (),
) -> LedgerMetadata | None:
    """Return the value to close the ledger with, None when it is closed already (adopt that).

    `frozen` is the metadata recovery began with, `mended` the same with the ensembles recovery
    changed in memory, `end` the ledger's last entry (None: it is empty), `replicas` the positions
    it gave away to complete copies. Edits of older fragments in `current` are re-replication's
    and stay.

    Raises `CorruptRecordError` when `current` has the marks of a writer that wrote on during
    recovery.
    """
    if current.is_closed:
        return None
    same = [fragment.first for fragment in current.fragments] == [
        fragment.first for fragment in frozen.fragments
    ]
    if (
        current.state is not LedgerState.IN_RECOVERY
        or not same
        or current.last_fragment != frozen.last_fragment
    ):
        raise CorruptRecordError(
            ledger_path(current.ledger), "its growing fragment changed while it was in recovery"
        )
    kept = current.fragments[:-1]
    last, *more = mended.fragments[len(kept) :]
    last = replace(last, unknown=current.last_fragment.unknown)
    merged = replace(current, fragments=(*kept, last, *more))
    closed = merged.closed(end.entry if end else NO_ENTRY, end.length if end else 0)
    return closed.with_replicas(replicas)
