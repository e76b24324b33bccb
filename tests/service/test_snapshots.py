"""Snapshots of a service: what replicas start from, what is trimmed, what is left behind."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from quire.errors import (
    CorruptRecordError,
    DeposedError,
    HandleClosedError,
    NoSuchLedgerError,
    NoSuchNodeError,
)
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, Position
from quire.metastore.layout import log_path, service_path
from quire.service import Role
from quire.service.snapshots import Snapshot, Snapshots, gc_snapshots
from tests.service.replicas import NAME, Replica, agree, replicas
from tests.support.interrupted import cancelled_at
from tests.support.log_cluster import Gate, LogCluster, refuse, run, whole_client
from tests.support.virtual import virtually


async def test_a_snapshot_trims_the_log_and_a_new_replica_starts_from_it(
    cluster: LogCluster,
) -> None:
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
        if "service" in (await cluster.catalog.metadata(each)).custom_metadata
    ]
    assert labelled == [newest.ledger], "older snapshots are deleted"
    late = Replica(cluster, "late", snapshot_records=20)
    async with late.service:
        await agree([*found, late], 50)
        assert late.state.restored == 1
        assert len(late.state.epochs) == 10
        await found[1].service.close()
        await found[0].service.close()
        await late.service.wait_role(Role.LEADER)
        assert await late.service.submit(b"more") == 51


@pytest.mark.parametrize("snapshot_records", [10_000, 20])
async def test_retention_keeps_what_no_snapshot_covers(
    cluster: LogCluster, snapshot_records: int
) -> None:
    kept = {"retention_bytes": 0, "retention_interval": 0.1, "roll_entries": 2}
    found = await replicas(cluster, 1, snapshot_records=snapshot_records, **kept)
    for number in range(50):
        await found[0].service.submit(b"%d" % number)
    await asyncio.sleep(1)
    snapshots = Snapshots(cluster.store, cluster.catalog, NAME, LogOptions())
    newest = await snapshots.newest()
    trimmed_to = (await cluster.new_client().logs.describe(NAME)).trimmed_to
    assert trimmed_to == (BEGINNING if newest is None else newest.position)
    late = Replica(cluster, "late", snapshot_records=snapshot_records)
    async with late.service:
        await agree([*found, late], 50)
    await found[0].service.close()


async def one_late(cluster: LogCluster, commands: int) -> tuple[Replica, Replica, Gate]:
    """A leader, and a replica that is held where it first looks for the log, before there were any
    commands: it goes on when the gate is opened, after a snapshot of every 20.
    """
    [leader] = await replicas(cluster, 1, snapshot_records=20)
    late = Replica(cluster, "late", snapshot_records=20)
    reading = Gate("get", log_path(NAME))
    late.client.store.before = reading
    await late.service.__aenter__()
    await reading.reached.wait()
    for number in range(commands):
        await leader.service.submit(b"%d" % number)
    await asyncio.sleep(1)
    return leader, late, reading


async def test_a_replica_that_meets_a_log_trimmed_since_it_looked_for_a_snapshot_misses_nothing(
    cluster: LogCluster,
) -> None:
    """Found by the simulator: it looked for a snapshot before there was one, read the log after it
    had been trimmed, and carried out what was left of it on an empty state.
    """
    leader, late, reading = await one_late(cluster, commands=25)
    assert (await leader.client.logs.describe(NAME)).trimmed_to > BEGINNING
    reading.open.set()
    await leader.service.submit(b"last")
    await agree([leader, late], 26)
    assert late.state.restored
    await late.service.close()
    await leader.service.close()


async def test_a_replica_whose_log_was_trimmed_to_its_end_does_not_wait_for_the_next_command(
    cluster: LogCluster,
) -> None:
    """Found by the simulator: it began to wait before there was a log, met one of which nothing was
    left, and had nothing until somebody submitted a command.
    """
    leader, late, reading = await one_late(cluster, commands=20)
    manifest = await leader.client.logs.describe(NAME)
    assert manifest.trimmed_to == leader.service._next
    reading.open.set()
    await agree([leader, late], 20)
    assert late.state.restored
    await late.service.close()
    await leader.service.close()


async def test_a_snapshot_whose_ledger_is_gone_is_an_error_that_names_it(
    cluster: LogCluster,
) -> None:
    [leader] = await replicas(cluster, 1, snapshot_records=5)
    for number in range(5):
        await leader.service.submit(b"%d" % number)
    snapshots = Snapshots(cluster.store, cluster.catalog, NAME, LogOptions())
    await asyncio.sleep(1)
    newest = await snapshots.newest()
    assert newest is not None
    await cluster.catalog.delete(newest.ledger)
    late = Replica(cluster, "late")
    with pytest.raises(NoSuchLedgerError, match=str(newest.ledger)):
        async with late.service:
            await late.service.wait_role(Role.LEADER)
    await leader.service.close()


async def test_snapshots_that_were_never_finished_are_swept_once_they_are_outdone(
    cluster: LogCluster,
) -> None:
    [leader] = await replicas(cluster, 1, snapshot_records=5)
    client = leader.client

    async def snapshot_ledgers() -> list[int]:
        ledgers = await cluster.ledgers()
        found = [await cluster.catalog.metadata(each) for each in ledgers]
        return [each.ledger for each in found if "service" in each.custom_metadata]

    in_order = client.store.before
    client.store.before = refuse("commit", path=log_path(NAME))
    for number in range(5):
        await leader.service.submit(b"%d" % number)
    await asyncio.sleep(1)
    [unnamed] = await snapshot_ledgers()
    swept = await gc_snapshots(cluster.store, cluster.catalog)
    assert swept == [], "it may be named yet"
    client.store.before = in_order
    for number in range(5):
        await leader.service.submit(b"%d" % number)
    await asyncio.sleep(1)
    [_, named] = await snapshot_ledgers()
    assert await gc_snapshots(cluster.store, cluster.catalog) == [unnamed]
    assert await gc_snapshots(cluster.store, cluster.catalog) == []
    assert await snapshot_ledgers() == [named]
    await leader.service.close()
    again = Replica(cluster, "again")
    async with again.service:
        await agree([leader, again], 10)


def test_a_snapshot_that_is_cut_short_before_it_is_named_leaves_nothing() -> None:
    """At each wait of its own; a ledger whose creation was cut short is nobody's yet."""

    async def main(wait: int) -> bool:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            snapshots = Snapshots(client.store, client.catalog, NAME, LogOptions())
            naming = asyncio.Event()

            async def before(method: str, path: str) -> None:
                if path == service_path(NAME):
                    naming.set()

            write = snapshots.write("log", BEGINNING, 5, b"state", Replication(3, 3, 2))
            client.store.before = before
            writing = asyncio.create_task(cancelled_at(wait, write))
            await asyncio.wait([writing])
            if not naming.is_set():
                assert not [each for each in await cluster.ledgers() if cluster.holders(each, 0)]
            return writing.cancelled()

    waits = 0
    while virtually(partial(main, waits + 1)):
        waits += 1
    assert waits > 5


