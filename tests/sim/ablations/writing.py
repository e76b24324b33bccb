"""Safeguards of a ledger's writer and of its readers."""

from __future__ import annotations

import asyncio
from typing import Any

from quire.bookie import LedgerTail
from quire.entry import NO_ENTRY, EntryId
from quire.ledger import (
    ensemble_change,
    numbered,
    placement,
    read_lac,
    replica_sender,
    tail,
    verify,
    window,
    write_back,
)
from quire.ledger.ack_rule import AckRule
from quire.ledger.domains import domains_of
from quire.ledger.ensemble import Ensemble
from quire.ledger.known import KnownLedger
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.writer import LedgerWriter
from tests.sim.ablations.patch import Patch


def keep_watermarks_of_the_replaced() -> list[Patch]:
    def replace(self: Any, positions: Any, first: EntryId, rule: Any = None) -> None:
        self.first = first
        self._rule = rule or self._rule

    return [(window.AppendWindow, "replace", replace)]


def send_before_metadata() -> list[Patch]:
    whole = LedgerRecord.begin_fragment

    async def begin_fragment(self: Any, fragment: Fragment) -> None:
        task = asyncio.create_task(_quietly(whole(self, fragment)))
        kept.append(task)

    return [(LedgerRecord, "begin_fragment", begin_fragment)]


kept: list[asyncio.Task[None]] = []


async def _quietly(call: Any) -> None:
    try:
        await call
    except Exception:
        return


def write_on_in_recovery() -> list[Patch]:
    def check_ours(self: Any, current: LedgerMetadata) -> None:
        return None

    return [(LedgerRecord, "_check_ours", check_ours)]


def ack_with_one_less() -> list[Patch]:
    whole = window.AppendWindow.__init__

    def init(self: Any, replication: Replication, confirmed: EntryId = -1, *given: Any) -> None:
        whole(self, replication, confirmed, *given)
        self._rank = min(self._rank + 1, replication.write_quorum - 1)

    return [(window.AppendWindow, "__init__", init)]


def ack_during_a_change() -> list[Patch]:
    def acknowledge(self: Any, position: int, entry: EntryId) -> EntryId:
        if entry > self._watermarks[position]:
            self._watermarks[position] = entry
            self.lac = self._proven()
        lac: EntryId = self.lac
        return lac

    def replace(self: Any, positions: Any, first: EntryId, rule: Any = None) -> None:
        self.first = first
        self._rule = rule or self._rule
        for position in positions:
            self._watermarks[position] = self._floors[position] = first - 1

    return [
        (window.AppendWindow, "acknowledge", acknowledge),
        (window.AppendWindow, "replace", replace),
    ]


def ack_without_domains() -> list[Patch]:
    return [(AckRule, "counts_domains", property(lambda self: False))]


def keep_the_domains_of_the_replaced() -> list[Patch]:
    whole = window.AppendWindow.replace

    def replace(self: Any, positions: Any, first: EntryId, rule: Any = None) -> None:
        whole(self, positions, first)

    return [(window.AppendWindow, "replace", replace)]


def believe_new_labels() -> list[Patch]:
    whole = Ensemble.acknowledged

    def acknowledged(self: Any, sender: Any, through: EntryId) -> None:
        durable, context = self._placement.durable, self._context
        if durable is not None:
            places = [context.bookies.labels(each.bookie) for each in self.senders]
            domains = domains_of(places, durable.level)
            self.window.obey(AckRule(context.replication, domains, durable.domains))
        whole(self, sender, through)

    return [(Ensemble, "acknowledged", acknowledged)]


def replace_anywhere() -> list[Patch]:
    whole = placement.replace

    def replace(
        rng: Any, ensemble: Any, failed: Any, spares: Any, replication: Any, *policy: Any
    ) -> Any:
        return whole(rng, ensemble, failed, spares, replication)

    return [(ensemble_change, "replace", replace), (write_back, "replace", replace)]


def believe_a_force() -> list[Patch]:
    def vouched(
        replication: Replication, position: int, first: EntryId, last: EntryId, held: Any
    ) -> EntryId:
        return last

    return [(replica_sender, "vouched", vouched)]


def close_at_the_length_pushed() -> list[Patch]:
    def length(self: Any) -> int:
        pushed: int = self._backlog.length
        return pushed

    return [(LedgerWriter, "length", property(length))]


def take_recovery_for_the_end() -> list[Patch]:
    def is_closed(self: Any) -> bool:
        return self.metadata.state is not LedgerState.OPEN

    return [(KnownLedger, "is_closed", property(is_closed))]


def take_the_highest_entry_for_lac() -> list[Patch]:
    def verified_lac(sealer: Any, found: LedgerTail) -> EntryId:
        return NO_ENTRY if found.frame is None else verify.unverified_entry(found.frame)

    return [(tail, "verified_lac", verified_lac), (read_lac, "verified_lac", verified_lac)]


def send_over_a_gap() -> list[Patch]:
    async def send(self: Any) -> None:
        while self._held:
            number = min(self._held)
            payload, answer = self._held.pop(number)
            sent = await self.writer.submit(payload)
            self._next = max(self._next, number + 1)
            sent.add_done_callback(numbered._Passing(answer))

    return [(numbered.NumberedWriter, "_send", send)]


def take_an_id_again() -> list[Patch]:
    def check(self: Any, entry: EntryId, payload: bytes) -> None:
        self._check_open()

    return [(numbered.NumberedWriter, "_check", check)]
