"""The ledger layer's invariants over a whole run, with the names of the published specification.

Each checker takes the evidence and raises `Violation`. `check_ledgers` runs them all over the final
state: every ledger closed, every bookie up again, no fault left.

  no acknowledged entry is lost     L1, L2: whatever was acked is in the closed ledger, at its id
  one history                       L4: the entries are the offered ones, in the order offered
  closed is final                   everybody who saw the ledger closed saw the same end
  committed entries reach Qa        L3: copies on the write set, equal payloads
  enough domains                    H6: these copies are in so many domains as acks count
  a repaired bookie is whole        B9: it left limbo with every entry of its write sets
  no dirty reads                    L7: nobody read or was told of anything beyond the end
  readers skip nothing              ids of one pass are consecutive, bytes are the ledger's
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from quire.entry import BookieId, EntryId, LedgerId
from quire.ledger.metadata import LedgerMetadata
from tests.sim.history import End, LedgerHistory, Outcome, Reading, require
from tests.sim.watch import domains_held


@dataclass
class FinalLedger:
    """A ledger as it is when all is over."""

    metadata: LedgerMetadata
    payloads: list[bytes]
    """What a fresh reader reads."""
    copies: dict[EntryId, dict[BookieId, bytes]] = field(default_factory=dict)
    """The verified payloads that each bookie of the write set holds."""
    hints: dict[BookieId, EntryId] = field(default_factory=dict)
    lost: Collection[BookieId] = ()
    """Bookies whose disks were damaged or taken away: their copies need not be there."""
    lacking: dict[BookieId, list[EntryId]] = field(default_factory=dict)
    """What bookies that were repaired, and say that they are whole, do not have."""

    @property
    def ledger(self) -> LedgerId:
        return self.metadata.ledger

    @property
    def last_entry(self) -> EntryId:
        assert self.metadata.last_entry is not None
        return self.metadata.last_entry

    def places(
        self, excused: Collection[BookieId]
    ) -> Iterator[tuple[str, set[BookieId], set[BookieId]]]:
        """Yield for each entry what to say of it, the bookies with a copy or an excuse, and those
        of its write set.
        """
        for entry in range(self.last_entry + 1):
            named = set(self.metadata.write_set(entry))
            held = set(self.copies.get(entry, {}))
            text = f"entry {entry} of ledger {self.ledger} is on {sorted(held)} of {sorted(named)}"
            yield text, held | set(excused), named

    def owed(self, bookie: BookieId) -> set[EntryId]:
        """Return the entries in whose write set a bookie is."""
        entries = range(self.last_entry + 1)
        return {entry for entry in entries if bookie in self.metadata.write_set(entry)}


def no_acked_entry_lost(final: FinalLedger, history: LedgerHistory) -> None:
    name = "no acknowledged entry is lost"
    for append in history.of(final.ledger):
        if append.outcome is not Outcome.OK:
            continue
        assert append.entry is not None
        require(
            append.entry <= final.last_entry,
            name,
            f"ledger {final.ledger} ends at {final.last_entry}, {append.entry} was acknowledged",
        )
        require(
            final.payloads[append.entry] == append.payload,
            name,
            f"entry {append.entry} of ledger {final.ledger} is {final.payloads[append.entry]!r}, "
            f"acknowledged was {append.payload!r}",
        )


def one_history(final: FinalLedger, history: LedgerHistory) -> None:
    offered = [
        append.payload
        for append in history.of(final.ledger)
        if append.outcome is not Outcome.FAILED
    ]
    for entry, payload in enumerate(final.payloads):
        expected = offered[entry] if entry < len(offered) else None
        require(
            payload == expected,
            "one history",
            f"entry {entry} of ledger {final.ledger} is {payload!r}, offered was {expected!r}",
        )
    require(
        len(final.payloads) == final.last_entry + 1
        and sum(map(len, final.payloads)) == final.metadata.length,
        "one history",
        f"ledger {final.ledger} says it ends at {final.last_entry} with {final.metadata.length} "
        f"bytes; read were {len(final.payloads)} entries, {sum(map(len, final.payloads))} bytes",
    )


def closed_is_final(final: FinalLedger, ends: list[End]) -> None:
    for end in ends:
        if end.ledger == final.ledger:
            require(
                end.last_entry == final.last_entry,
                "closed is final",
                f"{end.who} saw ledger {end.ledger} closed at {end.last_entry}, "
                f"it is closed at {final.last_entry}",
            )


def committed_entries_reach_ack_quorum(final: FinalLedger) -> None:
    name = "committed entries reach the ack quorum"
    replication = final.metadata.replication
    enough = replication.write_quorum if final.metadata.full_quorum else replication.ack_quorum
    for entry, payload in enumerate(final.payloads):
        copies = final.copies.get(entry, {})
        gone = [each for each in final.metadata.write_set(entry) if each in final.lost]
        held = {*copies, *gone}
        require(
            len(held) >= enough,
            name,
            f"entry {entry} of ledger {final.ledger} is held by {sorted(copies)} only",
        )
        durable = final.metadata.placement.durable
        if durable is not None:
            require(
                len(domains_held(final.metadata, entry, held)) >= durable.domains,
                "H6 closed entries are in enough domains",
                f"entry {entry} of ledger {final.ledger} is held by {sorted(held)} only",
            )
        for bookie in sorted(copies):
            require(
                copies[bookie] == payload,
                name,
                f"{bookie} holds {copies[bookie]!r} as entry {entry} of {final.ledger}",
            )


def repaired_bookies_are_whole(final: FinalLedger) -> None:
    for bookie in sorted(final.lacking):
        require(
            not final.lacking[bookie],
            "B9 a repaired bookie is whole",
            f"{bookie} left limbo without entries {final.lacking[bookie]} of {final.ledger}",
        )


def no_dirty_reads(final: FinalLedger, readings: list[Reading]) -> None:
    for bookie in sorted(final.hints):
        require(
            final.hints[bookie] <= final.last_entry,
            "no dirty reads",
            f"{bookie} believes entry {final.hints[bookie]} of ledger {final.ledger} is "
            f"confirmed, which ends at {final.last_entry}",
        )
    for reading in readings:
        for entry, payload in reading.entries:
            require(
                not reading.confirmed_only or entry <= final.last_entry,
                "no dirty reads",
                f"{reading.reader} read entry {entry} of ledger {final.ledger}, "
                f"which ends at {final.last_entry}",
            )
            require(
                entry > final.last_entry or final.payloads[entry] == payload,
                "no dirty reads",
                f"{reading.reader} read {payload!r} as entry {entry} of ledger {final.ledger}",
            )


def readers_skip_nothing(readings: list[Reading]) -> None:
    for reading in readings:
        if not reading.confirmed_only:
            continue
        for offset, (entry, _) in enumerate(reading.entries):
            require(
                entry == reading.first + offset,
                "readers skip nothing",
                f"{reading.reader} got entry {entry} of ledger {reading.ledger} "
                f"after {reading.first + offset - 1}",
            )


def check_ledger(final: FinalLedger, history: LedgerHistory) -> None:
    """Run every checker over one closed ledger."""
    readings = [each for each in history.readings if each.ledger == final.ledger]
    no_acked_entry_lost(final, history)
    one_history(final, history)
    closed_is_final(final, history.ends)
    committed_entries_reach_ack_quorum(final)
    repaired_bookies_are_whole(final)
    no_dirty_reads(final, readings)
    readers_skip_nothing(readings)
