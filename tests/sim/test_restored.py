"""The world in which a metadata store is an older copy of itself, and its checkers."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest.mock import patch

import pytest

from quire.entry import DigestKind
from quire.errors import NoSuchNodeError
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.metastore import versions
from quire.metastore.layout import ledger_path
from quire.metastore.store import Versioned
from quire.testing.sim.loop import SimLoop, new_loop
from quire.testing.sim.policy import Policy
from tests.sim.faults import draw_mix
from tests.sim.history import Violation
from tests.sim.restored_workload import RestoredWorkload
from tests.sim.run import run_seed
from tests.sim.store import Snapshot, WatchedTree
from tests.sim.world import SimWorld
from tests.support.virtual import virtually

RECORD = LedgerMetadata(
    7, Replication(), DigestKind.CRC32C, "k", (Fragment(0, ("b0", "b1", "b2")),), token="first"
)


def test_a_tree_that_is_put_back_has_the_records_of_then_and_no_session() -> None:
    async def main() -> None:
        tree = WatchedTree()
        session = tree.open_session(10.0)
        first = tree.create("/a/kept", b"1")
        tree.create("/a/live", b"", session)
        backup = tree.snapshot()
        undone = tree.put("/a/kept", b"2", first)
        tree.create("/b/later", b"")
        told: list[str] = []
        tree.listeners.append(lambda path, value, version: told.append(path))
        tree.put_back(backup, {})
        assert tree.get("/a/kept") == Versioned(b"1", first), "it is the record of the copy"
        again = tree.put("/a/kept", b"3", first)
        assert again > first
        assert again != undone, "as many edits, at another time"
        assert tree.children("/") == ["a"]
        assert tree.children("/a") == ["kept"]
        assert not tree.is_alive(session)
        assert told == ["/a/kept"]
        with pytest.raises(NoSuchNodeError):
            tree.get("/b/later")

    virtually(main)


def workload(loop: SimLoop) -> RestoredWorkload:
    world = SimWorld(loop, "restored", draw_mix(random.Random(0)), 3)
    found = RestoredWorkload(world, random.Random(0), Replication())
    world.tree.listeners.append(found._changed)
    return found


def test_an_id_that_is_given_to_a_second_ledger_is_seen() -> None:
    loop = new_loop(random.Random(0), Policy.INTERLEAVE)

    async def main() -> None:
        world = workload(loop).world
        world.tree.create(ledger_path(7), RECORD.encode())
        world.tree.put_back(Snapshot({}, {}, 0), {})
        world.metadata_watch.put_back([])
        world.tree.create(ledger_path(7), replace(RECORD, token="second").encode())

    with pytest.raises(Violation, match="I1 an id means one ledger"):
        loop.run_until_complete(main())
    loop.dispose()


def test_what_was_acknowledged_is_promised_beyond_the_disaster() -> None:
    loop = new_loop(random.Random(0), Policy.INTERLEAVE)

    async def main() -> None:
        world = workload(loop).world
        version = world.tree.create(ledger_path(7), RECORD.encode())
        world.tree.put_back(world.tree.snapshot(), {})
        world.metadata_watch.put_back([RECORD])
        world.metadata_watch.confirm(7, 3)
        world.tree.put(ledger_path(7), RECORD.closed(2, 0).encode(), version)

    with pytest.raises(Violation, match="L1 no acknowledged entry is cut off"):
        loop.run_until_complete(main())
    loop.dispose()


def test_a_version_that_comes_again_is_seen() -> None:
    """Without the time of the change in it, the version of another value has the same number."""
    loop = new_loop(random.Random(0), Policy.INTERLEAVE)

    async def main() -> None:
        tree = workload(loop).world.tree
        version = tree.create("/a", b"1")
        copy = tree.snapshot()
        tree.put("/a", b"2", version)
        tree.put_back(copy, {"/a": b"3"})
        with patch.object(
            versions, "join_version", lambda created, edits, _: created << 32 | edits
        ):
            version = tree.put("/b", b"", tree.create("/b", b""))
            copy = tree.snapshot()
            tree.put("/b", b"1", version)
            tree.put_back(copy, {})
            tree.put("/b", b"2", version)

    with pytest.raises(Violation, match="T2 a version means one value"):
        loop.run_until_complete(main())
    loop.dispose()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_store_is_put_back(seed: int) -> None:
    result = run_seed(seed, "restored")
    assert result.error is None
    assert result.counters["store put back"] + result.counters["counter lost"] == 1