async def test_an_encrypted_service_leaves_no_plain_snapshots(cluster: LogCluster) -> None:
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


async def test_a_snapshot_that_cannot_be_taken_is_a_defect_and_the_command_is_answered(
    cluster: LogCluster,
) -> None:
    found = await replicas(cluster, 1, snapshot_records=2)

    def snapshot() -> bytes:
        raise ZeroDivisionError

    found[0].state.snapshot = snapshot  # type: ignore[method-assign]
    submits = [found[0].service.submit(command) for command in (b"a", b"b", b"c")]
    outcomes = await asyncio.gather(*submits, return_exceptions=True)
    assert outcomes[:2] == [1, 2], "they are in the log, and were carried out"
    assert isinstance(outcomes[2], DeposedError)
    with pytest.raises(ZeroDivisionError):
        await found[0].service.close()


async def test_a_snapshot_that_is_no_bytes_is_a_defect_too(cluster: LogCluster) -> None:
    [replica] = await replicas(cluster, 1, snapshot_records=1)
    replica.state.snapshot = lambda: "text"  # type: ignore[method-assign, assignment, return-value]
    assert await replica.service.submit(b"a") == 1
    with pytest.raises(TypeError, match="not str"):
        await replica.service.close()


async def test_a_snapshot_is_the_state_as_it_was_when_it_was_taken(cluster: LogCluster) -> None:
    """Though the application goes on to use what it returned."""
    [replica] = await replicas(cluster, 1, snapshot_records=1)
    state = bytearray(b"then")
    replica.state.snapshot = lambda: state  # type: ignore[method-assign, assignment, return-value]
    assert await replica.service.submit(b"a") == 1
    state[:] = b"now!"
    snapshots = Snapshots(cluster.store, cluster.catalog, NAME, LogOptions())
    while (found := await snapshots.newest()) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    assert await snapshots.read(found) == b"then"
    await replica.service.close()


