"""Where a streaming query begins, goes on and ends, asked as Spark asks it: without a session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import quire.sync
from quire import LATEST
from quire.aio.backoff import Backoff
from quire.errors import LogReplacedError, NoSuchLogError, PositionTrimmedError
from quire.log.reading.span import Span
from quire.spark import patience
from quire.spark.batch import LogBatchReader
from quire.spark.beginning import check_beginning
from quire.spark.options import ReadOptions
from quire.spark.stream import LogStreamReader
from quire.sync import SyncClient


def write(cluster: str, log: str, first: int, count: int) -> None:
    """Append numbered records, three to an entry."""
    with quire.sync.connect(cluster) as client, client.open_log(log) as leader:
        for start in range(first, first + count, 3):
            leader.append_many([b"%d" % n for n in range(start, min(start + 3, first + count))])


def trim(cluster: str, log: str, offset: int) -> None:
    with quire.sync.connect(cluster) as client:
        client.trim_log(log, offset)


def renew(cluster: str, log: str, count: int) -> None:
    with quire.sync.connect(cluster) as client:
        client.delete_log(log)
    write(cluster, log, 0, count)


def reader(cluster: str, log: str, **options: str) -> LogStreamReader:
    given = {"cluster": cluster, "log": log} | options
    return LogStreamReader(ReadOptions.parse(given, streaming=True))


def latest(stream: LogStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def at(place: dict[str, Any], offset: int) -> dict[str, Any]:
    """The same place of its one log, at another offset."""
    return {log: told | {"offset": offset} for log, told in place.items()}


def read(stream: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """The offsets that a micro-batch has, read as its tasks do."""
    return [
        offset
        for partition in stream.partitions(start, end)
        for batch in stream.read(partition)
        for offset in batch.column("offset").to_pylist()
    ]


def test_a_log_that_was_replaced_by_a_shorter_one_is_not_waited_for(cluster: str) -> None:
    write(cluster, "short", 0, 30)
    stream = reader(cluster, "short")
    end = latest(stream, stream.initialOffset())
    renew(cluster, "short", 10)
    with pytest.raises(LogReplacedError):
        latest(stream, end)
    lenient = reader(cluster, "short", failOnDataLoss="false")
    again = latest(lenient, end)
    assert again["short"]["offset"] == 10
    assert read(lenient, end, again) == list(range(10))


def test_a_batch_planned_before_never_has_the_records_of_another_log(cluster: str) -> None:
    write(cluster, "anew", 0, 30)
    stream = reader(cluster, "anew", failOnDataLoss="false", cursor="spark")
    start = stream.initialOffset()
    end = latest(stream, start)
    renew(cluster, "anew", 30)
    with pytest.raises(LogReplacedError):
        read(reader(cluster, "anew"), start, end)
    assert read(stream, start, end) == []
    stream.commit(end)
    with quire.sync.connect(cluster) as client:
        assert list(client.log_cursors("anew").list()) == []


def test_a_query_may_outlive_its_logs(cluster: str) -> None:
    write(cluster, "gone-1", 0, 30)
    write(cluster, "gone-2", 0, 30)
    stream = reader(cluster, "gone-*", failOnDataLoss="false", cursor="spark")
    start = stream.initialOffset()
    end = latest(stream, start)
    with quire.sync.connect(cluster) as client:
        client.delete_log("gone-1")
    assert read(stream, start, end) == list(range(30))
    stream.commit(end)
    assert latest(stream, end) == end
    stream.prepareForTriggerAvailableNow()
    assert latest(stream, end) == end


def test_a_log_that_is_deleted_right_after_the_list_was_read_is_passed_over(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster, "seen-1", 0, 30)
    monkeypatch.setattr(SyncClient, "list_logs", lambda self: ["seen-1", "seen-2"])
    stream = reader(cluster, "seen-*")
    start = stream.initialOffset()
    assert list(start) == ["seen-1"]
    assert latest(stream, start)["seen-1"]["offset"] == 30
    stream.prepareForTriggerAvailableNow()
    assert latest(stream, start)["seen-1"]["offset"] == 30
    options = {"cluster": cluster, "log": "seen-*", "fromOffset": "3"}
    frame = LogBatchReader(ReadOptions.parse(options))
    found = [batch for each in frame.partitions() for batch in frame.read(each)]
    assert sum(batch.num_rows for batch in found) == 27
    named = LogBatchReader(ReadOptions.parse(options | {"log": "seen-*,seen-2"}))
    with pytest.raises(NoSuchLogError):
        named.partitions()
    with pytest.raises(NoSuchLogError):
        reader(cluster, "seen-2").initialOffset()


def test_what_was_trimmed_within_an_entry_is_an_error_that_says_so(cluster: str) -> None:
    write(cluster, "within", 0, 30)
    stream = reader(cluster, "within", cursor="spark")
    start = stream.initialOffset()
    trim(cluster, "within", 2)
    with pytest.raises(PositionTrimmedError, match="offset 0 of log 'within' was trimmed"):
        stream.partitions(start, at(start, 2))
    stream.commit(at(start, 2))  # there is nothing left for a cursor to be behind
    lenient = reader(cluster, "within", failOnDataLoss="false")
    assert read(lenient, start, at(start, 2)) == []
    assert read(lenient, start, at(start, 4)) == [2, 3]


def test_a_place_after_the_last_trimmed_record_is_there_however_it_is_written(cluster: str) -> None:
    write(cluster, "ends", 0, 30)
    with quire.sync.connect(cluster) as client:
        end = list(client.read_log("ends"))[8].position
        client.trim_log("ends", 9)
        for place in (f"{end.segment}.{end.entry}.{end.slot + 1}", "0.0.0"):
            options = ReadOptions.parse({"cluster": cluster, "log": "ends", "fromPosition": place})
            check_beginning(client, "ends", options)
            frame = LogBatchReader(options)
            found = [batch for each in frame.partitions() for batch in frame.read(each)]
            assert sum(batch.num_rows for batch in found) == 21
        for name, wrong in (("fromPosition", str(end)), ("fromOffset", "8")):
            options = ReadOptions.parse({"cluster": cluster, "log": "ends", name: wrong})
            with pytest.raises(PositionTrimmedError, match=rf"{wrong} \(option {name}\).*=false"):
                check_beginning(client, "ends", options)
        check_beginning(client, "ends", replace(options, fail_on_data_loss=False))


def test_a_query_that_begins_where_all_was_trimmed_reads_what_comes(cluster: str) -> None:
    with quire.sync.connect(cluster) as client, client.open_log("empty") as leader:
        for number in range(10):
            leader.append(b"%d" % number)
        follower = client.read_log("empty", follow=True)
        assert [next(follower).offset for _ in range(10)] == list(range(10))
        client.trim_log("empty", LATEST)
        stream = reader(cluster, "empty")
        start = stream.initialOffset()
        leader.append(b"10")
        assert next(follower).offset == 10
        follower.close()
        assert read(stream, start, latest(stream, start)) == [10]


@pytest.mark.parametrize("loss", ["true", "false"])
def test_a_batch_waits_until_all_of_it_is_told_again(
    cluster: str, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bookies that answer now may know less than those that answered when the batch was planned."""
    seen: list[int] = []

    def snapshot_log(self: SyncClient, name: str, **options: Any) -> list[Span]:
        spans = snapshot(self, name, **options)
        seen.append(len(seen))
        if len(seen) > 2:
            return spans
        return [replace(each, last=each.last - 1, offsets=each.offsets[:-1]) for each in spans]

    log = f"behind-{loss}"
    with quire.sync.connect(cluster) as client, client.open_log(log) as leader:
        for number in range(10):
            leader.append(b"%d" % number)
        follower = client.read_log(log, follow=True)
        assert [next(follower).offset for _ in range(10)] == list(range(10))
        follower.close()
        stream = reader(cluster, log, failOnDataLoss=loss)
        start = stream.initialOffset()
        end = latest(stream, start)
        assert end[log]["offset"] == 10
        snapshot = SyncClient.snapshot_log
        monkeypatch.setattr(SyncClient, "snapshot_log", snapshot_log)
        monkeypatch.setattr(patience, "BACKOFF", Backoff(0.001, 0.001))
        assert read(stream, start, end) == list(range(10))
        assert len(seen) == 3


def test_nothing_in_front_of_an_offset_to_come_is_read(cluster: str) -> None:
    write(cluster, "ahead", 0, 10)
    stream = reader(cluster, "ahead", fromOffset="20")
    start = stream.initialOffset()
    assert latest(stream, start) == start
    write(cluster, "ahead", 10, 20)
    assert read(stream, start, latest(stream, start)) == list(range(20, 30))


@pytest.mark.parametrize("place", [{"fromOffset": "3"}, {"fromPosition": "1.1.0"}])
def test_a_query_does_not_begin_at_a_place_that_was_trimmed(
    cluster: str, place: dict[str, str]
) -> None:
    log = f"late-{next(iter(place))}"
    write(cluster, log, 0, 30)
    stream = reader(cluster, log, **place)
    start = stream.initialOffset()
    trim(cluster, log, 10)
    with pytest.raises(PositionTrimmedError, match=next(iter(place))):
        reader(cluster, log, **place).initialOffset()
    lenient = reader(cluster, log, failOnDataLoss="false", **place)
    assert lenient.initialOffset()[log]["offset"] == 10
    stream.prepareForTriggerAvailableNow()  # a query that is behind its beginning goes on
    assert latest(stream, at(start, 20))[log]["offset"] == 30
