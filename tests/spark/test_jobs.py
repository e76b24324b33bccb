"""Jobs over whole logs: audit finds what is wrong and nothing else; replay and compact."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import quire.sync
from quire import LATEST, NewRecord, Position
from quire.aio.backoff import Backoff
from quire.errors import (
    BehindError,
    InvalidRequestError,
    NoSuchLogError,
    OvertakenError,
    PositionTrimmedError,
)
from quire.log.manifest.manifest import LogManifest
from quire.log.records.attributes import copy_of
from quire.spark import patience
from quire.spark.jobs import audit_logs, compact_log, copy, replay_log
from quire.spark.jobs.copy import Copied, Place
from quire.spark.options import ReadOptions
from quire.spark.packing import PartitionLimits
from tests.spark.segments import append_in_segments, edit


def append(cluster: str, log: str, records: list[bytes], roll: int = 20) -> None:
    batches = [records[start : start + 3] for start in range(0, len(records), 3)]
    append_in_segments(cluster, log, batches, entries=roll)


def payloads(cluster: str, log: str) -> list[bytes]:
    with quire.sync.connect(cluster) as client:
        return [record.payload for record in client.read_log(log)]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_audit_counts_what_the_reader_counts(spark: SparkSession, cluster: str) -> None:
    append(cluster, "counted-a", numbered(0, 300))
    append(cluster, "counted-b", numbered(0, 90))
    with quire.sync.connect(cluster) as client:
        client.trim_log("counted-a", Position(1, 3, 1))
        expected = [
            (each.number, each.ledger, each.records)
            for each in client._logs.describe("counted-a").segments
        ]
    told: list[tuple[int, int]] = []
    options = ReadOptions(cluster, ("counted-*",), limits=PartitionLimits(200))
    first, second = audit_logs(spark, options, lambda *done: told.append(done))
    assert (first.log, first.all_problems, first.records) == ("counted-a", (), 290)
    assert (second.log, second.all_problems, second.records) == ("counted-b", (), 90)
    found = [(each.number, each.ledger, each.records) for each in first.segments]
    assert found[1:] == expected[1:]
    assert told[-1][0] == told[-1][1] > 8


def test_an_audit_of_nothing_is_an_error(spark: SparkSession, cluster: str) -> None:
    with pytest.raises(NoSuchLogError, match=r"'misspelt-\*' does not exist"):
        audit_logs(spark, ReadOptions(cluster, ("misspelt-*",)))


def test_audit_names_what_is_wrong(spark: SparkSession, cluster: str) -> None:
    append(cluster, "wrong", numbered(0, 300))
    options = ReadOptions(cluster, ("wrong",))

    def damage(manifest: LogManifest) -> LogManifest:
        one, other, *rest = manifest.segments
        assert other.end is not None
        end = other.end._replace(last_timestamp_ms=other.end.last_timestamp_ms + 1)
        return dataclasses.replace(manifest, rows=(one, dataclasses.replace(other, end=end), *rest))

    edit(cluster, "wrong", damage)
    (found,) = audit_logs(spark, options)
    (problem,) = found.all_problems
    assert problem.startswith("segment 2: its last record is of")
    with quire.sync.connect(cluster) as client:
        client.delete_ledger(found.segments[0].ledger)
    (found,) = audit_logs(spark, ReadOptions(cluster, ("wrong",)))
    assert "does not exist" in found.all_problems[0]


def test_replay_goes_on_where_it_stopped(spark: SparkSession, cluster: str) -> None:
    source, target = Place(cluster, "origin"), Place(cluster, "copy")
    append(cluster, "origin", numbered(0, 100))
    assert replay_log(spark, source, target) == Copied(0, 100)
    assert replay_log(spark, source, target) == Copied(100, 100)
    append(cluster, "origin", numbered(100, 130))
    assert replay_log(spark, source, target) == Copied(100, 130)
    assert payloads(cluster, "copy") == numbered(0, 130)
    append(cluster, "origin", numbered(130, 160))
    with quire.sync.connect(cluster) as client:
        client.trim_log("origin", [each.position for each in client.read_log("origin")][140])
    with pytest.raises(PositionTrimmedError, match=r"offset 130 \(option fromOffset\)"):
        replay_log(spark, source, target)
    assert replay_log(spark, source, target, skip_trimmed=True) == Copied(130, 160)
    assert payloads(cluster, "copy") == numbered(0, 130) + numbered(140, 160)


def test_a_replay_does_not_pass_over_what_its_plan_did_not_know(
    spark: SparkSession, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers' bookies may know less of an open segment than those that the driver asked."""
    source, target = Place(cluster, "half-told"), Place(cluster, "half-copied")
    append(cluster, "half-told", numbered(0, 30))
    end = copy._end

    def more(place: Place) -> tuple[str, int]:
        log_id, offset = end(place)
        return log_id, offset + 1

    with monkeypatch.context() as patch:
        patch.setattr(copy, "_end", more)
        patch.setattr(patience, "PATIENCE_SECONDS", 0.0)
        patch.setattr(patience, "BACKOFF", Backoff(0.001, 0.001))
        with pytest.raises(BehindError, match="up to offset 30"):
            replay_log(spark, source, target)
        with pytest.raises(BehindError, match="up to offset 30"):
            compact_log(spark, source, target, "offset")
    append(cluster, "half-told", numbered(30, 31))
    assert replay_log(spark, source, target) == Copied(0, 31)
    assert payloads(cluster, "half-copied") == numbered(0, 31)


