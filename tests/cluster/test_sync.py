"""The blocking API on real processes: a service, chosen entry ids, sweeping."""

from __future__ import annotations

import threading

import pytest

import quire.sync
from quire.errors import DuplicateEntryError, LeadershipLostError
from quire.service import Applied, Role
from quire.sync import SyncNumberedWriter
from tests.support.command import RunningCluster


class Counter:
    """Adds up what it is told."""

    def __init__(self) -> None:
        self.total = 0
        self.thread = ""

    def apply(self, command: bytes, at: Applied) -> int:
        self.thread = threading.current_thread().name
        self.total += int(command)
        return self.total

    def snapshot(self) -> bytes:
        return b"%d" % self.total

    def restore(self, state: bytes) -> None:
        self.total = int(state)


def test_a_service_runs_without_asyncio(cluster: RunningCluster) -> None:
    with quire.sync.connect(cluster.store) as client:
        states = Counter(), Counter()
        with client.service("sums", states[0], "one") as first:
            first.wait_role(Role.LEADS)
            with client.service("sums", states[1], "two") as second:
                assert [first.submit(b"5"), first.submit(b"2")] == [5, 7]
                with pytest.raises(LeadershipLostError):
                    second.submit(b"1")
                leader = second.leader()
                assert leader is not None
                assert leader.candidate == "one"
                first.hand_over("two")
                second.wait_role(Role.LEADS)
                second.barrier()
                assert second.submit(b"1") == 8
                assert (second.epoch or 0) > 1
                assert states[1].thread != threading.current_thread().name
        assert first.role is Role.ENDED


def test_entries_are_numbered_by_their_caller(cluster: RunningCluster) -> None:
    with quire.sync.connect(cluster.store) as client:
        with SyncNumberedWriter(client.create_ledger()) as writer:
            late = writer.submit(1, b"one")
            assert writer.expected == 0
            assert writer.append(0, b"zero") == 0
            assert late.result(timeout=30) == 1
            with pytest.raises(DuplicateEntryError):
                writer.append(1, b"again")
        with client.open_ledger(writer.ledger) as reader:
            assert [each.payload for each in reader.read()] == [b"zero", b"one"]


def test_what_no_log_lists_is_swept(cluster: RunningCluster) -> None:
    with quire.sync.connect(cluster.store) as client:
        with client.open_log("swept") as log:
            log.append(b"x")
            log_id = log.log_id
        labels = {"log": "swept", "log_id": log_id, "epoch": "0", "segment": "1"}
        orphan = client.create_ledger(custom=labels)
        orphan.close()
        assert orphan.ledger in client.logs.sweep()
        assert orphan.ledger not in client.list_ledgers()
