"""A service: written before applied, one order for all, snapshots, rejoining, handing over."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from quire.election.election import Election
from quire.errors import (
    LeadershipLostError,
    OutcomeUnknownError,
    QuireError,
    StoreUnavailableError,
)
from quire.log.keyring import Keyring
from quire.log.options import LogOptions
from quire.log.position import BEGINNING
from quire.metastore.layout import log_path, service_path
from quire.service import Applied, Role, Service, ServiceOptions
from quire.service.snapshots import Snapshots
from tests.support.log_cluster import Client, Gate, LogCluster, eventually, refuse, run
from tests.support.memory_cluster import down

NAME = "s"
SESSION_SECONDS = 3.0


class Ledger:
    """A state machine that is its own history: nothing can be lost or doubled unnoticed."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        self.epochs: list[int] = []
        self.restored = 0
        self.defect: Exception = ZeroDivisionError()

    def apply(self, command: bytes, at: Applied) -> int:
        if command == b"defect":
            raise self.defect
        self.commands.append(command)
        self.epochs.append(at.epoch)
        return len(self.commands)

    def snapshot(self) -> bytes:
        return b",".join(self.commands)

    def restore(self, state: bytes) -> None:
        self.restored += 1
        self.commands = state.split(b",")


class Replica:
    def __init__(
        self,
        cluster: LogCluster,
        name: str,
        snapshot_records: int = 10_000,
        keyring: Keyring | None = None,
    ) -> None:
        self.client: Client = cluster.new_client()
        self.state = Ledger()
        store = self.client.store
        election = Election(
            store, NAME, name, rng=random.Random(name), session_timeout=SESSION_SECONDS
        )
        options = ServiceOptions(LogOptions(open_timeout=20.0, keyring=keyring), snapshot_records)
        self.service: Service[int] = Service(
            self.state, election, self.client.logs, self.client.catalog, store, options
        )


async def replicas(cluster: LogCluster, count: int = 3, **options: Any) -> list[Replica]:
    """Replicas of which the first leads."""
    found = []
    for number in range(count):
        found.append(Replica(cluster, f"r{number}", **options))
        await found[-1].service.__aenter__()
        await asyncio.sleep(0.5)
    await found[0].service.wait_role(Role.LEADS)
    return found


async def agree(found: list[Replica], count: int) -> None:
    await eventually(lambda: all(len(each.state.commands) >= count for each in found))
    assert all(each.state.commands == found[0].state.commands for each in found)


def test_every_replica_applies_the_same_and_only_the_leader_takes_commands() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
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

    run(main)


def test_nothing_is_applied_that_is_not_in_the_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
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

    run(main)


def test_a_leader_cut_off_from_its_session_is_followed_and_follows_itself_later() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            found = await replicas(cluster)
            first, second = found[0], found[1]
            await asyncio.gather(*(first.service.submit(b"a%d" % each) for each in range(10)))
            old = first.service.epoch
            leading = (await cluster.store.children("/quire/elections/s/candidates"))[0]
            await cluster.store.delete(f"/quire/elections/s/candidates/{leading}")
            await second.service.wait_role(Role.LEADS)
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

    run(main)


def test_a_deposed_leader_confirms_no_barrier() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            found = await replicas(cluster, 1)
            first = found[0]
            await first.service.submit(b"a")
            first.client.store.before = refuse()
            thief = await cluster.new_client().logs.open(NAME)
            with pytest.raises((OutcomeUnknownError, LeadershipLostError)):
                await first.service.barrier()
            first.client.store.before = refuse("nothing")
            await thief.close()
            await first.service.wait_role(Role.LEADS)
            assert await first.service.submit(b"b") == 2
            await first.service.close()

    run(main)


def test_a_snapshot_trims_the_log_and_a_new_replica_starts_from_it() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            found = await replicas(cluster, 2, snapshot_records=20)
            for number in range(50):
                await found[0].service.submit(b"%d" % number)
            snapshots = Snapshots(cluster.store, cluster.catalog, NAME, LogOptions())
            await asyncio.sleep(1)
            newest = await snapshots.newest()
            assert newest is not None
            assert newest.offset == 40
            manifest = await cluster.new_client().logs.describe(NAME)
            assert manifest.trimmed_to >= newest.position
            labelled = [
                each
                for each in await cluster.ledgers()
                if "service" in (await cluster.catalog.metadata(each)).custom
            ]
            assert labelled == [newest.ledger], "older snapshots are deleted"
            late = Replica(cluster, "late", snapshot_records=20)
            async with late.service:
                await agree([*found, late], 50)
                assert late.state.restored == 1
                assert len(late.state.epochs) == 10
                await found[1].service.close()
                await found[0].service.close()
                await late.service.wait_role(Role.LEADS)
                assert await late.service.submit(b"more") == 51

    run(main)


