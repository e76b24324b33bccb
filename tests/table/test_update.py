"""A log as an Iceberg table: each record once, whatever dies, trims or runs beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

import quire.sync
from quire.errors import (
    ConfigurationError,
    DecryptionError,
    LogReplacedError,
    TableError,
)
from quire.log.records.keyring import Keyring
from quire.sync import admin
from quire.table import update
from quire.table.iceberg import COLUMNS, LogTable
from quire.testing import MemoryCluster
from tests.table.lake import TABLE, Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
        yield Lake(client, tmp_path)


def test_a_table_has_the_rows_of_a_scan(lake: Lake) -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    with lake.client.open_log("orders") as log:
        for number in range(20):
            headers = {"number": b"%d" % number} if number % 3 else {}
            key = b"k" if number % 2 else None
            log.append(
                quire.NewRecord(b"%d" % number, key=key, headers=headers, event_time=when),
                txid=number,
            )
            if number % 8 == 7:
                lake.update()
    done = lake.update()
    assert (done.first, done.end, done.appended) == (0, 20, 4)
    expected = lake.client.scan_log("orders", columns=COLUMNS).read_all()
    found = lake.rows().sort_by("offset").cast(expected.schema)
    rows = [each | {"headers": each["headers"] or []} for each in expected.to_pylist()]
    assert found.to_pylist() == rows


def test_a_second_run_adds_what_is_new_and_a_third_nothing(lake: Lake) -> None:
    lake.append(0, 10)
    first = lake.update()
    lake.append(10, 5)
    assert lake.update().appended == 5
    again = lake.update()
    assert (again.first, again.end, again.appended) == (0, 15, 0)
    assert sorted(lake.numbers()) == list(range(15))
    old = lake.table.scan(snapshot_id=first.snapshot_id).to_arrow()
    assert len(old) == 10, "time travel"


def test_an_engine_reads_the_table_and_prunes_by_offset_and_time(lake: Lake) -> None:
    for first in range(0, 40, 10):
        lake.append(first, 10)
        lake.update()
    scan = lake.table.scan(row_filter="offset >= 12 and offset < 15")
    assert len(list(scan.plan_files())) == 1
    late = lake.rows()["timestamp"].to_pylist()
    after = lake.table.scan(row_filter=f"timestamp > '{max(late).isoformat()}'")
    assert list(after.plan_files()) == []
    with lake.table.scan().to_duckdb("rows") as connection:
        query = "select count(*), sum(cast(decode(payload) as int)) from rows"
        assert connection.execute(query).fetchall() == [(40, sum(range(40)))]


def test_commits_have_some_size(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "COMMIT_BYTES", 1)
    for first in range(0, 30, 10):
        lake.append(first, 10)
    seen: list[tuple[int, int]] = []
    lake.update(on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(10, 30), (20, 30), (30, 30)]
    assert len(lake.table.snapshots()) == 3
    assert sorted(lake.numbers()) == list(range(30))


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_killed_run_is_continued(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, at: int, is_committed: bool
) -> None:
    monkeypatch.setattr(update, "COMMIT_BYTES", 1)
    for first in range(0, 30, 10):
        lake.append(first, 10)
    commits = iter(range(10))
    real = Table._do_commit

    def commit(self: Table, *args: Any, **kwargs: Any) -> None:
        is_last = next(commits) == at
        if not is_last or is_committed:
            real(self, *args, **kwargs)
        if is_last:
            raise OSError("the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "_do_commit", commit)
        with pytest.raises(TableError, match="the process ends here"):
            lake.update()
    done = lake.update()
    assert done.appended == 30 - 10 * (at + is_committed)
    assert sorted(lake.numbers()) == list(range(30))


def beside(monkeypatch: pytest.MonkeyPatch, method: str, act: Callable[[], object]) -> None:
    """Have something happen once, just before a method of the table does its work."""
    real = getattr(LogTable, method)
    left = [act]

    def wrapped(self: LogTable, *args: Any) -> Any:
        if left:
            left.pop()()
        return real(self, *args)

    monkeypatch.setattr(LogTable, method, wrapped)


def test_of_two_runs_at_once_each_adds_what_the_other_did_not(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lake.append(0, 10)
    lake.append(10, 10)
    others: list[Any] = []

    def other() -> None:
        store = lake.client.store_uri
        with quire.sync.connect(store) as client:
            others.append(Lake(client, tmp_path).update())

    beside(monkeypatch, "append", other)
    mine = lake.update()
    assert (others[0].appended, mine.appended) == (20, 0)
    assert sorted(lake.numbers()) == list(range(20))


def test_a_commit_of_another_program_does_no_harm(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append(0, 10)
    lake.update()
    lake.append(10, 10)

    def other() -> None:
        lake.table.delete("offset = 3")

    beside(monkeypatch, "append", other)
    assert lake.update().appended == 10
    assert sorted(lake.numbers()) == [0, 1, 2, *range(4, 20)]


def test_a_program_that_always_commits_first_ends_a_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append(0, 1)
    monkeypatch.setattr(update, "LOOKS_MAX", 3)

    def fail(self: SqlCatalog, *args: Any) -> None:
        raise CommitFailedException("too late")

    monkeypatch.setattr(SqlCatalog, "commit_table", fail)
    with pytest.raises(TableError, match="committed first 3 times"):
        lake.update()


class LyingCatalog:
    """Makes a commit, and calls it refused: the answer was lost, and the request sent again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lies: int = 1) -> None:
        self.lies = lies
        self.then: Callable[[], object] = lambda: None
        real = SqlCatalog.commit_table

        def commit(catalog: SqlCatalog, *args: Any) -> Any:
            done = real(catalog, *args)
            if not self.lies:
                return done
            self.lies -= 1
            self.then()
            raise CommitFailedException("the table was changed by another process")

        monkeypatch.setattr(SqlCatalog, "commit_table", commit)


