"""Backup, restore, adoption: in any interleaving an id never means two ledgers."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    InvalidRequestError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    StoreWentBackError,
)
from quire.ledger.ids import LedgerIds, decode_counter
from quire.log.leader.log import Log
from quire.log.manifest.manifest import LogManifest
from quire.metadata.adopt import MARGIN, adopt
from quire.metadata.backup import back_up
from quire.metadata.restore import MARKER, restore
from quire.metastore.changes import Change, Create
from quire.metastore.cluster import Cluster, read_cluster
from quire.metastore.layout import (
    BOOKIES,
    CLUSTER,
    LEDGER_IDS,
    LEDGERS,
    RIGHTS,
    cookie_path,
    cursor_path,
    election_candidate_prefix,
    election_candidates_path,
    election_epoch_path,
    ledger_path,
    log_path,
    service_path,
)
from quire.metastore.memory import MemoryStore
from quire.metastore.sqlite import SqliteStore
from quire.metastore.store import MetadataStore
from tests.support.log_cluster import NAME, LogCluster, run


async def filled(store: MemoryStore, records: int = 5) -> None:
    """A cluster with some ledgers, a session and an election."""
    await store.create(CLUSTER, Cluster("c").encode())
    ids = LedgerIds(store, random.Random(1))
    for _ in range(records):
        await store.create(ledger_path(await ids.next()), b"a ledger")
    await store.create("/quire/elections/office/epoch", b"an epoch")
    await store.create("/quire/newer/programs/record", b"unknown here")
    session = await store.open_session(60)
    await session.create(f"{BOOKIES}/b", b"up")
    await session.create_sequential("/quire/elections/office/candidates/c-", b"stands")


def test_a_store_comes_back_but_for_sessions_and_trust(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = MemoryStore(), MemoryStore()
        await filled(old)
        made = await back_up(old, tmp_path / "backup", 1)
        assert await restore(new, tmp_path / "backup") == made
        for ledger in range(5):
            assert (await new.get(ledger_path(ledger))).value == b"a ledger"
        assert (await new.get("/quire/newer/programs/record")).value == b"unknown here"
        assert (await new.get("/quire/elections/office/epoch")).value == b"an epoch"
        assert await new.children("/quire/elections/office/candidates") == []
        assert await new.children(BOOKIES) == []
        with pytest.raises(NoSuchNodeError):
            await new.get(MARKER)
        found = await read_cluster(new)
        assert found == Cluster("c", found.incarnation, False, counted=True)
        assert found.incarnation > 0
        with pytest.raises(StoreWentBackError):
            await LedgerIds(new, random.Random(2)).next()
        with pytest.raises(StoreWentBackError):
            await back_up(new, tmp_path / "again", 2)

    asyncio.run(main())


def test_what_users_call_candidates_is_saved(tmp_path: Path) -> None:
    """Only the queue of an election has sessions."""

    async def main() -> None:
        old, new = MemoryStore(), MemoryStore()
        await filled(old)
        name = "candidates"
        kept = [log_path(name), cursor_path(name, name), service_path(name), cookie_path(name)]
        kept.append(election_epoch_path(name))
        for path in kept:
            await old.create(path, b"kept")
        session = await old.open_session(60)
        await session.create_sequential(election_candidate_prefix(name), b"stands")
        await back_up(old, tmp_path / "backup", 1)
        await restore(new, tmp_path / "backup")
        for path in kept:
            assert (await new.get(path)).value == b"kept"
        for election in ("office", name):
            assert await new.children(election_candidates_path(election)) == []

    asyncio.run(main())


class Deleting(MemoryStore):
    """A ledger and a cursor are deleted as soon as they were listed."""

    gone = (ledger_path(3), cursor_path("a log", "a cursor"))

    async def children(self, path: str) -> list[str]:
        names = await super().children(path)
        for each in self.gone:
            if each.rpartition("/")[0] == path and each.rpartition("/")[2] in names:
                await self.delete(each)
        return names


def test_a_record_that_is_deleted_meanwhile_does_not_come_back_empty(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = Deleting(), MemoryStore()
        await filled(old)
        await old.create(Deleting.gone[1], b"a cursor")
        await back_up(old, tmp_path / "backup", 1)
        await restore(new, tmp_path / "backup")
        for path in Deleting.gone:
            with pytest.raises(NoSuchNodeError):
                await new.get(path)
        assert (await new.get(ledger_path(4))).value == b"a ledger"

    asyncio.run(main())


def test_a_shard_that_a_crash_left_empty_ends_no_backup(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = MemoryStore(), MemoryStore()
        await filled(old, 1)
        await old.delete(ledger_path(0))
        await back_up(old, tmp_path / "backup", 1)
        await restore(new, tmp_path / "backup")
        assert await new.children(LEDGERS) == []
        await adopt(new)

    asyncio.run(main())


@pytest.mark.parametrize("noted", [True, False])
def test_a_restored_table_of_rights_is_noted(tmp_path: Path, noted: bool) -> None:
    """Also a table that was saved before the cluster's record had such a note."""

    async def main() -> None:
        old, new = MemoryStore(), MemoryStore()
        await filled(old)
        record = await old.get(CLUSTER)
        before = Cluster.decode(record.value)
        await old.put(CLUSTER, replace(before, ruled=noted).encode(), record.version)
        await old.create(RIGHTS, b"a table")
        await back_up(old, tmp_path / "backup", 1)
        await restore(new, tmp_path / "backup")
        await adopt(new)
        assert (await read_cluster(new)).ruled

    asyncio.run(main())


