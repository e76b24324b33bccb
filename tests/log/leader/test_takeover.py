"""Take-over: one leader at a time, one history, whatever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from quire.errors import (
    DeposedError,
    LeadershipLostError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    QuireError,
    StoreUnavailableError,
    UnauthorizedError,
)
from quire.ledger.quorum import Replication
from quire.log.manifest.manifest import Job
from quire.log.manifest.options import LogOptions
from quire.log.records.batch import UNPLACED, encode_batch
from quire.log.records.position import Position
from quire.metastore.layout import LEDGERS
from tests.support.log_cluster import (
    NAME,
    PATH,
    Client,
    Gate,
    LogCluster,
    append_all,
    lose_answer,
    numbered,
    refuse,
    run,
)
from tests.support.memory_cluster import down
from tests.support.seeds import seeds


@pytest.mark.parametrize("seed", seeds(8, 2))
def test_rival_leaders_make_one_history(seed: int) -> None:
    """Class 22: what two leaders had acked does not interleave, and epochs tell them apart."""

    async def lead(client: Client, acked: dict[bytes, Position]) -> int:
        wins = 0
        for attempt in range(3):
            log = await client.open(roll_entries=3)
            wins += 1
            try:
                for number in range(10):
                    record = b"%d.%d.%d" % (id(client), attempt, number)
                    acked[record] = (await log.append(record)).position
            except DeposedError:
                assert log.is_deposed
            finally:
                await log.close()
        return wins

    async def main() -> None:
        async with LogCluster() as cluster:
            acked: dict[bytes, Position] = {}
            clients = [cluster.new_client() for _ in range(3)]
            assert sum(await asyncio.gather(*(lead(each, acked) for each in clients))) == 9
            records = await cluster.new_client().read()
            found = {each.payload: each.position for each in records}
            assert len(found) == len(records), "a record is there twice"
            assert found.items() >= acked.items()
            epochs = [each.epoch for each in records]
            assert epochs == sorted(epochs)
            assert [each.offset for each in records] == list(range(len(records)))
            await cluster.check()

    run(main, seed)


def test_the_deposed_leader_learns_it_while_idle_and_its_pending_records_are_unknown() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            old = await cluster.new_client().open()
            await old.append(b"0")
            new = await cluster.new_client().open()
            await old.wait_deposed()
            assert old.is_deposed
            with pytest.raises(DeposedError, match="epoch 1 was deposed"):
                await old.append(b"lost")
            with pytest.raises(DeposedError):
                await old.drain()
            await old.close()
            await new.append(b"1")
            await new.close()
            assert await cluster.new_client().payloads() == [b"0", b"1"]

    run(main)


async def slow_adds(method: str, ledger: int) -> None:
    if method == "add":
        await asyncio.sleep(0.01)


def test_a_leader_whose_ledger_was_deleted_before_it_knew_is_deposed() -> None:
    """Found by the simulator: a replica that wanted to resign ended with an error instead."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await client.open()
            await log.append(b"a")
            await asyncio.sleep(1)  # its bookies know all they will, and are not asked again
            late, never = Gate("get", PATH), Gate("get", LEDGERS)

            async def after(method: str, path: str) -> None:
                await late(method, path)  # what it reads of the manifest arrives late
                await never(method, path)  # and what it reads of its ledger not at all

            client.store.after = after
            closing = asyncio.create_task(log.seal())
            await late.reached.wait()
            successor = await other.open()
            await successor.append(b"b")
            await other.logs.trim(NAME, (await other.manifest()).segments[-1].start)
            late.open.set()
            with pytest.raises(DeposedError, match="another client has deleted its ledger"):
                await closing
            assert log.is_deposed
            await successor.close()
            assert await other.payloads() == [b"b"]

    run(main)


def test_records_in_flight_when_a_leader_is_deposed_are_unknown_never_lost_or_doubled() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            old = await cluster.new_client().open(batch_records=1)
            for bookie in cluster.bookies.values():
                bookie.before = slow_adds
            futures = [await old.submit(record) for record in numbered(0, 200)]
            new = await cluster.new_client().open()
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
            acked = [each for each in outcomes if isinstance(each, Position)]
            unknown = [each for each in outcomes if isinstance(each, DeposedError)]
            assert len(acked) + len(unknown) == 200
            assert unknown, "all were acked before the take-over: the test tests nothing"
            await new.append(b"end")
            await new.close()
            payloads = await cluster.new_client().payloads()
            assert payloads.pop() == b"end"
            assert len(payloads) >= len(acked)
            assert payloads == numbered(0, len(payloads))

    run(main)


@pytest.mark.parametrize("method", ["create", "put"])
def test_a_lost_answer_of_the_decisive_change_is_recognised_as_success(method: str) -> None:
    """I6: the ledger is not deleted, and the epoch is not taken twice."""

    async def main() -> None:
        async with LogCluster() as cluster:
            if method == "put":
                await (await cluster.new_client().open()).close()
            client = cluster.new_client()
            client.store.after = lose_answer(method, path=PATH)
            log = await client.open()
            assert log.epoch == (2 if method == "put" else 1)
            await log.append(b"0")
            await log.close()
            assert await client.payloads() == [b"0"]
            await cluster.check()

    run(main)


