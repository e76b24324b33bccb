"""Ends of services that come at a bad moment: nobody waits for ever, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from quire.errors import (
    ConflictError,
    DeposedError,
    HandleClosedError,
    LeadershipLostError,
    StoreUnavailableError,
)
from quire.log.manifest.options import LogOptions
from quire.metastore.layout import election_epoch_path, service_path
from quire.service import Role
from quire.service.service import PAUSE_SECONDS
from quire.service.snapshots import Snapshots
from tests.service.replicas import NAME, Replica, replicas
from tests.support.log_cluster import Gate, LogCluster, eventually, refuse, whole_client


async def test_a_command_that_ends_in_stop_iteration_is_answered(cluster: LogCluster) -> None:
    [replica] = await replicas(cluster, 1)
    replica.state.defect = StopIteration()
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(replica.service.submit(b"defect"), 60)
    with pytest.raises((RuntimeError, StopIteration)):
        await replica.service.close()


async def test_a_log_is_closed_though_no_heir_could_be_named(cluster: LogCluster) -> None:
    [leader] = await replicas(cluster, 1)
    assert await leader.service.submit(b"x") == 1
    in_order = leader.client.store.before
    leader.client.store.before = refuse(path=election_epoch_path(NAME))
    assert not await leader.service.hand_over("nobody")
    leader.client.store.before = in_order
    assert (await leader.client.logs.describe(NAME)).open_segments == ()
    await leader.service.close()


async def test_who_hands_over_is_told_to_whom(cluster: LogCluster) -> None:
    leader, other = await replicas(cluster, 2)
    assert not await leader.service.hand_over("nobody")
    await other.service.wait_role(Role.LEADER)
    await eventually(lambda: leader.service.role is Role.FOLLOWER)
    await asyncio.sleep(1)
    assert await other.service.hand_over("r0")
    await leader.service.wait_role(Role.LEADER)
    for each in (other, leader):
        await each.service.close()


async def test_who_hands_over_a_log_that_cannot_be_closed_is_told(cluster: LogCluster) -> None:
    leader, other = await replicas(cluster, 2)
    office = leader.service._office
    assert office is not None
    office.close_log = _raise(StoreUnavailableError("memory:", "away"))  # type: ignore[method-assign]
    with pytest.raises(LeadershipLostError, match="before the log was closed"):
        await leader.service.hand_over("r1")
    await other.service.wait_role(Role.LEADER)
    for each in (leader, other):
        await each.service.close()


async def test_a_command_behind_one_that_failed_has_an_unknown_outcome(cluster: LogCluster) -> None:
    """It is in the log, and was not carried out here. What another one raised is not its own."""
    [leader] = await replicas(cluster, 1)
    submits = [asyncio.create_task(leader.service.submit(b"x")) for _ in range(3)]
    await asyncio.sleep(0)
    submits += [asyncio.create_task(leader.service.submit(b"defect")) for _ in range(1)]
    submits += [asyncio.create_task(leader.service.submit(b"y")) for _ in range(3)]
    found = await asyncio.gather(*submits, return_exceptions=True)
    assert found[:3] == [1, 2, 3]
    assert isinstance(found[3], ZeroDivisionError)
    assert {type(each) for each in found[4:]} <= {DeposedError, LeadershipLostError}
    assert DeposedError in {type(each) for each in found[4:]}
    with pytest.raises(ZeroDivisionError):
        await leader.service.close()


@pytest.mark.parametrize("how", ["hand over", "close"])
async def test_closing_waits_for_a_hand_over_that_is_under_way(
    cluster: LogCluster, how: str
) -> None:
    leader, other = await replicas(cluster, 2)
    service = leader.service
    submits = [asyncio.create_task(service.submit(bytes(200_000))) for _ in range(50)]
    await asyncio.sleep(0)
    call = service.hand_over if how == "hand over" else service.close
    first = asyncio.create_task(call())
    await asyncio.sleep(0)
    await service.close()
    await first
    assert len(await asyncio.gather(*submits)) == 50
    await other.service.wait_role(Role.LEADER)
    assert other.service.applied >= 50
    await other.service.close()


async def test_a_service_is_entered_once(cluster: LogCluster) -> None:
    [replica] = await replicas(cluster, 1)
    with pytest.raises(HandleClosedError, match="once"):
        await replica.service.__aenter__()
    await replica.service.close()
    with pytest.raises(HandleClosedError):
        await replica.service.__aenter__()


async def test_a_snapshot_of_a_log_that_was_deleted_comes_too_late(cluster: LogCluster) -> None:
    """Whoever was stopped while he wrote it leaves the snapshot of the next log as it is."""
    [old] = await replicas(cluster, 1)
    for _ in range(5):
        await old.service.submit(b"old")
    paused = cluster.new_client()
    paused.store.before = gate = Gate("get", service_path(NAME))
    log_id = (await paused.logs.describe(NAME)).log_id
    late = Snapshots(paused.store, paused.catalog, NAME, LogOptions())
    place, count = old.service._next, old.service.applied
    shape = LogOptions().replication
    writing = asyncio.create_task(late.write(log_id, place, count, b"old", shape))
    await gate.reached.wait()
    await old.service.close()
    await whole_client(cluster).delete_log(NAME)
    new = Replica(cluster, "new", snapshot_records=5)
    await new.service.__aenter__()
    await new.service.wait_role(Role.LEADER)
    for number in range(8):
        assert await new.service.submit(b"new") == number + 1
    await asyncio.sleep(1)
    assert (await new.client.logs.describe(NAME)).trimmed_to.entry > 0
    gate.open.set()
    assert not await writing
    third = Replica(cluster, "third")
    await third.service.__aenter__()
    await new.service.close()
    await third.service.wait_role(Role.LEADER)
    assert third.state.commands == [b"new"] * 8
    await third.service.close()


@pytest.mark.parametrize("defect", [ConflictError("of its own"), ZeroDivisionError()], ids=repr)
async def test_a_follower_ends_with_whatever_its_application_raises(
    cluster: LogCluster, defect: Exception
) -> None:
    """Also where it is an error of the kind that ends a leadership."""
    leader, follower = await replicas(cluster, 2)
    follower.state.apply = _raise(defect)  # type: ignore[method-assign]
    assert await leader.service.submit(b"x") == 1
    with pytest.raises(type(defect)):
        await asyncio.wait_for(follower.service.wait_role(Role.LEADER), 60)
    with pytest.raises(type(defect)):
        await follower.service.close()
    await leader.service.close()


async def test_a_replica_that_cannot_restore_a_snapshot_ends_with_the_reason(
    cluster: LogCluster,
) -> None:
    [leader] = await replicas(cluster, 1, snapshot_records=5)
    for _ in range(8):
        await leader.service.submit(b"x")
    await asyncio.sleep(1)
    late = Replica(cluster, "late")
    late.state.restore = _raise(ConflictError("of its own"))  # type: ignore[method-assign]
    await late.service.__aenter__()
    with pytest.raises(ConflictError, match="of its own"):
        await asyncio.wait_for(late.service.wait_role(Role.LEADER), 60)
    with pytest.raises(ConflictError):
        await late.service.close()
    await leader.service.close()


def _raise(error: Exception) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


async def test_who_was_deposed_while_it_handed_over_is_told(cluster: LogCluster) -> None:
    """Another leader took the log over before it was closed: nothing was handed over in order."""
    leader, other = await replicas(cluster, 2)
    office = leader.service._office
    assert office is not None
    close_log = office.close_log

    async def close_late() -> None:
        (await cluster.new_client().logs.open(NAME)).abandon()
        await close_log()

    office.close_log = close_late  # type: ignore[method-assign]
    with pytest.raises(LeadershipLostError, match="before the log was closed"):
        await leader.service.hand_over("r1")
    await other.service.wait_role(Role.LEADER)
    for each in (leader, other):
        await each.service.close()


async def test_a_replica_that_is_deposed_again_and_again_pauses(cluster: LogCluster) -> None:
    """A program outside of the election takes the log over, as one without `is_leader` does."""
    [replica] = await replicas(cluster, 1)
    outsider, now = cluster.new_client(), asyncio.get_running_loop().time
    for _ in range(3):
        log = await outsider.logs.open(NAME)
        begun = now()
        await eventually(lambda epoch=log.epoch: (replica.service.epoch or 0) > epoch)  # type: ignore[misc]
        assert now() - begun >= PAUSE_SECONDS
    assert await replica.service.submit(b"x") == 1
    await replica.service.close()
