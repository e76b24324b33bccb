"""Watching places of ledgers change hands, at the tree of the metadata store.

What a bookie made durable is known from its observer. At the compare-and-set that names it in a
record, it must have made durable all that it owes there, and from then on it vouches for these
entries and for a fence: whatever it forgets, in a power cut at that moment too, is a violation of
B1 or B3 (watch.py).

  H1  a bookie takes a place with all its entries, fenced
  H2  only a closed ledger gives places away, by the change of one bookie, and each place as the
      bookie was asked to take it
  H3  no bookie is twice in a fragment
  H5  a ledger that is being written is closed by its writer only
  H7  a bookie gives up only closed ledgers that do not name it, and that every named bookie has had
      whole; what a record names, the bookie has not given up, neither now nor at its next start
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVarTuple

from quire.entry import BookieId, EntryId, LedgerId
from quire.ledger.inventory import named_by
from quire.ledger.metadata import LedgerMetadata, LedgerState
from quire.metastore.layout import LEDGERS, MOVES
from quire.repair.assignments import Assignments
from tests.sim.history import Violation, require
from tests.sim.machines import BookieMachine
from tests.sim.world import SimWorld
from tests.spec.events import SOURCES, Event, Kind

Ts = TypeVarTuple("Ts")

Place: TypeAlias = tuple[LedgerId, EntryId, int, BookieId, BookieId]
"""Ledger, first entry of the fragment, position, the bookie there and the bookie asked."""

DURABLE: Final = frozenset(SOURCES.values()) - {Kind.FOUND}


class PlaceWatch:
    """See the module. `on_taken` is told of a bookie and a ledger when a place was taken,
    `on_sealed` of a closed record that was written once more, unchanged.
    """

    def __init__(
        self,
        world: SimWorld,
        *,
        on_taken: Callable[[BookieId, LedgerId], None],
        on_sealed: Callable[[LedgerMetadata], None],
    ) -> None:
        self._world = world
        self._asked: set[Place] = set()
        """Every place that a bookie was asked to take, ever."""
        self.writing: set[LedgerId] = set()
        """Ledgers that their writers have not done with."""
        self._on_taken = on_taken
        self._on_sealed = on_sealed
        self._held: dict[tuple[BookieId, LedgerId], set[EntryId]] = defaultdict(set)
        self._found: dict[tuple[BookieId, LedgerId], set[EntryId]] = defaultdict(set)
        """In journals by a life that may have ended before it told that they are durable; and those
        that were given up. They count if entry logs have them.
        """
        self._heard = world.conformance.heard
        world.conformance.heard = self._hear
        world.conformance.heard_of_older = self._note
        world.metadata_watch.has_repairs = True
        world.on_start = self._started
        # First: the metadata watch asks what bookies vouch for.
        world.tree.listeners.insert(0, self._changed)

    def _hear(self, ledger: LedgerId, event: Event) -> None:
        self._note(ledger, event)
        if event.kind is Kind.DISOWNED:
            self._guarded(self._given_up, event.bookie, ledger)
        self._heard(ledger, event)

    def _note(self, ledger: LedgerId, event: Event) -> None:
        """Note the entries that a bookie has, or has no more. Those of a ledger that is older than
        its store are copied as well.
        """
        if event.kind in DURABLE:
            self._held[event.bookie, ledger].update(event.entries)
        if event.kind is Kind.FOUND:
            self._found[event.bookie, ledger].update(event.entries)
        if event.kind is Kind.DISOWNED:
            # The next life may find the copies again, if this one ends before they are removed.
            self._found[event.bookie, ledger] |= self._held[event.bookie, ledger]
            self._held[event.bookie, ledger].clear()

    def _changed(self, path: str, value: bytes | None, version: int) -> None:
        """Listener of the tree."""
        if path.startswith(MOVES + "/") and value:
            for each in Assignments.decode(path, value).open:
                for it in each.replicas:
                    self._asked.add((each.ledger, it.first, it.position, it.old, it.new))
                    self._world.copying.add((it.new, each.ledger))
        if not path.startswith(LEDGERS + "/") or path.count("/") < 4 or not value:
            return
        after = LedgerMetadata.decode(path, value)
        before = self._world.metadata_watch.current.get(after.ledger)
        self._guarded(self._check, before, after)

    def _guarded(self, check: Callable[[*Ts], None], *args: *Ts) -> None:
        try:
            check(*args)
        except Violation as violation:
            self._world.loop.fail(violation)

    def _given_up(self, bookie: BookieId, ledger: LedgerId) -> None:
        """A bookie has dropped a ledger as superfluous."""
        self._world.bookie_watch.disowned(bookie, ledger)
        metadata = self._world.metadata_watch.current.get(ledger)
        if metadata is None:  # deleted meanwhile
            return
        text = f"{bookie} gave ledger {ledger} up, which is {metadata}"
        require(metadata.is_closed, "H7 a ledger that is given up is closed", text)
        require(bookie not in named_by(metadata), "H7 a named copy is kept", text)
        assert metadata.last_entry is not None
        lacking = [
            (each, entry)
            for entry in range(metadata.last_entry + 1)
            for each in metadata.write_set(entry)
            if entry not in self._held[each, ledger]
        ]
        require(not lacking, "H7 all named bookies hold what is given up", f"{text}: {lacking}")

    def _started(self, machine: BookieMachine) -> None:
        """A bookie serves again."""
        self._guarded(self._check_start, machine)

    def _check_start(self, machine: BookieMachine) -> None:
        for ledger, metadata in sorted(self._world.metadata_watch.current.items()):
            self._check_owned(machine, ledger, metadata)

    def _check_owned(
        self, machine: BookieMachine, ledger: LedgerId, metadata: LedgerMetadata
    ) -> None:
        if machine.node is None or not metadata.is_closed:
            return
        is_named = machine.name in named_by(metadata)
        require(
            not (is_named and machine.node._storage.is_disowned(ledger)),
            "H7 a named copy is kept",
            f"ledger {ledger} names {machine.name}, which has given it up",
        )

    def _check(self, before: LedgerMetadata | None, after: LedgerMetadata) -> None:
        for fragment in after.fragments:
            require(
                len(set(fragment.bookies)) == len(fragment.bookies),
                "H3 no bookie is twice in a fragment",
                f"fragment {fragment.first} of ledger {after.ledger} is {fragment.bookies}",
            )
        if before is None:
            return
        require(
            after.state is LedgerState.OPEN or after.ledger not in self.writing,
            "H5 healing closes no ledger",
            f"ledger {after.ledger}, which is being written, became {after.state}",
        )
        if before.is_closed:
            self._check_change(before, after)
            if before == after:
                self._on_sealed(after)
            return
        finished = len(before.fragments) - 1
        require(
            after.is_closed  # the writer, or a recovery, that closes it names the complete copies
            or before.fragments[:finished] == after.fragments[:finished],
            "H2 only a closed ledger gives places away",
            f"fragments of ledger {after.ledger} were {before.fragments}, are {after.fragments}",
        )

    def _check_change(self, before: LedgerMetadata, after: LedgerMetadata) -> None:
        """The record of a closed ledger changes."""
        pairs = [
            (after.ledger, one.first, position, *names)
            for one, other in zip(before.fragments, after.fragments, strict=True)
            for position, names in enumerate(zip(one.bookies, other.bookies, strict=True))
            if names[0] != names[1]
        ]
        takers = {new for *_, new in pairs}
        text = f"of ledger {after.ledger}: {pairs}"
        require(len(takers) <= 1, "H2 a bookie takes places for itself", text)
        wrong = [each for each in pairs if each not in self._asked]
        require(not wrong, "H2 a place is taken as it was asked for", text)
        for bookie in takers:
            self._check_taker(bookie, before, after)

    def _flushed(
        self, machine: BookieMachine | None, bookie: BookieId, ledger: LedgerId
    ) -> set[EntryId]:
        """Return the entries that a life found in its journal and that entry logs have now."""
        found = self._found[bookie, ledger]
        if machine is None or machine.node is None:
            return found
        chunks = machine.node._storage.chunks(ledger)
        return {
            entry for entry in found if any(each.first <= entry <= each.last for each in chunks)
        }

    def _check_taker(self, bookie: BookieId, before: LedgerMetadata, after: LedgerMetadata) -> None:
        ledger = after.ledger
        assert after.last_entry is not None
        taken = {
            entry
            for entry in range(after.last_entry + 1)
            if bookie in after.write_set(entry) and bookie not in before.write_set(entry)
        }
        machine = next((each for each in self._world.bookies if each.name == bookie), None)
        held = self._held[bookie, ledger] | self._flushed(machine, bookie, ledger)
        lacking = sorted(taken - held)
        require(
            not lacking,
            "H1 a bookie takes a place with all its entries",
            f"{bookie} was named for ledger {ledger}, and never had {lacking}",
        )
        if machine is not None and machine.node is not None:
            state = machine.node._storage.states.get(ledger)
            require(
                state is not None
                and state.is_fenced
                and (state.key is not None or bool(state.check)),
                "H1 a bookie takes a place fenced",
                f"{bookie} was named for ledger {ledger}, and has no fence of it",
            )
            self._check_owned(machine, ledger, after)
        self._held[bookie, ledger] |= taken
        self._world.bookie_watch.vouch(bookie, ledger, taken)
        self._world.note_fault("place taken")
        self._on_taken(bookie, ledger)