def test_a_source_that_was_trimmed_to_its_end_has_nothing_new(
    spark: SparkSession, cluster: str
) -> None:
    source, target = Place(cluster, "shed"), Place(cluster, "kept")
    with quire.sync.connect(cluster) as client, client.open_log("shed") as leader:
        for number in range(5):
            leader.append(b"%d" % number)
        follower = client.read_log("shed", follow=True)
        assert [next(follower).offset for _ in range(5)] == list(range(5))
        follower.close()
        assert replay_log(spark, source, target) == Copied(0, 5)
        client.trim_log("shed", LATEST)
        assert replay_log(spark, source, target) == Copied(5, 5)


def test_what_was_trimmed_before_it_was_replayed_is_missed_also_when_nothing_is_left(
    spark: SparkSession, cluster: str
) -> None:
    source, target = Place(cluster, "emptied"), Place(cluster, "half")
    append(cluster, "emptied", numbered(0, 30))
    assert replay_log(spark, source, target) == Copied(0, 30)
    append(cluster, "emptied", numbered(30, 60))
    with quire.sync.connect(cluster) as client:
        last = list(client.read_log("emptied"))[-1].position
        client.trim_log("emptied", last._replace(slot=last.slot + 1))
    for _ in range(2):
        with pytest.raises(PositionTrimmedError):
            replay_log(spark, source, target)
    assert replay_log(spark, source, target, skip_trimmed=True) == Copied(30, 60)


