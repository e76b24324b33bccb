"""An event log: a file for each life, lines that survive a kill, an end when writing fails."""

from __future__ import annotations

import json
import logging
import os
from array import array
from pathlib import Path
from typing import Any

import pytest

from quire.entry import NO_ENTRY, DigestKind
from quire.errors import ConfigurationError, NoSuchNodeError
from quire.event_log import (
    BYTES_VARIABLE,
    CUT,
    SUFFIX,
    VARIABLE,
    EventLog,
    observing,
    ranges,
)
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.observed_store import ObservedStore, observed
from quire.ledger.quorum import Replication
from quire.metastore.changes import Create, Delete, Put
from quire.metastore.layout import ledger_path
from quire.metastore.memory import MemoryStore
from quire.observer import SILENT, Observer, Source
from tests.support.log_cluster import run


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_ranges() -> None:
    assert ranges([]) == []
    assert ranges(range(0)) == []
    assert ranges(range(2, 5)) == [(2, 4)]
    assert ranges([3, 4, 5, 7, 9, 10]) == [(3, 5), (7, 7), (9, 10)]
    assert ranges(array("q", [1, 2, 4])) == [(1, 2), (4, 4)]


def test_each_life_has_a_file_of_its_own(tmp_path: Path) -> None:
    logs = [EventLog(tmp_path / "events", "bookie", "b1") for _ in range(3)]
    assert [log.path.name for log in logs] == [f"bookie-b1-{n}.ndjson" for n in (1, 2, 3)]
    for log in logs:
        log.close()
        log.close()
    begun = {"n": 1, "kind": "begins", "format": 1, "process": "bookie-b1", "life": 3}
    assert lines(logs[2].path) == [begun]


def test_a_line_is_in_the_file_before_the_call_returns(tmp_path: Path) -> None:
    log = EventLog(tmp_path, "bookie", "b1")
    log.held(7, range(3), Source.WRITER)
    log.denied(7, 3, 9)
    told = {"n": 2, "kind": "held", "ledger": 7, "ranges": [[0, 2]], "source": "writer"}
    assert lines(log.path)[1:] == [
        told,
        {"n": 3, "kind": "denied", "ledger": 7, "first": 3, "last": 9},
    ]
    log.close()


def test_each_recovery_has_a_token(tmp_path: Path) -> None:
    log = EventLog(tmp_path, "client", "1")
    log.recovering(7).started(4)
    log.recovering(7).closing(4)
    assert [line["token"] for line in lines(log.path)[1:]] == [
        *["client-1-1:1"] * 2,
        *["client-1-1:2"] * 2,
    ]
    log.close()


def test_without_the_variable_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with observing("client", "1") as observer:
        assert observer is SILENT
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with observing("client", "1") as observer:
        observer.fenced(7)
    assert len(lines(tmp_path / "client-1-1.ndjson")) == 2


def test_a_directory_that_takes_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigurationError, match="name a directory"):
        EventLog(file, "client", "1")


