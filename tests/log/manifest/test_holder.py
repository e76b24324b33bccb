"""Which process leads a log: written at the takeover, and shown for that epoch only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.errors import CorruptRecordError, StoreUnavailableError
from quire.log.manifest.holder import Holder, Process
from quire.log.manifest.info import LogLeader, info_of
from quire.log.manifest.manifest import LogManifest
from quire.metastore.cluster import Cluster, Level
from quire.metastore.layout import CLUSTER
from quire.metastore.levels import HOLDER_LEVEL
from quire.metastore.record import decode_record, encode_record
from tests.golden.metadata import HELD_LOG
from tests.support.log_cluster import LogCluster, run

THIS = Process("host1", 4711)
PATH = "/quire/logs/orders"


def test_a_holder_is_kept_in_the_record() -> None:
    assert LogManifest.decode(PATH, HELD_LOG.encode()) == HELD_LOG
    assert info_of(HELD_LOG).leader == LogLeader("host1", 4711, 1_700_000_000_000)


def test_a_manifest_without_a_holder_names_no_leader() -> None:
    assert info_of(replace(HELD_LOG, holder=None)).leader is None


def test_a_holder_of_an_older_epoch_is_not_the_leader() -> None:
    """A program that does not know the field keeps the row of the epoch before."""
    later = HELD_LOG.take_over({}, 7, 0)
    assert later.holder == HELD_LOG.holder
    assert info_of(later).leader is None


@pytest.mark.parametrize(
    "row", [[4, "host1", 4711], ["4", "host1", 4711, 0], [4, 1, 4711, 0], "host1"]
)
def test_a_damaged_holder_is_found(row: object) -> None:
    version, body = decode_record(PATH, "log", HELD_LOG.encode())
    damaged = encode_record("log", version, {**body, "holder": row})
    with pytest.raises(CorruptRecordError, match="holder"):
        LogManifest.decode(PATH, damaged)


def test_a_takeover_names_its_process_and_a_roll_keeps_it() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await cluster.store.create(CLUSTER, Cluster("c", level=HOLDER_LEVEL).encode())
            client = cluster.new_client()
            client.logs._process = THIS
            log = await client.open()
            await log.append(b"a")
            held = Holder(1, "host1", 4711, 1_000_000)
            assert (await client.manifest()).holder == held
            await log.roll()
            assert (await client.manifest()).holder == held
            await log.close()

    run(main)


@pytest.mark.parametrize(("level", "is_named"), [(1, False), (HOLDER_LEVEL, True)])
def test_a_process_is_named_once_all_programs_know_the_field(level: int, is_named: bool) -> None:
    """A program of level 1 refuses a manifest with a field that it does not know."""

    async def main() -> None:
        async with LogCluster() as cluster:
            await cluster.store.create(CLUSTER, Cluster("c", level=level).encode())
            client = cluster.new_client()
            client.logs._process = THIS
            log = await client.open()
            assert ((await client.manifest()).holder is not None) is is_named
            _, body = decode_record(PATH, "log", (await client.manifest()).encode())
            assert ("holder" in body) is is_named
            await log.close()

    run(main)


class FailsOnce(Level):
    """A level whose first reading fails."""

    has_failed = False

    async def allows(self, level: int) -> bool:
        if not self.has_failed:
            self.has_failed = True
            raise StoreUnavailableError("faulty:", "refused by order of the test")
        return await super().allows(level)


def test_a_takeover_that_cannot_read_the_level_begins_again_and_leaves_no_ledger() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await cluster.store.create(CLUSTER, Cluster("c", level=HOLDER_LEVEL).encode())
            client = cluster.new_client()
            client.logs._process = THIS
            client.logs._level = level = FailsOnce(client.store)
            log = await client.open()
            assert level.has_failed
            manifest = await cluster.check_all_listed()
            assert info_of(manifest).leader == LogLeader("host1", 4711, 1_000_000)
            await log.close()

    run(main)