def test_an_adopted_store_gives_out_ids_far_above(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = MemoryStore(), MemoryStore()
        await filled(old)
        await back_up(old, tmp_path / "backup", 1)
        following = decode_counter((await old.get(LEDGER_IDS)).value).following
        living = LedgerIds(old, random.Random(3))
        later = [await living.next() for _ in range(100)]  # after the backup
        await restore(new, tmp_path / "backup")
        begun = (await read_cluster(new)).incarnation
        done = await adopt(new)
        assert done.incarnation == begun
        assert done.first_id >= following + MARGIN
        assert await LedgerIds(new, random.Random(2)).next() == done.first_id > max(later)
        assert await read_cluster(new) == Cluster("c", begun, True, counted=True)
        far = 1 << 60
        assert (await adopt(new, at_least=far)).first_id >= far + MARGIN
        assert (await read_cluster(new)).incarnation > begun, "a second adoption is another"

    asyncio.run(main())


def test_a_lost_counter_is_mended_by_adoption() -> None:
    async def main() -> None:
        store = MemoryStore()
        await filled(store)
        await store.delete(LEDGER_IDS)
        with pytest.raises(StoreWentBackError):
            await LedgerIds(store, random.Random(2)).next()
        assert (await adopt(store)).first_id >= 4 + 1 + MARGIN
        await LedgerIds(store, random.Random(2)).next()

    asyncio.run(main())


@pytest.mark.parametrize("at_least", [-1, 2**63 - 1])
def test_an_id_without_room_is_refused(at_least: int) -> None:
    async def main() -> None:
        store = MemoryStore()
        await filled(store)
        with pytest.raises(InvalidRequestError):
            await adopt(store, at_least)

    asyncio.run(main())


def test_only_an_empty_store_is_restored(tmp_path: Path) -> None:
    async def main() -> None:
        old = MemoryStore()
        await filled(old)
        await back_up(old, tmp_path / "backup", 1)
        with pytest.raises(ConfigurationError, match=r"not empty: it has .*cluster"):
            await restore(old, tmp_path / "backup")

    asyncio.run(main())


class CutError(StoreOutcomeUnknownError):
    """The operator's machine loses power."""


class Cuttable(MemoryStore):
    changes_left = 0

    async def create(self, path: str, value: bytes) -> int:
        self._step()
        return await super().create(path, value)

    async def put(self, path: str, value: bytes, version: int) -> int:
        self._step()
        return await super().put(path, value, version)

    async def delete(self, path: str, version: int | None = None) -> None:
        self._step()
        await super().delete(path, version)

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        self._step()
        return await super().commit(changes)

    def _step(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise CutError("memory:", "cut short")


def test_cut_short_anywhere_it_is_repeated_and_nothing_is_believed_before(tmp_path: Path) -> None:
    async def main() -> None:
        old = MemoryStore()
        await filled(old)
        await back_up(old, tmp_path / "backup", 1)
        other = MemoryStore()
        await filled(other, 3)
        await back_up(other, tmp_path / "other", 2)
        steps = 0
        while True:
            new = Cuttable()
            new.changes_left = steps
            try:
                await restore(new, tmp_path / "backup")
                break
            except CutError:
                steps += 1
            new.changes_left = 1000
            if steps > 1:  # something was written
                with pytest.raises(StoreWentBackError):
                    await LedgerIds(new, random.Random(2)).next()
                with pytest.raises(ConfigurationError, match=r"not empty|another backup"):
                    await restore(new, tmp_path / "other")
                # adopted now, the repetition would put old records over newer ones
                with pytest.raises(ConfigurationError, match="restore of a backup was cut short"):
                    await adopt(new)
                await restore(new, tmp_path / "backup")
                await adopt(new)
                assert (await new.get(ledger_path(4))).value == b"a ledger"
        assert steps > 8

    asyncio.run(main())


class Meanwhile(MemoryStore):
    """Something happens to the backup after it was verified, and before it is read."""

    happens: Callable[[], object] = staticmethod(lambda: None)

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        if changes[0].path == MARKER and isinstance(changes[0], Create):
            self.happens()
        return await super().commit(changes)


def test_a_file_that_takes_the_name_of_a_backup_is_not_mixed_into_it(tmp_path: Path) -> None:
    """As by a job that gives the newest backup always the same name."""

    async def main() -> None:
        old, younger, new = MemoryStore(), MemoryStore(), Meanwhile()
        await filled(old)
        await filled(younger, 9)
        made = await back_up(old, tmp_path / "backup", 1)
        await back_up(younger, tmp_path / "younger", 2)
        new.happens = lambda: (tmp_path / "younger").replace(tmp_path / "backup")
        assert await restore(new, tmp_path / "backup") == made
        with pytest.raises(NoSuchNodeError):
            await new.get(ledger_path(5))

    asyncio.run(main())


def test_a_backup_that_is_cut_short_while_it_is_read_is_not_a_whole_one(tmp_path: Path) -> None:
    """As by a copy over the file that is under way, or is broken off at the end of a line."""

    async def main() -> None:
        old, new, backup = MemoryStore(), Meanwhile(), tmp_path / "backup"
        await filled(old, 4000)
        made = await back_up(old, backup, 1)
        whole = backup.read_bytes()
        new.happens = lambda: os.truncate(backup, whole.rindex(b"\n", 0, len(whole) // 2) + 1)
        with pytest.raises(CorruptStorageError, match="changed while it was read"):
            await restore(new, backup)
        with pytest.raises(ConfigurationError, match="cut short"):
            await adopt(new)
        backup.write_bytes(whole)
        assert await restore(new, backup) == made
        assert (await new.get(ledger_path(3999))).value == b"a ledger"

    asyncio.run(main())


def test_every_ledger_that_a_manifest_names_is_in_the_backup(tmp_path: Path) -> None:
    """Though the log rolls and is trimmed while it is saved."""

    async def main() -> None:
        async with LogCluster() as cluster:
            part = cluster.new_client()
            log = await part.open(roll_entries=2)
            for number in range(9):
                await log.append(b"%d" % number)
            walking = asyncio.ensure_future(_rolling(log))
            await cluster.store.create(CLUSTER, Cluster("c").encode())
            await back_up(cluster.store, tmp_path / "backup", 1)
            walking.cancel()
            await asyncio.gather(walking, return_exceptions=True)
            await log.close()
            new = MemoryStore()
            await restore(new, tmp_path / "backup")
            saved = LogManifest.decode(log_path(NAME), (await new.get(log_path(NAME))).value)
            assert saved.segments
            for segment in saved.segments:
                await new.get(ledger_path(segment.ledger))

    async def _rolling(log: Log) -> None:
        while True:
            await log.append(b"more")

    run(main)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_backup_that_is_put_back_again_and_again_gives_no_id_twice(
    tmp_path: Path, kind: str
) -> None:
    """Though no bookie started in between, and nothing is left of the stores between."""

    async def main() -> None:
        old = MemoryStore()
        await filled(old)
        await back_up(old, tmp_path / "backup", 1)
        given = list(range(5))
        incarnations = [0]
        for number in range(20):
            store: MetadataStore = MemoryStore()
            if kind == "sqlite":
                store = await SqliteStore.open_or_create(str(tmp_path / f"store-{number}"))
            await restore(store, tmp_path / "backup")
            done = await adopt(store)
            ids = LedgerIds(store, random.Random(number))
            given += [await ids.next() for _ in range(100)]
            incarnations.append(done.incarnation)
            await store.close()
        assert len(set(given)) == len(given)
        assert len(set(incarnations)) == len(incarnations)

    asyncio.run(main())


def test_an_operation_that_is_repeated_with_the_same_draw_is_the_same(tmp_path: Path) -> None:
    """The simulator repeats a run by its seed."""

    async def once() -> tuple[int, int]:
        new = MemoryStore()
        await restore(new, tmp_path / "backup", rng=random.Random(1))
        return await adopt(new, rng=random.Random(2))

    async def main() -> None:
        old = MemoryStore()
        await filled(old)
        await back_up(old, tmp_path / "backup", 1)
        assert await once() == await once()

    asyncio.run(main())
