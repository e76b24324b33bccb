"""The blocking API on real processes: a service, chosen entry ids, sweeping, also by command."""

from __future__ import annotations

import threading

import pytest

import quire.sync
from quire import Position
from quire.errors import DuplicateEntryError, LeadershipLostError
from quire.service import Applied, Role, ServiceOptions
from quire.sync import SyncNumberedWriter, admin
from tests.support.command import RunningCluster
from tests.support.command import quire as quire_command


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
            first.wait_role(Role.LEADER)
            with client.service("sums", states[1], "two") as second:
                assert [first.submit(b"5"), first.submit(b"2")] == [5, 7]
                with pytest.raises(LeadershipLostError):
                    second.submit(b"1")
                leader = second.leader()
                assert leader is not None
                assert leader.candidate == "one"
                first.hand_over("two")
                second.wait_role(Role.LEADER)
                second.barrier()
                assert second.submit(b"1") == 8
                assert (second.epoch or 0) > 1
                assert states[1].thread != threading.current_thread().name
        assert first.role is Role.STOPPED


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


def test_what_no_log_lists_and_no_service_names_is_swept(cluster: RunningCluster) -> None:
    with quire.sync.connect(cluster.store) as client:
        with client.open_log("swept") as log:
            log.append(b"x")
            log_id = log.log_id
        options = ServiceOptions(snapshot_records=2)
        with client.service("swept", Counter(), "one", options=options) as service:
            service.wait_role(Role.LEADER)
            while client.log_info("swept").first_position <= Position(1, 0, 0):  # behind a snapshot
                service.submit(b"1")

        def orphans() -> list[int]:
            of_log = {"log": "swept", "log_id": log_id, "epoch": "0", "segment": "1"}
            of_service = {"service": "swept", "log_id": log_id, "offset": "1"}
            made = [client.create_ledger(custom_metadata=each) for each in (of_log, of_service)]
            for writer in made:
                writer.close()
            return [writer.ledger for writer in made]

        log_ledger, snapshot_ledger = orphans()
        assert {log_ledger, snapshot_ledger} <= set(admin.gc(client).ledgers)
        left = orphans()
        swept = quire_command("log", "gc", "--json", store=cluster.store)
        assert swept.code == 0, swept.err
        assert set(left) <= set(swept.json[0]["deleted"])
        assert not set(left) & set(client.list_ledgers())


def test_what_a_program_left_without_closing_is_visible(cluster: RunningCluster) -> None:
    names = [f"left open {number}" for number in range(20)]
    for name in names:
        with quire.sync.connect(cluster.store) as client:
            client.open_log(name).append(b"acknowledged")
    with quire.sync.connect(cluster.store) as client:
        seen = [[record.payload for record in client.read_log(name)] for name in names]
    assert seen == [[b"acknowledged"]] * 20