def test_a_write_that_fails_ends_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = EventLog(tmp_path, "client", "1")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(os, "write", lambda file, data: len(data) // 2)
        log.fenced(7)
        log.fenced(8)
    log.fenced(9)
    assert len(lines(log.path)) == 1
    assert caplog.text.count("events are not written any more") == 1
    assert (tmp_path / CUT).exists(), "the program went on: its file says too little"


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*" + SUFFIX))


def test_a_directory_is_bounded_and_says_that_it_was_cut(tmp_path: Path) -> None:
    bound, line = 4000, 200
    logs = [EventLog(tmp_path, "bookie", name, bound) for name in ("b1", "b2", "b3")]
    for entry in range(1000):
        logs[entry % 3].denied(7, entry, entry)
        assert size_of(tmp_path) <= bound + len(logs) * (bound // 16 + line)
    assert (tmp_path / CUT).exists()
    newest = [lines(log.path) for log in logs]
    assert all(each[0]["kind"] == "continues" for each in newest)
    assert max(each[-1]["first"] for each in newest) == 999
    for log in logs:
        log.close()


def test_files_of_earlier_lives_count(tmp_path: Path) -> None:
    """A bookie that starts again and again fills no disk."""
    for _ in range(100):
        EventLog(tmp_path, "bookie", "b1", 1000).close()
    assert size_of(tmp_path) <= 1200
    assert (tmp_path / CUT).exists()


def test_a_part_that_cannot_be_begun_ends_the_events_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = EventLog(tmp_path, "client", "1", 1600)
    (tmp_path / "client-1-1.2.ndjson").touch()
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            log.fenced(7)
    assert caplog.text.count("events are not written any more") == 1


@pytest.mark.parametrize("text", ["0", "-1", "1G", "x"])
def test_a_bound_that_is_not_a_number_of_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv(BYTES_VARIABLE, text)
    with (
        pytest.raises(ConfigurationError, match=f"{BYTES_VARIABLE}={text}"),
        observing("client", "1"),
    ):
        pass


def test_the_bound_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv(BYTES_VARIABLE, "1600")
    with observing("client", "1") as observer:
        for _ in range(10):
            observer.fenced(7)
    assert (tmp_path / "client-1-1.2.ndjson").exists()


def open_record(ledger: int) -> LedgerMetadata:
    return LedgerMetadata(
        ledger=ledger,
        replication=Replication(3, 3, 2),
        digest=DigestKind.CRC32C,
        key_check="0" * 16,
        fragments=(Fragment(0, ("b0", "b1", "b2")),),
    )


class _Heard(Observer):
    """Keeps what it is told of records."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def recorded(self, ledger: int, version: int, state: str, *_: Any) -> None:
        self.told.append((ledger, version, state))

    def deleting(self, ledger: int) -> None:
        self.told.append((ledger, "deleting"))

    def deleted(self, ledger: int) -> None:
        self.told.append((ledger, "deleted"))


def test_a_store_tells_of_the_records_of_ledgers_alone() -> None:
    async def main() -> None:
        heard, record = _Heard(), open_record(7)
        store = observed(MemoryStore(), heard)
        version = await store.create(ledger_path(7), record.encode())
        await store.create("/quire/other", b"x")
        await store.get(ledger_path(7))
        closed = record.closed(NO_ENTRY, 0).encode()
        after = await store.put(ledger_path(7), closed, version)
        await store.delete(ledger_path(7))
        with pytest.raises(NoSuchNodeError):
            await store.get(ledger_path(7))
        assert heard.told == [
            *((7, version, "open"), (7, after, "closed")),
            *((7, "deleting"), (7, "deleted"), (7, "deleted")),
        ]
        await store.close()

    run(main)


def test_a_store_tells_of_transactions() -> None:
    async def main() -> None:
        heard = _Heard()
        store = observed(MemoryStore(), heard)
        await store.create("/quire/other", b"")
        paths = [ledger_path(7), ledger_path(8)]
        made = await store.commit([Create(paths[0], open_record(7).encode())])
        await store.commit([Create(paths[1], open_record(8).encode()), Delete(paths[0])])
        with pytest.raises(NoSuchNodeError):
            await store.commit([Delete(paths[0]), Put("/quire/other", b"x", 0)])
        assert heard.told[0] == (7, made[paths[0]], "open")
        assert [each[:2] for each in heard.told[1:3]] == [(7, "deleting"), (7, "deleted")]
        assert heard.told[3][0] == 8
        assert heard.told[4:] == [(7, "deleting"), (7, "deleted")]

    run(main)


def test_a_store_that_nobody_listens_to_is_the_store_itself() -> None:
    store = MemoryStore()
    assert observed(store, SILENT) is store
    assert isinstance(observed(store, Observer()), ObservedStore)
