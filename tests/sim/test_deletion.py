"""The rules of the workload with deletions, each broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from quire.errors import QuireError
from quire.log.leader.log import Log
from quire.log.records.position import Appended, Position, Record
from tests.sim import deletion_workload, history, run
from tests.sim.ablations import deletions
from tests.sim.ablations.patch import Ablation
from tests.sim.clients import ClientMachine
from tests.sim.deletion_workload import DeletionWorkload
from tests.sim.history import Seen, Violation
from tests.sim.log_workload import draw_log_workload
from tests.sim.run import run_seed

SEEDS = range(40)


def is_noticed(rule: str, seeds: Sequence[int] = SEEDS) -> bool:
    """Whether a seed finds a rule broken."""
    errors = (run_seed(seed, "deletion").error for seed in seeds)
    return any(isinstance(error, Violation) and error.name == rule for error in errors)


def test_an_append_that_a_log_confirms_when_it_is_gone_is_noticed() -> None:
    whole = Log.append_many

    async def append_many(self: Log, payloads: Sequence[bytes], **marks: Any) -> list[Appended]:
        try:
            return await whole(self, payloads, **marks)
        except QuireError:
            return [Appended(Position(99, 0, slot), slot) for slot in range(len(payloads))]

    with patch.object(Log, "append_many", append_many):
        assert is_noticed("D1 a log that is gone confirms nothing")


def test_a_ledger_that_outlives_its_log_is_noticed() -> None:
    with Ablation("one", "deletion", deletions.delete_the_record_first).removed():
        assert is_noticed("D2 ledgers go with their log")


def test_a_record_of_another_log_is_noticed() -> None:
    whole = history.seen_of

    def seen(record: Record) -> Seen:
        return replace(whole(record), payload=b"ffffffff.leader0.1.0.0:")

    with patch.object(deletion_workload, "seen_of", seen):
        assert is_noticed("D3 a pass is over one log")


def test_a_ledger_with_entries_that_is_left_is_noticed() -> None:
    class Leaving(DeletionWorkload):
        async def _erase_all(self, client: ClientMachine) -> None:
            writer = await client.insist(client.catalog.create)
            await writer.append(b"left")
            await writer.close()
            await super()._erase_all(client)

    with patch.dict(run.WORKLOADS, {"deletion": (Leaving, draw_log_workload)}):
        assert is_noticed("D4 nothing is left of a log", range(1))
