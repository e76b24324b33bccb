"""A service: written before applied, one order for all, rejoining, handing over."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import (
    DeposedError,
    LeadershipLostError,
    OutcomeUnknownError,
    QuireError,
    StoreUnavailableError,
)
from quire.metastore.layout import service_path
from quire.service import Role
from tests.service.replicas import NAME, SESSION_SECONDS, Replica, agree, replicas
from tests.support.log_cluster import LogCluster, refuse
from tests.support.memory_cluster import down


async def test_every_replica_applies_the_same_and_only_the_leader_takes_commands(
    cluster: LogCluster,
) -> None:
    found = await replicas(cluster)
    leader = found[0].service
    results = await asyncio.gather(*(leader.submit(b"%d" % each) for each in range(50)))
    assert results == list(range(1, 51))
    await agree(found, 50)
    assert set(found[1].state.epochs) == {leader.epoch}
    with pytest.raises(LeadershipLostError):
        await found[1].service.submit(b"no")
    with pytest.raises(LeadershipLostError):
        await found[1].service.barrier()
    await leader.barrier()
    who = await found[2].service.leader()
    assert who is not None
    assert who.candidate == "r0"
    for each in reversed(found):
        await each.service.close()


async def test_nothing_is_applied_that_is_not_in_the_log(cluster: LogCluster) -> None:
    found = await replicas(cluster, 1)
    for bookie in cluster.bookies.values():
        bookie.before = down("add")
    waiting = asyncio.create_task(found[0].service.submit(b"x"))
    await asyncio.sleep(1)
    assert found[0].state.commands == []
    for bookie in cluster.bookies.values():
        bookie.before = down("nothing")
    assert await waiting == 1
    await found[0].service.close()


async def test_a_leader_cut_off_from_its_session_is_followed_and_follows_itself_later(
    cluster: LogCluster,
) -> None:
    found = await replicas(cluster)
    first, second = found[0], found[1]
    await asyncio.gather(*(first.service.submit(b"a%d" % each) for each in range(10)))
    old = first.service.epoch
    leading = (await cluster.store.children("/quire/elections/s/candidates"))[0]
    await cluster.store.delete(f"/quire/elections/s/candidates/{leading}")
    await second.service.wait_role(Role.LEADER)
    await second.service.submit(b"b")
    new = second.service.epoch
    assert old is not None
    assert new is not None
    assert new > old
    with pytest.raises((LeadershipLostError, OutcomeUnknownError)):
        await first.service.submit(b"late")
    await agree(found, 11)
    assert b"late" not in first.state.commands
    for each in reversed(found):
        await each.service.close()


async def test_a_deposed_leader_confirms_no_barrier(cluster: LogCluster) -> None:
    found = await replicas(cluster, 1)
    first = found[0]
    await first.service.submit(b"a")
    first.client.store.before = refuse()
    thief = await cluster.new_client().logs.open(NAME)
    with pytest.raises((OutcomeUnknownError, LeadershipLostError)):
        await first.service.barrier()
    first.client.store.before = refuse("nothing")
    await thief.close()
    await first.service.wait_role(Role.LEADER)
    assert await first.service.submit(b"b") == 2
    await first.service.close()


async def test_handing_over_needs_no_recovery_and_goes_to_whom_it_is_meant_for(
    cluster: LogCluster,
) -> None:
    found = await replicas(cluster)
    await found[0].service.submit(b"a")
    started = asyncio.get_running_loop().time()
    await found[0].service.hand_over("r2")
    await found[2].service.wait_role(Role.LEADER)
    assert asyncio.get_running_loop().time() - started < SESSION_SECONDS / 10
    assert await found[2].service.submit(b"b") == 2
    assert found[1].service.role is Role.FOLLOWER
    await agree(found, 2)
    for each in found:
        await each.service.close()


async def test_who_could_not_begin_to_lead_answers_when_it_leads_again(cluster: LogCluster) -> None:
    """Found by the simulator: what ended an attempt to lead also ended the next leader's applier,
    so that no command of it was ever answered.
    """
    replica = Replica(cluster, "r0")
    refused = asyncio.Event()

    async def before(method: str, path: str) -> None:
        begins = replica.service.role is Role.RECOVERING and not refused.is_set()
        if path == service_path(NAME) and begins:
            refused.set()
            raise StoreUnavailableError("faulty:", "refused by order of the test")

    replica.client.store.before = before
    async with replica.service as service, asyncio.timeout(30):
        await refused.wait()
        await service.wait_role(Role.LEADER)
        assert await service.submit(b"a") == 1
        await service.barrier()


@pytest.mark.parametrize("error", [ZeroDivisionError(), QuireError("the application's own")])
async def test_a_defect_of_the_application_ends_the_service_and_is_told(
    cluster: LogCluster, error: Exception
) -> None:
    found = await replicas(cluster, 1)
    found[0].state.defect = error
    submits = [found[0].service.submit(command) for command in (b"defect", b"next")]
    outcomes = await asyncio.gather(*submits, return_exceptions=True)
    assert outcomes[0] is error
    assert isinstance(outcomes[1], DeposedError), "it is in the log, and was not carried out"
    assert found[0].state.commands == [], "nothing is carried out on a broken state"
    with pytest.raises(type(error)):
        await found[0].service.wait_role(Role.LEADER)
    with pytest.raises(type(error)):
        await found[0].service.close()


async def test_a_replica_whose_closing_is_cut_short_ends_all_the_same(cluster: LogCluster) -> None:
    """Found by the simulator: it went on, and nobody was left who could end it."""
    await asyncio.sleep(0.1)
    before = asyncio.all_tasks()
    replica = (await replicas(cluster, 1))[0]
    for bookie in cluster.bookies.values():
        bookie.before = down("add")
    waiting = asyncio.create_task(replica.service.submit(b"x"))
    await asyncio.sleep(0.1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await replica.service.close()
    assert replica.service.role is Role.STOPPED
    with pytest.raises(OutcomeUnknownError):
        await waiting
    for bookie in cluster.bookies.values():
        bookie.before = down("nothing")
    await asyncio.sleep(1)
    assert asyncio.all_tasks() == before
