"""The writer's compare-and-set loop under contention and with lost answers."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from quire.entry import DigestKind
from quire.errors import (
    CorruptRecordError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.metastore.layout import ledger_path
from quire.metastore.memory import MemoryStore
from tests.support.faulty_store import FaultyStore
from tests.support.virtual import virtually
from tests.support.writing import fail_next

PATH = ledger_path(1)
UNKNOWN = StoreOutcomeUnknownError(PATH, "by order of the test")
AWAY = StoreUnavailableError("memory:", "by order of the test")
FIRST = Fragment(0, ("a", "b"))


async def opened() -> tuple[FaultyStore, LedgerRecord]:
    store = FaultyStore(MemoryStore())
    metadata = LedgerMetadata(1, Replication(2, 2, 1), DigestKind.NONE, "", (FIRST,))
    records = StoredRecords(store, random.Random(0))
    return store, LedgerRecord(records, metadata, await store.create(PATH, metadata.encode()))


async def read(store: FaultyStore) -> tuple[LedgerMetadata, int]:
    record = await store.inner.get(PATH)
    return LedgerMetadata.decode(PATH, record.value), record.version


@pytest.mark.parametrize("seed", range(10))
def test_every_edit_survives_the_others(seed: int) -> None:
    """A re-replicator edits finished fragments while the writer begins new ones, both in loops."""

    async def main() -> None:
        rng = random.Random(seed)
        store, record = await opened()

        async def jitter(method: str, path: str) -> None:
            await asyncio.sleep(rng.choice((0.0, 0.001, 0.003)))

        store.before = store.after = jitter
        await record.begin_fragment(Fragment(1, ("a", "b")))

        async def write() -> None:
            for number in range(2, 30):
                await record.begin_fragment(Fragment(number, (f"w{number}", "b")))

        async def repair() -> None:
            done = 0
            while done < 30:
                current, version = await read(store)
                changed = current.with_replica(0, 0, f"r{done}")
                with suppress(VersionConflictError):
                    await store.inner.put(PATH, changed.encode(), version)
                    done += 1
                await asyncio.sleep(0.004)

        await asyncio.gather(write(), repair())
        await record.close(40, 40, 5.0)
        final, _ = await read(store)
        assert record.metadata == final
        assert final.fragments[0].bookies == ("r29", "b")
        assert [fragment.bookies[0] for fragment in final.fragments[2:]] == [
            f"w{number}" for number in range(2, 30)
        ]
        assert final.last_entry == 40

    virtually(main, seed)


def test_a_lost_request_that_arrives_late_changes_nothing_any_more() -> None:
    async def main() -> None:
        store, record = await opened()
        late: list[asyncio.Task[int]] = []

        async def lose(method: str, path: str) -> None:
            if method == "put" and not late:
                lost = record.metadata.with_fragment(Fragment(5, ("c", "b"))).encode()
                version = (await read(store))[1]

                async def arrive() -> int:
                    await asyncio.sleep(2)
                    return await store.inner.put(PATH, lost, version)

                late.append(asyncio.ensure_future(arrive()))
                raise UNKNOWN

        store.before = lose
        await record.begin_fragment(Fragment(5, ("c", "b")))
        await record.begin_fragment(Fragment(9, ("c", "d")))
        with pytest.raises(VersionConflictError):
            await late[0]
        assert (await read(store))[0].last_fragment == Fragment(9, ("c", "d"))

    virtually(main)


def test_a_change_that_provably_did_not_happen_is_the_callers_to_repeat() -> None:
    async def main() -> None:
        store, record = await opened()
        store.before = fail_next(1, AWAY)
        with pytest.raises(StoreUnavailableError):
            await record.begin_fragment(Fragment(5, ("c", "b")))
        assert record.metadata.last_fragment == FIRST
        await record.begin_fragment(Fragment(7, ("d", "b")))
        assert record.metadata.last_fragment == Fragment(7, ("d", "b"))

    virtually(main)


def test_while_an_outcome_is_unknown_nothing_else_is_tried() -> None:
    async def main() -> None:
        store, record = await opened()
        store.after = fail_next(1, UNKNOWN)
        doing = asyncio.ensure_future(record.begin_fragment(Fragment(5, ("c", "b"))))
        await asyncio.sleep(0.01)

        async def refuse(method: str, path: str) -> None:
            raise AWAY

        store.before = refuse
        await asyncio.sleep(60)
        assert not doing.done()
        assert record.metadata.last_fragment == FIRST
        store.before = fail_next(0, AWAY)
        await doing
        assert record.metadata.last_fragment == Fragment(5, ("c", "b"))

    virtually(main)


def test_a_corrupt_record_is_never_written_over() -> None:
    async def main() -> None:
        store, record = await opened()
        _, version = await read(store)
        await store.inner.put(PATH, b"garbage", version)
        with pytest.raises(CorruptRecordError):
            await record.begin_fragment(Fragment(5, ("c", "b")))
        with pytest.raises(CorruptRecordError):
            await record.close(1, 1, 5.0)
        assert (await store.inner.get(PATH)).value == b"garbage"

    virtually(main)
