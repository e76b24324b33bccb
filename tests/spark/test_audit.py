"""Audits of logs that change meanwhile, or are out of reach: no damage. Without a Spark session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from click.testing import CliRunner

import quire.cli.spark
import quire.sync
from quire.cli.root import main
from quire.errors import LogReplacedError, UnreadableError
from quire.log.reading.span import Slice, Span
from quire.spark.jobs import LogAudit, audit_logs
from quire.spark.options import ReadOptions
from quire.sync import SyncClient
from tests.spark.plain_session import PlainContext, PlainItems, PlainSession
from tests.spark.segments import append_in_segments


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
    def replace() -> None:
        with quire.sync.connect(cluster) as client:
            client.delete_log("audit-anew")
        write(cluster, "audit-anew")

    write(cluster, "audit-anew")
    with pytest.raises(LogReplacedError):
        audit(cluster, "audit-anew", replace)


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
