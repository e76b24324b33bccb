"""The assignments that make lost and short copies good again. Pure.

A bookie that is lost held places in the fragments of closed ledgers; other bookies take them, as
the placement rules say (quire/ledger/placement.py). A bookie that is up may lack entries of its own
places: it is asked to fetch them. An open ledger has no assignment: its writer replaces lost
bookies, and a recovery ends it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from quire.entry import BookieId, LedgerId
from quire.errors import NotEnoughBookiesError, NotEnoughDomainsError
from quire.labels import Labels
from quire.ledger.domains import Candidate
from quire.ledger.inventory import Inventory
from quire.ledger.metadata import LedgerMetadata, Replica
from quire.ledger.placement import replace
from quire.repair.assignments import Assignment


@dataclass(slots=True)
class Plan:
    """What is to be done, by bookie, and what cannot be done."""

    wanted: dict[BookieId, list[Assignment]] = field(default_factory=dict)
    open_ledgers: list[LedgerId] = field(default_factory=list)
    """They name a lost bookie, and wait for their writer or a recovery."""
    unplaced: dict[LedgerId, str] = field(default_factory=dict)
    """No bookie may take a place of these, and why."""
    no_domain: set[LedgerId] = field(default_factory=set)
    """The unplaced ledgers with a policy that no free bookie satisfies."""
    lost: list[LedgerId] = field(default_factory=list)
    """Entries of these are on no bookie that answered."""
    damaged: dict[LedgerId, str] = field(default_factory=dict)
    """The records of these cannot be believed, and why."""
    _at: dict[tuple[BookieId, LedgerId], int] = field(default_factory=dict, repr=False)
    """Where in `wanted` an assignment is."""

    def ask(self, bookie: BookieId, assignment: Assignment) -> None:
        """Add an assignment. What a bookie copies of one ledger, it copies at once."""
        wanted = self.wanted.setdefault(bookie, [])
        at = self._at.setdefault((bookie, assignment.ledger), len(wanted))
        if at < len(wanted):
            wanted[at] = wanted[at].joined(assignment)
        else:
            wanted.append(assignment)

    @property
    def assignments(self) -> int:
        """How many there are."""
        return sum(map(len, self.wanted.values()))

    @property
    def leaves_something(self) -> bool:
        """Whether there is something that no assignment mends."""
        return bool(self.open_ledgers or self.unplaced or self.lost or self.damaged)


def plan_places(
    plan: Plan,
    rng: random.Random,
    metadata: LedgerMetadata,
    lost: Collection[BookieId],
    candidates: Sequence[Candidate],
    labels: Callable[[BookieId], Labels],
    assigned: Collection[Replica] = (),
) -> None:
    """Add the assignments that give a ledger's lost places to other bookies.

    `assigned` are places that bookies were asked to take before, and have not taken yet.
    """
    if not any(bookie in lost for fragment in metadata.fragments for bookie in fragment.bookies):
        return
    if not metadata.is_closed:
        plan.open_ledgers.append(metadata.ledger)
        return
    under_way = {(each.first, each.position, each.old): each.new for each in assigned}
    taken: dict[BookieId, list[Replica]] = {}
    for fragment in metadata.fragments:
        members = list(fragment.bookies)
        failed: list[int] = []
        for position, bookie in enumerate(fragment.bookies):
            new = under_way.get((fragment.first, position, bookie))
            if new is not None and new not in members:
                members[position] = new
            elif bookie in lost:
                failed.append(position)
        if not failed:
            continue
        ensemble = [Candidate(bookie, labels(bookie)) for bookie in members]
        try:
            chosen = replace(
                *(rng, ensemble, failed, candidates, metadata.replication, metadata.placement)
            )
        except (NotEnoughBookiesError, NotEnoughDomainsError) as error:
            plan.unplaced[metadata.ledger] = str(error)
            if isinstance(error, NotEnoughDomainsError):
                plan.no_domain.add(metadata.ledger)
            continue
        for position in failed:
            old, (new, at, *_) = members[position], chosen[position]
            if old == new:
                plan.unplaced[metadata.ledger] = "no bookie may take every lost place"
            else:
                taken.setdefault(new, []).append(Replica(fragment.first, position, old, new, at))
    for bookie, replicas in taken.items():
        plan.ask(bookie, Assignment(metadata.ledger, tuple(replicas)))


def plan_holes(plan: Plan, inventory: Inventory, lost: Collection[BookieId]) -> None:
    """Add the assignments that let bookies fetch the entries that they lack."""
    if not inventory.ledger.is_closed:
        return
    if inventory.lost:
        plan.lost.append(inventory.ledger.ledger)
    for each in inventory.holdings:
        if each.missing and each.bookie not in lost:
            plan.ask(each.bookie, Assignment(inventory.ledger.ledger))
