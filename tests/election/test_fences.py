"""Changes under a leadership's fence are made in office only, on every store."""

from __future__ import annotations

import pytest

from quire.errors import ConflictError, LeadershipLostError, NoSuchNodeError
from quire.metastore.changes import Create
from tests.election.test_election import QUEUE, Hall, Run, line_of, run

__all__ = ["run"]

PATH = "/quire/test/change"


def test_a_leader_changes_records_also_after_it_named_its_heir(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert") as (anna, _):
            leadership = await anna.elected()
            before = await leadership._fence()
            assert await leadership.hand_over()
            with pytest.raises(ConflictError):  # it was told before: a leader asks again
                await anna.store.commit([Create(PATH, b"early"), *before])
            await anna.store.commit([Create(PATH, b"anna"), *await leadership._fence()])
            assert (await anna.store.get(PATH)).value == b"anna"

    run(scenario)


def test_a_former_leader_changes_nothing(run: Run) -> None:
    """The fence is asked for in office, and used after it."""

    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert") as (anna, bert):
            fence = await (await anna.elected())._fence()
            place = (await anna.elected())._place
            await bert.store.delete(f"{QUEUE}/{place}")
            theirs = await (await bert.elected())._fence()
            with pytest.raises(ConflictError):
                await anna.store.commit([Create(PATH, b"anna"), *fence])
            with pytest.raises(NoSuchNodeError):
                await anna.store.get(PATH)
            await (await anna.elected()).wait_lost()
            with pytest.raises(LeadershipLostError):
                await (await anna.elected())._fence()
            await bert.store.commit([Create(PATH, b"bert"), *theirs])

    run(scenario)