def test_a_replica_that_meets_a_log_trimmed_since_it_looked_for_a_snapshot_misses_nothing() -> None:
    """Found by the simulator: it looked for a snapshot before there was one, read the log after it
    had been trimmed, and carried out what was left of it on an empty state.
    """

    async def main() -> None:
        async with LogCluster() as cluster:
            [leader] = await replicas(cluster, 1, snapshot_records=20)
            late = Replica(cluster, "late", snapshot_records=20)
            reading = Gate("get", log_path(NAME))
            late.client.store.before = reading
            await late.service.__aenter__()
            await reading.reached.wait()
            for number in range(25):
                await leader.service.submit(f"{number}".encode())
            await asyncio.sleep(1)
            assert (await leader.client.logs.describe(NAME)).trimmed_to > BEGINNING
            reading.open.set()
            await leader.service.submit(b"last")
            await agree([leader, late], 26)
            assert late.state.restored
            await late.service.close()
            await leader.service.close()

    run(main)


def test_a_replica_whose_log_was_trimmed_to_its_end_does_not_wait_for_the_next_command() -> None:
    """Found by the simulator: it began to wait before there was a log, met one of which nothing was
    left, and had nothing until somebody submitted a command.
    """

    async def main() -> None:
        async with LogCluster() as cluster:
            [leader] = await replicas(cluster, 1, snapshot_records=20)
            late = Replica(cluster, "late", snapshot_records=20)
            reading = Gate("get", log_path(NAME))
            late.client.store.before = reading
            await late.service.__aenter__()
            await reading.reached.wait()
            for number in range(20):
                await leader.service.submit(f"{number}".encode())
            await asyncio.sleep(1)
            manifest = await leader.client.logs.describe(NAME)
            assert manifest.trimmed_to == leader.service._next
            reading.open.set()
            await agree([leader, late], 20)
            assert late.state.restored
            await late.service.close()
            await leader.service.close()

    run(main)


def test_an_encrypted_service_leaves_no_plain_snapshots() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            keyring = Keyring({"k": bytes(32)}, current="k")
            found = await replicas(cluster, 1, snapshot_records=5, keyring=keyring)
            for number in range(12):
                await found[0].service.submit(b"secret %d" % number)
            await asyncio.sleep(1)
            other = Replica(cluster, "late", keyring=keyring)
            await other.service.__aenter__()
            await agree([found[0], other], 12)
            assert other.state.restored == 1
            held = [
                frame
                for bookie in cluster.bookies.values()
                for ledger in bookie.ledgers.values()
                for frame in ledger.frames.values()
            ]
            assert held
            assert not any(b"secret" in frame for frame in held)
            await other.service.close()
            await found[0].service.close()

    run(main)


def test_handing_over_needs_no_recovery_and_goes_to_whom_it_is_meant_for() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            found = await replicas(cluster)
            await found[0].service.submit(b"a")
            started = asyncio.get_running_loop().time()
            await found[0].service.hand_over("r2")
            await found[2].service.wait_role(Role.LEADS)
            assert asyncio.get_running_loop().time() - started < SESSION_SECONDS / 10
            assert await found[2].service.submit(b"b") == 2
            assert found[1].service.role is Role.FOLLOWS
            await agree(found, 2)
            for each in found:
                await each.service.close()

    run(main)


def test_who_could_not_begin_to_lead_answers_when_it_leads_again() -> None:
    """Found by the simulator: what ended an attempt to lead also ended the next leader's applier,
    so that no command of it was ever answered.
    """

    async def main() -> None:
        async with LogCluster() as cluster:
            replica = Replica(cluster, "r0")
            refused = asyncio.Event()

            async def before(method: str, path: str) -> None:
                begins = replica.service.role is Role.TAKES_OVER and not refused.is_set()
                if path == service_path(NAME) and begins:
                    refused.set()
                    raise StoreUnavailableError("faulty:", "refused by order of the test")

            replica.client.store.before = before
            async with replica.service as service, asyncio.timeout(30):
                await refused.wait()
                await service.wait_role(Role.LEADS)
                assert await service.submit(b"a") == 1
                await service.barrier()

    run(main)


@pytest.mark.parametrize("error", [ZeroDivisionError(), QuireError("the application's own")])
def test_a_defect_of_the_application_ends_the_service_and_is_told(error: Exception) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            found = await replicas(cluster, 1)
            found[0].state.defect = error
            submits = [found[0].service.submit(command) for command in (b"defect", b"next")]
            outcomes = await asyncio.gather(*submits, return_exceptions=True)
            assert outcomes == [error] * 2
            assert found[0].state.commands == [], "nothing is carried out on a broken state"
            with pytest.raises(type(error)):
                await found[0].service.wait_role(Role.LEADS)
            with pytest.raises(type(error)):
                await found[0].service.close()

    run(main)


def test_a_snapshot_that_cannot_be_taken_is_a_defect_and_the_command_is_answered() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            found = await replicas(cluster, 1, snapshot_records=2)

            def snapshot() -> bytes:
                raise ZeroDivisionError

            found[0].state.snapshot = snapshot  # type: ignore[method-assign]
            submits = [found[0].service.submit(command) for command in (b"a", b"b", b"c")]
            outcomes = await asyncio.gather(*submits, return_exceptions=True)
            assert outcomes[:2] == [1, 2], "they are in the log, and were carried out"
            assert isinstance(outcomes[2], ZeroDivisionError)
            with pytest.raises(ZeroDivisionError):
                await found[0].service.close()

    run(main)