def test_who_loses_the_race_deletes_his_ledger_and_starts_again() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await (await cluster.new_client().open()).close()
            slow = cluster.new_client()
            gate = Gate("put", PATH)
            slow.store.before = gate
            opening = asyncio.create_task(slow.open())
            await gate.reached.wait()
            fast = await cluster.new_client().open()
            await fast.append(b"0")
            gate.open.set()
            log = await opening
            assert (fast.epoch, log.epoch) == (2, 3)
            await fast.wait_deposed()
            await log.append(b"1")
            await log.close()
            assert await slow.payloads() == [b"0", b"1"]
            await cluster.check_all_listed()

    run(main)


def test_a_trim_during_the_take_over_is_merged() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open() as log:
                positions = await append_all(log, numbered(0, 4))
                await log.roll()
                await append_all(log, numbered(4, 4))
            slow = cluster.new_client()
            gate = Gate("put", PATH)
            slow.store.before = gate
            opening = asyncio.create_task(slow.open())
            await gate.reached.wait()
            await cluster.new_client().logs.trim(NAME, positions[-1].after)
            gate.open.set()
            log = await opening
            assert log.epoch == 2
            await log.close()
            assert await slow.payloads() == numbered(4, 4)
            await cluster.check()

    run(main)


@pytest.mark.parametrize("what", ["store", "bookies"])
def test_an_outage_during_the_take_over_is_waited_out(what: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            old = await cluster.new_client().open()
            await old.append(b"0")
            old.abandon()
            client = cluster.new_client()
            if what == "store":
                client.store.before = refuse()
            else:
                for bookie in cluster.bookies.values():
                    bookie.before = down()
            opening = asyncio.create_task(client.open())
            await asyncio.sleep(5)
            assert not opening.done()
            client.store.before = refuse("nothing")
            for bookie in cluster.bookies.values():
                bookie.before = down("nothing")
            await (await opening).close()
            assert await client.payloads() == [b"0"]

    run(main)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda cluster, client: setattr(client.store, "before", refuse()), StoreUnavailableError),
        (lambda cluster, client: cluster.bookies.clear(), QuireError),
    ],
)
def test_an_outage_that_lasts_is_reported_in_time(
    prepare: Callable[[LogCluster, Client], None], expected: type[QuireError]
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            prepare(cluster, client)
            for name in list(await cluster.store.children("/quire/bookies")):
                if not cluster.bookies:
                    await cluster.unregister(name)
            started = asyncio.get_running_loop().time()
            with pytest.raises(expected) as caught:
                await client.open(open_timeout=10.0)
            assert isinstance(caught.value, StoreUnavailableError | NotEnoughBookiesError)
            assert 10 <= asyncio.get_running_loop().time() - started < 20

    run(main)


def test_who_asks_for_more_bookies_than_there_are_deposes_nobody() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader = await cluster.new_client().open()
            await leader.append(b"0")
            many = Replication(len(cluster.bookies) + 1, 2, 2)
            with pytest.raises(NotEnoughBookiesError):
                await cluster.new_client().open(replication=many, open_timeout=1.0)
            await leader.append(b"1")
            await leader.close()
            assert await cluster.new_client().payloads() == [b"0", b"1"]

    run(main)


def test_leadership_is_asked_for_before_anybody_is_disturbed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader = await cluster.new_client().open()
            stale = cluster.new_client()
            with pytest.raises(LeadershipLostError):
                await stale.logs.open(NAME, LogOptions(), is_leader=lambda: False)
            await leader.append(b"0")
            await leader.close()

    run(main)


def test_the_wrong_password_opens_nothing_and_changes_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open(password=b"right")
            await log.append(b"0")
            with pytest.raises(UnauthorizedError):
                await cluster.new_client().open(password=b"wrong")
            assert (await log.append(b"1")).position.segment == 1
            await log.close()
            with pytest.raises(UnauthorizedError):
                await cluster.new_client().read()
            records = await cluster.new_client().read(password=b"right")
            assert [each.payload for each in records] == [b"0", b"1"]

    run(main)


def test_the_wrong_password_adds_nothing_to_a_log_that_was_closed() -> None:
    """A log whose ledgers have different passwords could be read by nobody."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open(password=b"right") as log:
                await log.append(b"0")
            before = await client.manifest()
            with pytest.raises(UnauthorizedError):
                await client.open(password=b"wrong")
            with pytest.raises(UnauthorizedError):
                await ingest_one(client, b"1", b"wrong")
            assert await client.manifest() == before
            await ingest_one(client, b"1", b"right")
            records = await client.read(password=b"right")
            assert [each.payload for each in records] == [b"0", b"1"]
            assert len(await cluster.ledgers()) == 2

    run(main)


async def ingest_one(client: Client, record: bytes, password: bytes) -> None:
    """Have the log ingest a ledger with one record, both by the same password."""
    ingest = client.logs.ingest(NAME)
    part = await ingest.create_part("job", LogOptions(password=password))
    entry = encode_batch([record], first_offset=0, epoch=UNPLACED.epoch, timestamp_ms=0)
    await part.append(entry)
    await part.close()
    await ingest.ingest([part.ledger], Job("job", 0), remember=True, password=password)


def test_a_ledger_that_is_gone_is_an_error_and_not_an_empty_segment() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            old = await cluster.new_client().open()
            await old.append(b"0")
            old.abandon()
            await cluster.catalog.delete((await cluster.check()).segments[0].ledger)
            with pytest.raises(NoSuchLedgerError):
                await cluster.new_client().open()

    run(main)