async def test_a_service_whose_log_was_deleted_begins_anew(cluster: LogCluster) -> None:
    """With the log went its snapshot; one of another log of the name stays."""
    client = whole_client(cluster)
    for _ in range(2):
        [replica] = await replicas(cluster, 1, snapshot_records=20)
        for number in range(50):
            assert await replica.service.submit(b"x") == number + 1
        await asyncio.sleep(1)
        await replica.service.close()
        snapshots = Snapshots(cluster.store, cluster.catalog, NAME, LogOptions())
        assert await snapshots.newest() is not None
        assert await snapshots.leave("another log") == []
        await client.delete_log(NAME)
        assert await snapshots.newest() is None
        assert await cluster.ledgers() == []


async def test_a_snapshot_that_changes_while_its_log_is_deleted_goes_as_well(
    cluster: LogCluster,
) -> None:
    [replica] = await replicas(cluster, 1, snapshot_records=20)
    await asyncio.gather(*(replica.service.submit(b"x") for _ in range(20)))
    await asyncio.sleep(1)
    await replica.service.close()
    client, path = cluster.new_client(), service_path(NAME)
    changes = [b"not a record", (await cluster.store.get(path)).value]

    async def change(method: str, _: str) -> None:
        if method == "commit" and changes:
            version = (await cluster.store.get(path)).version
            await cluster.store.put(path, changes.pop(), version)

    client.store.before = change
    await client.logs.delete(NAME)
    assert not changes
    assert await cluster.ledgers() == []
    with pytest.raises(NoSuchNodeError):
        await cluster.store.get(path)


@pytest.mark.parametrize("failing", ["snapshot", "trim"])
def test_a_warning_is_given_for_a_snapshot_that_is_missing_and_only_then(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who closes a service while it writes one has it, and nothing to worry about."""

    async def main() -> None:
        async with LogCluster() as cluster:
            replica = Replica(cluster, "replica", snapshot_records=20)

            async def refuse(*_: object, **__: object) -> None:
                raise HandleClosedError("log 's'")

            async with replica.service as service:
                await service.wait_role(Role.LEADER)
                if failing == "snapshot":
                    service._snapshots.write = refuse  # type: ignore[method-assign, assignment]
                else:
                    assert service._office is not None
                    service._office.log.trim = refuse  # type: ignore[method-assign]
                for _ in range(20):
                    await service.submit(b"x")
                await asyncio.sleep(1)
            snapshots = Snapshots(cluster.store, cluster.catalog, NAME, LogOptions())
            assert (await snapshots.newest() is None) == (failing == "snapshot")

    run(main)
    warned = [each.getMessage() for each in caplog.records if each.name == "quire.service.service"]
    assert warned == (
        ["no snapshot at offset 20: log 's' is closed"] if failing == "snapshot" else []
    )


def test_a_damaged_position_is_damage_of_the_record() -> None:
    text = Snapshot("0" * 32, 7, Position(1, 2, 3), 5).encode()
    assert Snapshot.decode("/s", text).position == Position(1, 2, 3)
    with pytest.raises(CorruptRecordError, match="/s"):
        Snapshot.decode("/s", text.replace(b"1.2.3", b"1.2.x"))