def test_a_replay_that_was_overtaken_adds_nothing(
    spark: SparkSession, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once, of a source that grows: both begin where the job had come to."""
    source, target = Place(cluster, "growing"), Place(cluster, "backup")
    append(cluster, "growing", numbered(0, 30))
    load = copy._load

    def slowly(*given: object) -> object:
        monkeypatch.undo()
        assert replay_log(spark, source, target) == Copied(0, 30)
        append(cluster, "growing", numbered(30, 45))
        return load(*given[:2], 45, *given[3:])  # type: ignore[call-arg, arg-type]

    end = copy._end
    monkeypatch.setattr(copy, "_load", slowly)
    monkeypatch.setattr(copy, "_end", lambda place: (end(place)[0], 45))
    with pytest.raises(OvertakenError, match="has come to sequence 30, not 0"):
        replay_log(spark, source, target)
    assert payloads(cluster, "backup") == numbered(0, 30)
    assert replay_log(spark, source, target) == Copied(30, 45)
    assert payloads(cluster, "backup") == numbered(0, 45)


def test_a_source_that_ends_in_front_of_what_was_replayed_is_not_called_done(
    spark: SparkSession, cluster: str
) -> None:
    source, target = Place(cluster, "reborn"), Place(cluster, "memory")
    append(cluster, "reborn", numbered(0, 30))
    assert replay_log(spark, source, target, "by hand") == Copied(0, 30)
    with quire.sync.connect(cluster) as client:
        client.delete_log("reborn")
    append(cluster, "reborn", numbered(0, 10))
    with pytest.raises(BehindError, match="another log of this name"):
        replay_log(spark, source, target, "by hand")
    assert replay_log(spark, source, target) == Copied(0, 10)
    assert payloads(cluster, "memory") == numbered(0, 30) + numbered(0, 10)


def test_replay_and_compaction_keep_keys_headers_and_event_times(
    spark: SparkSession, cluster: str
) -> None:
    records: list[bytes | NewRecord] = [
        NewRecord(b"1", key=b"a", headers=[("h", b"v"), ("h", None)], event_time=-5),
        NewRecord(b"2", key=b"b"),
        b"plain",
        NewRecord(b"3", key=b"a", event_time=7),
    ]
    with quire.sync.connect(cluster) as client, client.open_log("given") as log:
        log.append_many(records)
    source = Place(cluster, "given")
    replay_log(spark, source, Place(cluster, "given-again"))
    compact_log(spark, source, Place(cluster, "given-last"), "key")
    with quire.sync.connect(cluster) as client:
        again = [copy_of(record) for record in client.read_log("given-again")]
        last = [copy_of(record) for record in client.read_log("given-last")]
    assert again == records
    assert last == records[1:]


def test_compaction_keeps_the_last_of_every_key(spark: SparkSession, cluster: str) -> None:
    records = [b'{"id": %d, "n": %d}' % (n % 7, n) for n in range(100)]
    records[50:50] = [b"no key", b"none either"]
    append(cluster, "grown", records)
    source, target = Place(cluster, "grown"), Place(cluster, "small")
    key = "get_json_object(cast(payload as string), '$.id')"
    compact_log(spark, source, target, key)
    compact_log(spark, source, target, key)
    assert payloads(cluster, "small") == [b"no key", b"none either", *records[-7:]]


def test_a_log_is_not_copied_into_itself(spark: SparkSession, cluster: str) -> None:
    append(cluster, "mirror", numbered(0, 10))
    directory = str(Path(cluster.removeprefix("sqlite://")).parent)
    for place in (Place(cluster, "mirror"), Place(directory, "mirror")):
        with pytest.raises(InvalidRequestError, match="into itself"):
            replay_log(spark, place, Place(cluster, "mirror"))
        with pytest.raises(InvalidRequestError, match="into itself"):
            compact_log(spark, place, Place(cluster, "mirror"), "offset")
    assert payloads(cluster, "mirror") == numbered(0, 10)


@pytest.mark.parametrize("name", ["odd*", "odd,odder", "odd[1]", "odd?"])
def test_a_log_whose_name_is_a_pattern_is_not_taken_for_others(
    spark: SparkSession, cluster: str, name: str
) -> None:
    for log in (name, "odd", "odder", "odd1"):
        append(cluster, log, [log.encode()])
    with pytest.raises(InvalidRequestError, match="its name"):
        replay_log(spark, Place(cluster, name), Place(cluster, "even"))
    with quire.sync.connect(cluster) as client:
        assert "even" not in client.list_logs()


@pytest.mark.parametrize("key", ["nonsense(", "absent", "map(offset, 1)", "count(*)"])
def test_a_key_that_is_none_is_named(spark: SparkSession, cluster: str, key: str) -> None:
    append(cluster, "keyless", numbered(0, 3))
    with pytest.raises(InvalidRequestError, match=re.escape(f"key {key!r}")) as raised:
        compact_log(spark, Place(cluster, "keyless"), Place(cluster, "small"), key)
    assert "\n" not in str(raised.value)
