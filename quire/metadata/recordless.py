"""Ledgers without a record in the store although bookies hold entries of them.

Two histories leave such ledgers: they were made after the backup that was put back, or they were
deleted and the bookies have not collected them yet. The store cannot tell one from the other, and
neither can this module. After an adoption bookies collect both.

Bookies are asked before the records are listed: a record is created before its ledger's first
entry, so a new ledger is never taken for one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from quire.bookie import list_all
from quire.entry import BookieId, LedgerId
from quire.errors import QuireError
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.inventory import list_held
from quire.ledger.quorum_call import QuorumCall, retry_transient, within
from quire.ledger.ranges import Ranges, without
from quire.ledger.roster import BookieRoster
from quire.metastore.layout import LEDGER_ID_MAX


class Recordless(NamedTuple):
    """A ledger without a record."""

    ledger: LedgerId
    bookies: Sequence[BookieId]
    """The bookies that hold entries of it, sorted."""
    entries: Ranges
    """The ids of the entries that at least one of them holds."""


class RecordlessLedgers(NamedTuple):
    """The result of a search for ledgers without a record."""

    ledgers: Sequence[Recordless]
    silent: Mapping[BookieId, str]
    """Bookies that did not answer, and why; their ledgers are not known."""


async def find_recordless(
    roster: BookieRoster,
    catalog: LedgerCatalog,
    request_timeout: float,
    members: Iterable[BookieId] = (),
) -> RecordlessLedgers:
    """Return the ledgers that a registered bookie holds and that have no record in the store.

    Changes nothing. A bookie is given `request_timeout` seconds for each piece of a list. Those of
    the `members` of the cluster that are not registered count as silent. Raises the store's errors.
    """
    held: dict[BookieId, Ranges] = {}
    registered = {each.bookie for each in roster.known()}
    silent = {each: "it is not registered" for each in members if each not in registered}
    async with QuorumCall[BookieId, Ranges]() as asking:
        for each in roster.known():
            asking.ask(each.bookie, _ledgers_of(roster, each.bookie, request_timeout))
        while asking.outstanding:
            bookie, answer = await asking.next()
            if isinstance(answer, QuireError):
                silent[bookie] = str(answer)
            else:
                held[bookie] = answer
    found = []
    for ledger, bookies in without_records(held, await catalog.list()).items():
        found.append(await _look_at(roster, ledger, bookies, request_timeout))
    return RecordlessLedgers(found, dict(sorted(silent.items())))


async def _ledgers_of(roster: BookieRoster, bookie: BookieId, request_timeout: float) -> Ranges:
    async def ask(first: LedgerId) -> list[tuple[LedgerId, LedgerId]]:
        async def attempt() -> list[tuple[LedgerId, LedgerId]]:
            return await within(request_timeout, bookie, roster.bookie(bookie).list_ledgers(first))

        return await retry_transient(attempt)

    return await list_all(ask, last=LEDGER_ID_MAX)


async def _look_at(
    roster: BookieRoster, ledger: LedgerId, bookies: Sequence[BookieId], request_timeout: float
) -> Recordless:
    """Return the entries that bookies hold of a ledger; a bookie that fails now adds nothing."""
    entries: list[tuple[int, int]] = []
    async with QuorumCall[BookieId, Ranges]() as asking:
        for bookie in bookies:
            asking.ask(bookie, list_held(roster, bookie, ledger, request_timeout))
        while asking.outstanding:
            _, answer = await asking.next()
            if not isinstance(answer, QuireError):
                entries += answer
    return Recordless(ledger, bookies, joined(entries))


def without_records(
    held: Mapping[BookieId, Ranges], recorded: Iterable[LedgerId]
) -> dict[LedgerId, list[BookieId]]:
    """Return the ledgers that are held and not recorded, ascending, with their bookies. Pure."""
    known = joined((ledger, ledger) for ledger in recorded)
    found: dict[LedgerId, list[BookieId]] = {}
    for bookie in sorted(held):
        for first, last in without(held[bookie], known):
            for ledger in range(first, last + 1):
                found.setdefault(ledger, []).append(bookie)
    return dict(sorted(found.items()))


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges ascending; ranges that touch or overlap are merged. Pure."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found
