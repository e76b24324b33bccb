"""What a leader needs is read before anybody is fenced: who cannot read it deposes nobody."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from quire.errors import ConfigurationError, DecryptionError
from quire.ledger.reader import LedgerReader
from quire.log.leader import accumulator
from quire.log.leader.log import Log
from quire.log.leader.producer_state import Restoration
from quire.log.records.batch import BATCH_BYTES_MAX
from quire.log.records.keyring import Keyring
from quire.log.records.position import LATEST
from quire.log.records.producers import Producers, ProducerSequence
from quire.metastore.layout import LEDGERS
from tests.log.offloading import ingest, offload, write_log
from tests.support.log_cluster import NAME, Client, Gate, LogCluster, run
from tests.support.memory_cluster import down
from tests.support.seeds import seeds

KEYS = {"old": b"o" * 32, "new": b"n" * 32}


def ring(*ids: str) -> Keyring:
    """The last one encrypts."""
    return Keyring({each: KEYS[each] for each in ids}, current=ids[-1])


async def roll_to_another_key(client: Client) -> Log:
    """The last batch is under the old key, the label of the empty tail names the new one."""
    async with await client.open(keyring=ring("old")) as log:
        await log.append(b"a")
    return await client.open(keyring=ring("old", "new"))


async def rotate_within_a_segment(client: Client) -> Log:
    keyring = ring("new", "old")
    log = await client.open(keyring=keyring)
    await log.append(b"a")
    keyring.rotate("new")
    await log.append(b"a")
    return log


async def rotate_behind_the_snapshot(client: Client) -> Log:
    """Label and last batch are under the new key, the snapshot of producers is not."""
    keyring = ring("old", "new")
    log = await client.open(keyring=keyring)
    keyring.rotate("old")
    await log.append(b"a", producer_sequence=ProducerSequence("p", 1))
    keyring.rotate("new")
    await log.append(b"a", producer_sequence=ProducerSequence("p", 2))
    return log


@pytest.mark.parametrize(
    ("write", "has"),
    [
        (roll_to_another_key, "new"),
        (rotate_within_a_segment, "old"),
        (rotate_behind_the_snapshot, "new"),
    ],
)
def test_who_lacks_a_key_that_a_leader_needs_deposes_nobody(
    write: Callable[[Client], Awaitable[Log]], has: str
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader = await write(cluster.new_client())
            epoch = leader.epoch
            await asyncio.sleep(1)  # what it wrote is announced
            for _ in range(3):
                with pytest.raises(DecryptionError, match="has no such key"):
                    await cluster.new_client().open(keyring=ring(has))
            await leader.append(b"b")
            assert leader.epoch == (await cluster.new_client().manifest()).epoch == epoch
            await leader.close()

    run(main)


def test_who_lacks_pyarrow_deposes_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path)
            leader = await client.open()
            for name in [each for each in sys.modules if each.startswith("quire.log.cold.")]:
                monkeypatch.delitem(sys.modules, name)
            import quire.log.cold

            for name in ("reader", "parquet", "tier"):
                monkeypatch.delattr(quire.log.cold, name, raising=False)
            monkeypatch.setitem(sys.modules, "pyarrow", None)
            with pytest.raises(ConfigurationError, match=r"pip install 'quire\[cold\]'"):
                await cluster.new_client().open()
            await leader.append(b"b")
            monkeypatch.undo()
            leader.abandon()
            async with await cluster.new_client().open() as log:
                again = await log.append(b"no", producer_sequence=ProducerSequence("p\u00e9", 60))
            assert again in [(each.position, each.offset) for each in records]

    asyncio.run(main())


def test_a_batch_that_cannot_be_read_just_now_is_waited_for() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            async with await cluster.new_client().open() as log:
                place = await log.append(b"a", producer_sequence=ProducerSequence("p", 1))
            for bookie in cluster.bookies.values():
                bookie.before = down("read")

            async def repair() -> None:
                await asyncio.sleep(3)
                for bookie in cluster.bookies.values():
                    bookie.before = down("nothing")

            repairing = asyncio.create_task(repair())
            async with await cluster.new_client().open() as log:
                assert await log.append(b"a", producer_sequence=ProducerSequence("p", 1)) == place
            await repairing

    run(main)


@pytest.mark.parametrize("meanwhile", ["nothing", "appends", "roll", "take-over", "ingest"])
def test_what_comes_between_the_look_and_the_fence_is_remembered(meanwhile: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=2)
            at = {}

            async def append(first: int) -> None:
                for number in range(first, first + 5):
                    at[number] = await log.append(
                        b"%d" % number, producer_sequence=ProducerSequence("p", number)
                    )

            await append(0)
            await asyncio.sleep(1)
            rival = cluster.new_client()
            gate = Gate("put", LEDGERS)
            rival.store.before = gate
            opening = asyncio.create_task(rival.open())
            await gate.reached.wait()
            if meanwhile != "nothing":
                await append(5)
            if meanwhile == "roll":
                await log.roll()
            elif meanwhile == "take-over":
                log = await cluster.new_client().open()
            elif meanwhile == "ingest":
                await ingest(client.logs.ingest(NAME))
                log = await client.open()
            if meanwhile not in ("nothing", "appends"):
                await append(10)
            gate.open.set()
            leader = await opening
            for number, place in at.items():
                if number >= len(at) - 5:
                    assert (
                        await leader.append(b"no", producer_sequence=ProducerSequence("p", number))
                        == place
                    )
            await leader.close()
            assert b"no" not in await client.payloads()
            log.abandon()

    run(main)


def test_nothing_is_read_behind_a_segment_that_may_still_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=1)
            await log.append(b"0", producer_sequence=ProducerSequence("p", 0))
            too_much = bytes(BATCH_BYTES_MAX)  # from now on no snapshot fits into a batch
            monkeypatch.setattr(Producers, "encode", lambda _: too_much)
            closing = Gate("put", LEDGERS)
            client.store.before = closing
            await log.append(b"1", producer_sequence=ProducerSequence("p", 1))
            rolling = asyncio.create_task(log.roll())
            await closing.reached.wait()
            await log.append(b"2", producer_sequence=ProducerSequence("p", 2))
            await asyncio.sleep(1)
            manifest = await client.manifest()
            first, _ = manifest.open_segments
            whole = LedgerReader.last_confirmed

            async def last_confirmed(self: LedgerReader) -> int:
                return 0 if self.ledger == first.ledger else await whole(self)

            pieces = restoration(client)
            with monkeypatch.context() as patch:  # as if its last entry was not announced yet
                patch.setattr(LedgerReader, "last_confirmed", last_confirmed)
                assert len(known(await pieces.advance(manifest))) == 1
            closing.open.set()
            await rolling
            await log.close()
            assert len(known(await pieces.finish())) == 3

    run(main)


def test_a_log_without_producers_costs_one_batch() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            for _ in range(200):
                await log.append(bytes(100_000))
            await asyncio.sleep(1)
            log.abandon()
            calls: Counter[str] = Counter()

            async def count(method: str, ledger: int) -> None:
                calls[method] += 1

            for bookie in cluster.bookies.values():
                bookie.before = count
            async with await cluster.new_client().open():
                assert calls["read"] < 10

    run(main)


@pytest.mark.parametrize("seed", seeds(12, 2))
def test_what_is_read_in_pieces_is_what_is_read_at_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accumulator, "SNAPSHOT_BYTES", 400)
    rng = random.Random(seed)

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()

            log = await client.open(batch_records=2)
            pieces, numbers, trims = restoration(client), 0, 0
            for _ in range(60):
                choice = rng.random()
                if choice < 0.7:
                    numbers += 1
                    producer_sequence = (
                        ProducerSequence(f"p{rng.randrange(4)}", numbers)
                        if rng.random() < 0.8
                        else None
                    )
                    await log.append(bytes(rng.randrange(60)), producer_sequence=producer_sequence)
                elif choice < 0.75:
                    await log.roll()
                elif choice < 0.8:
                    log.abandon()
                    log = await client.open(batch_records=2)
                elif choice < 0.83:
                    await ingest(client.logs.ingest(NAME))
                    log = await client.open(batch_records=2)
                elif choice < 0.85:
                    await client.logs.trim(NAME, LATEST)
                    trims += 1
                elif choice < 0.9:
                    await asyncio.sleep(0.1)
                else:
                    await pieces.advance(await client.manifest())
            await log.close()
            found, expected = await pieces.finish(), await restoration(client).finish()
            if not trims:
                assert found == expected
            assert known(expected) <= known(found)

    run(main, seed)


def known(producers: Producers) -> set[tuple[str, object]]:
    """Each append that is remembered, and whose."""
    return {(name, numbered) for name, window in producers._windows.items() for numbered in window}


def restoration(client: Client) -> Restoration:
    return Restoration(partial(client.logs.describe, NAME), client.logs._opener(NAME, b""))
