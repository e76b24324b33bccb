"""Safeguards of recovery: what it may conclude, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quire import bookie
from quire.bookie import Denial, Meaning
from quire.entry import EntryId
from quire.errors import VersionConflictError
from quire.ledger import (
    read_lac,
    recovery,
    recovery_plan,
    replicate_fragments,
    versioned,
    write_back,
)
from quire.ledger.ack_rule import AckRule
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from tests.sim.ablations.patch import Patch


def write_back_without_domains() -> list[Patch]:
    def suffices(self: Any, write_set: Any, holders: Any) -> bool:
        enough: int = self._replication.ack_quorum
        return sum(position in holders for position in write_set) >= enough

    return [(AckRule, "suffices", suffices)]


def read_without_fence() -> list[Patch]:
    whole = recovery.LedgerRecovery._batches

    def batches(self: Any, panel: recovery_plan.Panel, first: EntryId) -> Any:
        if not isinstance(self._bookies, _Unfenced):
            self._bookies = _Unfenced(self._bookies)
        return whole(self, panel, first)

    return [(recovery.LedgerRecovery, "_batches", batches)]


class _Unfenced:
    """A roster whose bookies read without fencing."""

    def __init__(self, bookies: Any) -> None:
        self._bookies = bookies

    def writable(self) -> list[str]:
        found: list[str] = self._bookies.writable()
        return found

    def candidates(self) -> Any:
        return self._bookies.candidates()

    def labels(self, bookie: str) -> Any:
        return self._bookies.labels(bookie)

    def places(self) -> Any:
        return self._bookies.places()

    def bookie(self, bookie: str) -> Any:
        return _UnfencedBookie(self._bookies.bookie(bookie))


class _UnfencedBookie:
    def __init__(self, link: Any) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    async def read(self, ledger: int, first: int, last: int, **options: Any) -> Any:
        options.pop("fence_key", None)
        return await self._link.read(ledger, first, last, **options)


def believe_one_negative() -> list[Patch]:
    def judge(
        replication: Replication, entry: EntryId, answers: Mapping[int, Any]
    ) -> recovery_plan.EntryVerdict:
        said = [answers.get(position) for position in replication.write_set(entry)]
        if recovery_plan.Answer.OK in said:
            return recovery_plan.EntryVerdict.RECOVER
        if recovery_plan.Answer.ABSENT in said:
            return recovery_plan.EntryVerdict.END
        waiting = None in said
        return recovery_plan.EntryVerdict.UNDECIDED if waiting else recovery_plan.EntryVerdict.FAIL

    return [(recovery_plan, "judge", judge)]


def take_errors_for_absence() -> list[Patch]:
    def doubt(self: Any, position: int, entry: EntryId) -> None:
        self.deny(position, entry, entry)

    return [(recovery_plan.Evidence, "doubt", doubt)]


def stretch_denials() -> list[Patch]:
    """Count a denial for the whole range that was asked for."""

    def read_denial(error: Any, first: EntryId, last: EntryId) -> Denial:
        found = bookie.read_denial(error, first, last)
        return found._replace(through=last) if found.meaning is Meaning.ABSENT else found

    return [(recovery, "read_denial", read_denial)]


def start_below_the_last_fragment() -> list[Patch]:
    def start(replication: Replication, fragment: Fragment, found: Mapping[int, Any]) -> Any:
        proven = {position: lac for position, lac in found.items() if lac is not None}
        if not replication.is_covered(proven):
            return None
        return max(*proven.values(), -1)

    return [(read_lac, "start_of_recovery", start)]


def fence_one_bookie() -> list[Patch]:
    def start(replication: Replication, fragment: Fragment, found: Mapping[int, Any]) -> Any:
        proven = [lac for lac in found.values() if lac is not None]
        return max(*proven, fragment.first - 1, -1) if proven else None

    return [(read_lac, "start_of_recovery", start)]


def let_lac_grow_in_recovery() -> list[Patch]:
    whole = write_back.WriteBack.write

    async def write(self: Any, batch: Any) -> None:
        await whole(self, batch)
        self._start = batch[-1].entry

    return [(write_back.WriteBack, "write", write)]


def write_back_to_one() -> list[Patch]:
    def is_safe(self: Any, batch: Any, acked: set[int]) -> bool:
        return bool(acked)

    return [(write_back.WriteBack, "_is_safe", is_safe)]


def look_at_the_first_of_a_batch() -> list[Patch]:
    whole = write_back.WriteBack._is_safe

    def is_safe(self: Any, batch: Any, acked: set[int]) -> bool:
        return whole(self, batch[:1], acked)

    return [(write_back.WriteBack, "_is_safe", is_safe)]


def close_over_anybody() -> list[Patch]:
    whole = versioned.change_metadata

    async def change(
        records: Any, ledger: int, decide: Callable[[LedgerMetadata], LedgerMetadata | None]
    ) -> Any:
        found = await records.read(ledger)
        wanted = decide(found.metadata)
        if wanted is None or not wanted.is_closed:
            return await whole(records, ledger, decide)
        while True:
            try:
                return await records.change(wanted, found.version)
            except VersionConflictError:
                found = await records.read(ledger)

    return [(recovery, "change_metadata", change)]


def close_with_an_ack_quorum() -> list[Patch]:
    async def run(self: Any, metadata: LedgerMetadata, last: EntryId) -> list[Any]:
        return []

    return [(replicate_fragments.FragmentReplication, "run", run)]
