"""Which ledgers name a bookie, and whether a bookie can be spared.

Finding them reads the record of every ledger: some hundred a second from ZooKeeper. It is done for
an operator who is about to take a bookie away, so that a mistake is refused before it is made.
`obstacles_to_away` and `obstacles_to_forget` are pure. The check before a drain is
in quire/repair/departure.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from quire.aio.tasks import together
from quire.entry import BookieId, LedgerId
from quire.errors import NoSuchLedgerError
from quire.healing.state import State
from quire.healing.verdict import ClusterFacts
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.records import LedgerRecords

READS_MAX: Final = 32
"""Records that are read at a time."""

NAMED_MAX: Final = 10
"""Ids that an error names."""


async def find_naming(
    records: LedgerRecords, bookie: BookieId, on_progress: Callable[[int], None] = lambda done: None
) -> list[LedgerMetadata]:
    """Return the metadata of the ledgers that name a bookie.

    `on_progress` is told how many records were read. Raises the store's errors; changes nothing.
    """
    found: list[LedgerMetadata] = []
    done = 0
    async for page in records.list():
        for first in range(0, len(page), READS_MAX):
            some = page[first : first + READS_MAX]
            found += await still_naming(records, bookie, some)
            done += len(some)
            on_progress(done)
    return found


async def still_naming(
    records: LedgerRecords, bookie: BookieId, ledgers: Sequence[LedgerId]
) -> list[LedgerMetadata]:
    """Return the metadata of those of some ledgers that name a bookie; raises as `find_naming`."""
    found: list[LedgerMetadata] = []
    for first in range(0, len(ledgers), READS_MAX):
        some = ledgers[first : first + READS_MAX]
        read = await together(*(_read(records, ledger) for ledger in some))
        found += [each for each in read if each is not None and _names(each, bookie)]
    return found


async def _read(records: LedgerRecords, ledger: LedgerId) -> LedgerMetadata | None:
    try:
        return (await records.read(ledger)).metadata
    except NoSuchLedgerError:  # deleted meanwhile
        return None


def _names(metadata: LedgerMetadata, bookie: BookieId) -> bool:
    return any(bookie in fragment.bookies for fragment in metadata.fragments)


def obstacles_to_away(
    bookie: BookieId, facts: ClusterFacts, naming: Sequence[LedgerMetadata]
) -> list[str]:
    """Return the reasons why a bookie cannot be spared for a while.

    One host at a time may be away. Every open ledger must keep its ack quorum or have a spare, and
    every entry of a finished fragment another copy that is up.
    """
    here = next(each for each in facts.bookies if each.bookie == bookie)
    found = []
    for each in facts.bookies:
        state = facts.state(each)
        is_here = each.bookie == bookie or (
            bool(each.labels.host) and each.labels.path == here.labels.path
        )
        if not is_here and state in (State.AWAY, State.SILENT, State.LOST):
            found.append(f"bookie {each.bookie} on another host is {state}")
    present = {each.bookie for each in facts.bookies if each.registered} - {bookie}
    spares = {each.bookie for each in facts.bookies if facts.state(each) is State.UP} - {bookie}
    stuck = [each.ledger for each in naming if _is_stuck(each, bookie, present, spares)]
    if stuck:
        found.append(f"{_ids(stuck)} would have no ack quorum, and no spare bookie")
    alone = [each.ledger for each in naming if _is_alone(each, bookie, present)]
    if alone:
        found.append(f"{_ids(alone)} have no other copy that is up")
    return found


def obstacles_to_forget(
    bookie: BookieId, facts: ClusterFacts, naming: Sequence[LedgerMetadata]
) -> list[str]:
    """Return the reasons why a bookie's identity cannot be given up."""
    here = next(each for each in facts.bookies if each.bookie == bookie)
    found = ["it is registered: stop it first"] if here.registered else []
    if naming:
        found.append(f"{_ids([each.ledger for each in naming])} name it")
    return found


def _is_stuck(
    metadata: LedgerMetadata, bookie: BookieId, present: set[BookieId], spares: set[BookieId]
) -> bool:
    """Whether a ledger that is written would stop without a bookie. Pure."""
    ensemble = metadata.last_fragment.bookies
    if metadata.is_closed or bookie not in ensemble or spares.difference(ensemble):
        return False
    return any(
        sum(ensemble[at] in present for at in each) < metadata.replication.ack_quorum
        for each in _write_sets(metadata)
        if any(ensemble[at] == bookie for at in each)
    )


def _is_alone(metadata: LedgerMetadata, bookie: BookieId, present: set[BookieId]) -> bool:
    """Whether a write set of a ledger has no other member that is up. Pure."""
    if metadata.last_entry == -1:
        return False

    def is_alone(fragment: Fragment) -> bool:
        names = fragment.bookies
        return any(
            any(names[at] == bookie for at in each) and not any(names[at] in present for at in each)
            for each in _write_sets(metadata)
        )

    return any(is_alone(each) for each in metadata.fragments)


def _write_sets(metadata: LedgerMetadata) -> list[Sequence[int]]:
    return [metadata.replication.write_set(at) for at in range(metadata.replication.ensemble)]


def _ids(ledgers: Sequence[LedgerId]) -> str:
    named = ", ".join(map(str, sorted(ledgers)[:NAMED_MAX]))
    more = len(ledgers) - NAMED_MAX
    return f"ledgers {named}" + (f" and {more} more" if more > 0 else "")
