"""Whether the copies of a bookie that is to leave fit on others, before anything is moved. Pure.

Every place of the bookie is given away on trial, as a heal would give it, and the bytes are
counted against the room of each target. The heal draws again when it happens, so its choice
differs; whether there is a legal target does not depend on the draw.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from quire.entry import NO_ENTRY, BookieId, LedgerId
from quire.labels import Labels
from quire.ledger.domains import Candidate
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.repair.plan import Plan, plan_places
from quire.storage.journal.options import StorageOptions

COPY_BYTES_PER_SECOND: Final = StorageOptions().upkeep_bytes_per_second
"""The rate that a bookie keeps to when it fetches copies."""

NAMED_MAX: Final = 5
"""Ledgers that a line names for one reason."""


@dataclass(slots=True)
class Departure:
    """The moves of a drain, tried, and the ledgers that cannot move.

    Attributes:
        bookie: the bookie that is to leave.
        closed: the ledgers that name it and are closed: their copies move at once.
        waiting: those that are not closed: their copies move after they are.
        targets: the bytes that each other bookie would fetch.
        stuck: the ledgers that cannot move, and why.
    """

    bookie: BookieId
    closed: list[LedgerId] = field(default_factory=list)
    waiting: list[LedgerId] = field(default_factory=list)
    targets: dict[BookieId, int] = field(default_factory=dict)
    stuck: dict[LedgerId, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The bytes that are copied in all."""
        return sum(self.targets.values())

    @property
    def seconds(self) -> float:
        """How long the busiest target copies, at its rate."""
        return max(self.targets.values(), default=0) / COPY_BYTES_PER_SECOND

    @property
    def obstacles(self) -> list[str]:
        """Why not everything can move: each reason, with the first ledgers that it holds for."""
        by_reason: dict[str, list[LedgerId]] = {}
        for ledger, why in sorted(self.stuck.items()):
            by_reason.setdefault(why, []).append(ledger)
        return [f"{_named(ledgers)} cannot move: {why}" for why, ledgers in by_reason.items()]


def plan_departure(
    rng: random.Random,
    bookie: BookieId,
    naming: Iterable[LedgerMetadata],
    candidates: Sequence[Candidate],
    labels: Callable[[BookieId], Labels],
) -> Departure:
    """Try the drain of a bookie, and return its moves.

    Args:
        naming: the ledgers that name the bookie.
        candidates: the bookies that may take copies, with the bytes that each may take; 0 when
            that is not known.
        labels: where a bookie is.
    """
    found = Departure(bookie)
    room = {each.bookie: each.room for each in candidates if each.room}
    for metadata in sorted(naming, key=lambda each: -(each.length or 0)):
        (found.closed if metadata.is_closed else found.waiting).append(metadata.ledger)
        size = bytes_of(metadata, bookie)
        fitting = [
            each
            for each in candidates
            if each.bookie != bookie and room.get(each.bookie, size) >= size
        ]
        plan = _tried(rng, bookie, metadata, fitting, labels)
        if plan.unplaced and len(fitting) < len(candidates):
            others = [each for each in candidates if each.bookie != bookie]
            if not _tried(rng, bookie, metadata, others, labels).unplaced:
                plan.unplaced[metadata.ledger] = "no bookie that may take it has room for it"
        found.stuck.update(plan.unplaced)
        takes = {
            target: [each.first for order in orders for each in order.replicas]
            for target, orders in plan.wanted.items()
        }
        for target, firsts in takes.items():
            count = sum(bytes_of(metadata, bookie, first) for first in firsts)
            found.targets[target] = found.targets.get(target, 0) + count
            if target in room:
                room[target] -= count
    found.closed.sort()
    found.waiting.sort()
    return found


def bytes_of(metadata: LedgerMetadata, bookie: BookieId, first: int | None = None) -> int:
    """Return about how many bytes a bookie must hold of a ledger, or of its fragment that begins at
    `first`. Entries count as equally large; 0 as long as the ledger is not closed.
    """
    if not metadata.length or metadata.last_entry is None:
        return 0
    firsts = [each.first for each in metadata.fragments]
    ends = [*(each - 1 for each in firsts[1:]), metadata.last_entry]
    entries = sum(
        end - fragment.first + 1
        for fragment, end in zip(metadata.fragments, ends, strict=True)
        if bookie in fragment.bookies and first in (None, fragment.first)
    )
    replication = metadata.replication
    whole = metadata.length * entries * replication.write_quorum
    return -(-whole // (replication.ensemble * (metadata.last_entry + 1)))


def _tried(
    rng: random.Random,
    bookie: BookieId,
    metadata: LedgerMetadata,
    candidates: Sequence[Candidate],
    labels: Callable[[BookieId], Labels],
) -> Plan:
    """Return a plan for one ledger. A ledger that is not closed is taken as if it ended now: its
    writer, too, needs another bookie.
    """
    plan = Plan()
    if not metadata.is_closed:
        end = max(metadata.last_fragment.first - 1, NO_ENTRY)
        metadata = replace(metadata, state=LedgerState.CLOSED, last_entry=end, length=0)
    plan_places(plan, rng, metadata, {bookie}, candidates, labels)
    return plan


def _named(ledgers: Sequence[LedgerId]) -> str:
    named = ", ".join(map(str, ledgers[:NAMED_MAX]))
    more = len(ledgers) - NAMED_MAX
    return f"ledgers {named}" + (f" and {more} more" if more > 0 else "")