def test_a_commit_that_landed_and_is_called_refused_leaves_its_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "COMMIT_BYTES", 1)
    for first in range(0, 30, 10):
        lake.append(first, 10)
    catalog = LyingCatalog(monkeypatch, lies=2)
    assert lake.update().appended == 30
    assert catalog.lies == 0
    assert sorted(lake.numbers()) == list(range(30))
    lake.client.trim_log("orders", 15)
    catalog.lies = 1
    assert lake.update().first == 15
    assert sorted(lake.numbers()) == list(range(15, 30))


@pytest.mark.parametrize("is_run", [False, True])
def test_a_commit_that_landed_is_found_below_another_programs(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_run: bool
) -> None:
    monkeypatch.setattr(update, "COMMIT_BYTES", 1)
    lake.append(0, 10)
    lake.append(10, 10)

    def other() -> None:
        if not is_run:
            lake.table.delete("offset = 3")
            return
        with quire.sync.connect(lake.client.store_uri) as client:
            assert Lake(client, tmp_path).update().appended == 10

    LyingCatalog(monkeypatch).then = other
    assert lake.update().end == 20
    assert sorted(lake.numbers()) == [each for each in range(20) if is_run or each != 3]


def test_trimmed_records_leave_the_table(lake: Lake) -> None:
    for first in range(0, 30, 10):
        lake.append(first, 10)
        lake.update()
    before = lake.table.current_snapshot()
    lake.client.trim_log("orders", 10)
    done = lake.update()
    assert (done.first, done.end, done.appended) == (10, 30, 0)
    assert sorted(lake.numbers()) == list(range(10, 30))
    after = lake.table.current_snapshot()
    assert before is not None
    assert after is not None
    assert after.summary is not None
    assert after.summary["deleted-data-files"] == "1"
    assert "added-data-files" not in after.summary.additional_properties, "a file stays or goes"
    assert len(lake.table.scan(snapshot_id=before.snapshot_id).to_arrow()) == 30


def test_a_trim_inside_a_file_removes_its_rows(lake: Lake) -> None:
    lake.append(0, 20, batch_records=4)
    lake.update()
    lake.client.trim_log("orders", 6)
    assert lake.update().first == 6
    assert sorted(lake.numbers()) == list(range(6, 20))
    lake.append(20, 2)
    assert lake.update().appended == 2


def test_records_that_were_trimmed_before_a_run_never_come(lake: Lake) -> None:
    lake.append(0, 10)
    lake.update()
    lake.append(10, 10)
    lake.append(20, 10)
    lake.client.trim_log("orders", 20)
    assert lake.update().appended == 10
    assert sorted(lake.numbers()) == list(range(20, 30))


