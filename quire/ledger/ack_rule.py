"""When copies suffice: Qa of a write set, and copies in m domains where the policy says so.

An entry of a ledger with `durable=LEVEL:m` counts only when bookies in m domains hold it, besides
Qa bookies. All that confirm or vouch ask here: the append window, a change that may wait, and a
recovery that writes entries back. The domains are frozen in the fragment: labels that a bookie gets
later change nothing for a ledger that is written.

A bookie without a label at the level may be anywhere, so it adds no domain.

Reading needs no rule of its own: such an entry is on Qa bookies too, so Qw − Qa + 1 bookies that
deny it still prove that it was not acknowledged.

Pure: positions and numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quire.entry import NO_ENTRY, EntryId
from quire.labels import Domain
from quire.ledger.domains import Placement, domains_of
from quire.ledger.metadata import Fragment
from quire.ledger.quorum import Replication


class AckRule:
    """The rule of one fragment."""

    __slots__ = ("_domains", "_needed", "_replication")

    def __init__(
        self, replication: Replication, domains: Sequence[Domain] = (), needed: int = 0
    ) -> None:
        """`domains` are by position; without any, Qa copies suffice."""
        self._replication = replication
        self._domains = tuple(domains)
        self._needed = needed

    @classmethod
    def of(cls, replication: Replication, placement: Placement, fragment: Fragment) -> AckRule:
        """Return the rule of a fragment of a ledger with a policy."""
        if placement.durable is None:
            return cls(replication)
        level, needed = placement.durable
        return cls(replication, domains_of(fragment.labels, level), needed)

    @property
    def counts_domains(self) -> bool:
        """Whether Qa copies may be too few."""
        return self._needed > 0

    def suffices(self, write_set: Sequence[int], holders: Collection[int]) -> bool:
        """Whether an entry of a write set counts when these positions hold it."""
        there = [position for position in write_set if position in holders]
        if len(there) < self._replication.ack_quorum:
            return False
        return not self._needed or len(self._known(there)) >= self._needed

    def spread_through(self, write_set: Sequence[int], marks: Sequence[EntryId]) -> EntryId:
        """Return the last entry of a write set that enough domains hold, given watermarks."""
        best: dict[Domain, EntryId] = {}
        for position in write_set:
            domain = self._domains[position]
            if domain[-1]:
                best[domain] = max(best.get(domain, NO_ENTRY), marks[position])
        if len(best) < self._needed:
            return NO_ENTRY
        return sorted(best.values())[-self._needed]

    def _known(self, positions: Sequence[int]) -> set[Domain]:
        domains = {self._domains[position] for position in positions}
        return {domain for domain in domains if domain[-1]}
