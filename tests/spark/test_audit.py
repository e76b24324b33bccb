"""Audits of logs that change meanwhile, or are out of reach: no damage. Without a Spark session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

import quire.cli.spark
import quire.sync
from quire.cli.root import main
from quire.errors import LogReplacedError, NoSuchLogError, UnauthorizedError, UnreadableError
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.reading.bounds import Bounds
from quire.log.reading.span import Slice, Span
from quire.log.records.position import Position
from quire.spark.jobs import LogAudit, audit_logs
from quire.spark.jobs.surviving import surviving_spans
from quire.spark.options import ReadOptions
from quire.sync import SyncClient
from tests.spark.plain_session import PlainContext, PlainItems, PlainSession
from tests.spark.segments import append_in_segments, edit, overwrite


def write(cluster: str, log: str) -> None:
    """Three segments of 20 entries."""
    append_in_segments(cluster, log, [[b"%d" % number] for number in range(60)], entries=20)


def trim(cluster: str, log: str) -> None:
    with quire.sync.connect(cluster) as client:
        client.trim_log(log, 25)


def left(cluster: str, log: str) -> list[tuple[int, int | None]]:
    with quire.sync.connect(cluster) as client:
        segments = client._logs.describe(log).segments
    assert [each.number for each in segments] == [2, 3]
    return [(each.number, each.records) for each in segments]


def counted(found: LogAudit) -> list[tuple[int, int]]:
    return [(each.number, each.records) for each in found.segments]


class OvertakenContext(PlainContext):
    """Something happens to the log when the workers of a job begin."""

    def __init__(self, overtake: Callable[[], object]) -> None:
        self._overtake = overtake

    def parallelize(self, items: Sequence[Any], pieces: int) -> PlainItems:
        self._overtake()
        return super().parallelize(items, pieces)


def audit(cluster: str, log: str, overtake: Callable[[], object]) -> LogAudit:
    session: Any = PlainSession()
    session.sparkContext = OvertakenContext(overtake)
    (found,) = audit_logs(session, ReadOptions(cluster, (log,)))
    return found


def test_what_was_trimmed_before_it_was_read_is_no_damage(cluster: str) -> None:
    write(cluster, "audit-trim")
    found = audit(cluster, "audit-trim", lambda: trim(cluster, "audit-trim"))
    assert (found.all_problems, found.all_unread) == ((), ())
    assert counted(found) == left(cluster, "audit-trim")


def test_what_was_trimmed_before_its_ledger_was_looked_at_is_no_damage(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot_log(self: SyncClient, name: str, **options: Any) -> list[Span]:
        spans = snapshot(self, name, **options)
        trim(cluster, name)
        return spans

    write(cluster, "audit-race")
    snapshot = SyncClient.snapshot_log
    monkeypatch.setattr(SyncClient, "snapshot_log", snapshot_log)
    found = audit(cluster, "audit-race", lambda: None)
    assert (found.all_problems, found.all_unread) == ((), ())
    assert counted(found) == left(cluster, "audit-race")


def test_a_log_that_was_replaced_is_not_called_damaged(cluster: str) -> None:
    def recreate() -> None:
        with quire.sync.connect(cluster) as client:
            client.delete_log("audit-anew")
        write(cluster, "audit-anew")

    write(cluster, "audit-anew")
    with pytest.raises(LogReplacedError):
        audit(cluster, "audit-anew", recreate)


def test_what_cannot_be_read_now_is_not_called_damaged(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_span(self: SyncClient, span: Span, **options: Any) -> Iterator[Slice]:
        if span.segment == 2:
            raise UnreadableError(span.ledger, 3, "by order of the test")
        return read(self, span, **options)

    @contextlib.contextmanager
    def plain(name: str, master: str) -> Iterator[PlainSession]:
        yield PlainSession()

    write(cluster, "audit-away")
    read = SyncClient.read_span
    monkeypatch.setattr(SyncClient, "read_span", read_span)
    monkeypatch.setattr(quire.cli.spark, "_session", plain)
    given = ["--store", cluster, "--json", "spark", "audit", "audit-away"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 4, done.output
    (line,) = done.stderr.splitlines()
    assert "cannot be read now: by order of the test" in line
    assert "corrupt" not in line
    told = json.loads(done.stdout)
    assert [len(each["unread"]) for each in told["segments"]] == [0, 1, 0]
    assert [each["problems"] for each in told["segments"]] == [[], [], []]
    assert [each["records"] > 0 for each in told["segments"]] == [True, False, True]


def open_and_lost(cluster: str, log: str) -> int:
    """Three segments; the last one is still open, and its ledger is gone. Return the ledger."""
    write(cluster, log)

    def reopen(manifest: LogManifest) -> LogManifest:
        *others, last = manifest.rows
        return replace(manifest, rows=(*others, replace(last, end=None)))

    edit(cluster, log, reopen)
    with quire.sync.connect(cluster) as client:
        ledger = client._logs.describe(log).segments[-1].ledger
        client.delete_ledger(ledger)
    return ledger


def test_an_audit_goes_on_after_a_segment_that_cannot_be_looked_at(cluster: str) -> None:
    ledger = open_and_lost(cluster, "audit-lost")
    found = audit(cluster, "audit-lost", lambda: None)
    assert counted(found) == [(1, 20), (2, 20), (3, 0)]
    (problem,) = found.all_problems
    assert problem.startswith(f"segment 3: ledger {ledger} does not exist")


def test_an_audit_goes_on_after_a_log_without_a_manifest_that_can_be_read(cluster: str) -> None:
    for log in ("audit-many-1", "audit-many-2", "audit-many-3"):
        write(cluster, log)
    overwrite(cluster, "audit-many-2", damaged)
    session: Any = PlainSession()
    found = audit_logs(session, ReadOptions(cluster, ("audit-many-*",)))
    overwrite(cluster, "audit-many-2", damaged)  # so that it can be deleted
    assert [(each.log, each.records) for each in found] == [
        ("audit-many-1", 60), ("audit-many-2", 0), ("audit-many-3", 60)
    ]  # fmt: skip
    assert [bool(each.all_problems) for each in found] == [False, True, False]
    assert "audit-many-2 is corrupt" in found[1].all_problems[0]


def damaged(data: bytes) -> bytes:
    """The last bit of a record is wrong; twice, and it is right."""
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_log_that_was_deleted_meanwhile_is_missed_where_it_was_named(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster, "audit-left")
    names = [*quire_logs(cluster), "audit-left-gone"]
    monkeypatch.setattr(SyncClient, "list_logs", lambda self: names)
    session: Any = PlainSession()
    (found,) = audit_logs(session, ReadOptions(cluster, ("audit-left*",)))
    assert found.log == "audit-left"
    with pytest.raises(NoSuchLogError):
        audit_logs(session, ReadOptions(cluster, ("audit-left-gone",)))


def quire_logs(cluster: str) -> list[str]:
    with quire.sync.connect(cluster) as client:
        return client.list_logs()


@pytest.mark.parametrize("bad", [{1}, {4}, {8}, {1, 4, 5, 8}, set(range(1, 9))])
def test_segments_that_fail_are_found_in_few_looks(bad: set[int]) -> None:
    segments = tuple(
        Segment(n, 10 + n, 1, 0, 10 * n, None if n > 7 else SegmentEnd(9, 10, 10 * n + 10, 99, 0))
        for n in range(1, 9)
    )
    manifest = LogManifest("orders", "id", 0, rows=segments, next_segment=9, epoch=1)
    looks: list[Bounds] = []

    def take(bounds: Bounds) -> list[Any]:
        looks.append(bounds)
        inside = [n for n in range(1, 9) if bounds.first < Position(n, 0, 1) <= bounds.end]
        if bad & set(inside):
            raise UnreadableError(min(bad & set(inside)), 0, "by order of the test")
        return inside

    found: tuple[list[Any], Any] = surviving_spans(manifest, take)
    spans, errors = found
    assert spans == [n for n in range(1, 9) if n not in bad]
    assert set(errors) == bad
    assert len(looks) <= 4 + 6 * len(bad - {1, 8}), "halves, not one by one"


def test_an_error_that_is_not_a_segments_ends_the_look() -> None:
    def take(bounds: Bounds) -> list[Any]:
        raise UnauthorizedError(7)

    with pytest.raises(UnauthorizedError):
        surviving_spans(LogManifest("orders", "id", 0), take)