def test_a_trim_during_a_run(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(0, 30, 10):
        lake.append(first, 10)
    store = lake.client.store_uri

    def trim() -> None:
        with quire.sync.connect(store) as client:
            client.trim_log("orders", 20)

    beside(monkeypatch, "reach", trim)
    assert lake.update().first == 20
    assert sorted(lake.numbers()) == list(range(20, 30))


def test_a_log_trimmed_by_a_slot_empties_its_table(lake: Lake) -> None:
    """The segment stays open: only its last entry says that the slot is after its records."""
    with lake.client.open_log("orders") as log:
        log.append_many([b"%d" % each for each in range(10)])
        last = log.append(b"10")
        deadline = time.monotonic() + 10
        while lake.client.log_end("orders").offset < 11:
            assert time.monotonic() < deadline
        assert lake.update().appended == 11
        lake.client.trim_log("orders", last.position._replace(slot=1))
        done = lake.update()
        assert (done.first, done.end) == (11, 11)
        assert lake.numbers() == []


def test_a_log_without_records_empties_its_table(lake: Lake) -> None:
    lake.append(0, 10)
    lake.update()
    lake.client.trim_log("orders", 10)
    done = lake.update()
    assert (done.first, done.end) == (10, 10)
    assert lake.numbers() == []
    lake.append(10, 3)
    assert lake.update().appended == 3
    assert sorted(lake.numbers()) == [10, 11, 12]


def test_a_recreated_log_is_refused(lake: Lake) -> None:
    lake.append(0, 10)
    lake.update()
    lake.client.delete_log("orders")
    lake.append(0, 12)
    with pytest.raises(ConfigurationError, match="name another table"):
        lake.update()
    assert len(lake.numbers()) == 10


def test_a_log_that_is_recreated_during_a_run_adds_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append(0, 10)
    store = lake.client.store_uri

    def recreate() -> None:
        with quire.sync.connect(store) as client:
            client.delete_log("orders")
            Lake(client, Path("/nowhere")).append(100, 10)

    beside(monkeypatch, "reach", recreate)
    with pytest.raises(LogReplacedError):
        lake.update()
    assert lake.numbers() == []


def test_a_table_of_others_is_refused(lake: Lake) -> None:
    lake.append(0, 1)
    catalog = load_catalog("lake", **lake.properties)
    catalog.create_namespace("sales")
    catalog.create_table(TABLE, lake.client.scan_log("orders").schema)
    with pytest.raises(ConfigurationError, match="was not made by quire"):
        lake.update()


def test_records_that_the_log_gave_other_places_are_refused(lake: Lake) -> None:
    lake.append(0, 10)
    lake.update()
    lake.table.delete("offset >= 0", snapshot_properties={"quire.end-offset": "50"})
    with pytest.raises(ConfigurationError, match="ends before offset 10"):
        lake.update()
    said = {"quire.end-offset": "5", "quire.last-position": "7.0.4"}
    rows = lake.client.scan_log("orders", 0, 1, columns=COLUMNS).read_all()
    lake.table.append(rows, said)
    with pytest.raises(ConfigurationError, match=r"at 7\.0\.4 in the table"):
        lake.update()


def test_a_table_whose_snapshots_expired_tells_its_end_by_its_files(lake: Lake) -> None:
    lake.append(0, 10)
    lake.update()
    table = lake.table
    table.overwrite(table.scan().to_arrow())  # as a compaction does
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots()[:-1]]
    ).commit()
    lake.append(10, 5)
    assert lake.update().appended == 5
    assert sorted(lake.numbers()) == list(range(15))


def test_an_encrypted_log_needs_its_key(lake: Lake) -> None:
    keyring = Keyring({"k": bytes(32)}, current="k")
    lake.append(0, 10, keyring=keyring)
    with pytest.raises(DecryptionError):
        lake.update()
    assert lake.update(keyring=keyring).appended == 10


def test_offloaded_records_come_as_others_do(lake: Lake, tmp_path: Path) -> None:
    lake.append(0, 10)
    lake.append(10, 10)
    admin.offload(lake.client, "orders", str(tmp_path / "cold"))
    assert lake.update().appended == 20
    assert sorted(lake.numbers()) == list(range(20))


@pytest.mark.parametrize("name", ["orders", ".orders", "sales.", ""])
def test_a_table_has_a_namespace(lake: Lake, name: str) -> None:
    lake.append(0, 1)
    with pytest.raises(ConfigurationError, match="give namespace and name"):
        admin.update_table(lake.client, "orders", name, properties=lake.properties)


def test_a_catalog_that_cannot_be_is_named(lake: Lake) -> None:
    lake.append(0, 1)
    with pytest.raises(ConfigurationError, match="catalog 'nowhere' cannot be opened"):
        admin.update_table(lake.client, "orders", TABLE, catalog="nowhere")
    with pytest.raises(TableError, match="is unavailable"):
        admin.update_table(
            lake.client,
            "orders",
            TABLE,
            properties=lake.properties | {"uri": "sqlite:////nowhere/at/all.db"},
        )
