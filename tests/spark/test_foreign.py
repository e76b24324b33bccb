"""Format `bookkeeper` over a system in memory: options, partitions, micro-batches, restarts."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from quire.bookkeeper.pieces import EntryPlace, LedgerPiece
from quire.bookkeeper.pulsar.messages import PulsarMessage
from quire.bookkeeper.pulsar.names import MessageId
from quire.errors import ConfigurationError, PositionTrimmedError, UnreadableContentError
from quire.spark.bookkeeper.options import ForeignOptions, read_schema
from quire.spark.bookkeeper.places import Stand, from_json, reached, start_of, to_json
from quire.spark.bookkeeper.reading import ForeignBatchReader
from quire.spark.bookkeeper.stream import ForeignStreamReader
from quire.spark.bookkeeper.topics import COLUMNS as TOPIC_COLUMNS
from quire.spark.versions import ReadMaxRows
from tests.spark.foreign import URI, ForeignSystemInMemory, in_memory, options, rows, stream_options

ORDERS = "orders"


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForeignSystemInMemory]:
    with in_memory(monkeypatch) as made:
        yield made


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "needs .option.'cluster'"),
        ({"cluster": URI}, "format 'bookkeeper' needs .option.'topic', ….* or .option.'dlog'"),
        ({"cluster": "zk://zoo1/quire", "topic": "t"}, "names no ledgers.*format\\('quire'\\)"),
        ({"cluster": URI, "topic": "t", "log": "x"}, "option 'log' is not one of a read of format"),
        ({"cluster": URI, "topic": "t", "columns": "text"}, "columns='text'.*message_id"),
        ({"cluster": URI, "topic": "t", "fromPosition": "7"}, "fromPosition='7'.*4711:3:-1"),
        ({"cluster": URI, "topic": "t", "toPosition": "7:1,7:2"}, "partition -1 is named twice"),
        ({"cluster": URI, "topic": "t,u", "toPosition": "7:1"}, "toPosition is a place in one"),
        ({"cluster": URI, "topic": "a/b"}, "topic='a/b'.*persistent://"),
        ({"cluster": URI, "topic": "t", "splitBytes": "0"}, "splitBytes='0'.*above 0"),
        ({"cluster": URI, "topic": "t", "maxEntriesPerTrigger": "1"}, "not one of a read of"),
        ({"cluster": URI, "topic": "t", "failOnDataLoss": "maybe"}, "failOnDataLoss.*true or"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        ForeignOptions.parse(given)


def test_options_of_streams_are_their_own() -> None:
    given = {"cluster": URI, "topic": "t", "startingOffsets": "latest"}
    assert ForeignOptions.parse(given, streaming=True).is_latest
    for more, why in (
        ({"fromPosition": "7:1"}, "startingOffsets say the same"),
        ({"toPosition": "7:1"}, "not one of a streaming read"),
        ({"startingOffsets": "5"}, "earliest or latest"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            ForeignOptions.parse(given | more, streaming=True)


def test_names_are_full_and_passwords_hidden() -> None:
    given = {"cluster": URI, "topic": "t, public/other/u", "password": "hush"}
    found = ForeignOptions.parse(given)
    assert found.logs == ("persistent://public/default/t", "persistent://public/other/u")
    assert "hush" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.with_columns(["key"]).columns == ("key",)
    with pytest.raises(ConfigurationError, match="'colour': choose from"):
        found.with_columns(["colour"])
    assert read_schema({**given, "columns": "key,properties"}) == (
        "`key` binary, `properties` map<string, string>"
    )


def test_a_topic_has_one_name_and_is_not_read_beside_its_partition() -> None:
    names = "orders, public/default/orders, persistent://public/default/orders"
    found = ForeignOptions.parse({"cluster": URI, "topic": names})
    assert found.logs == ("persistent://public/default/orders",)
    for names in ("orders, orders-partition-3", "public/default/orders-partition-3, orders"):
        with pytest.raises(ConfigurationError, match=r"orders-partition-3 is partition 3 of .*one"):
            ForeignOptions.parse({"cluster": URI, "topic": names})
    for names in ("orders, orders-partition-03", "orders-partition-0, orders-partition-1"):
        assert len(ForeignOptions.parse({"cluster": URI, "topic": names}).logs) == 2
    for wrong in ("orders/", "/public/default/orders", "public//orders", "persistent:/orders"):
        with pytest.raises(ConfigurationError, match=r"topic=.*is not in the form"):
            ForeignOptions.parse({"cluster": URI, "topic": wrong})


def test_a_query_does_not_take_a_log_for_a_new_one_by_another_name() -> None:
    whole = stream_options(cluster=URI, topic="orders")
    part = "persistent://public/default/orders-partition-1"
    whole.check_begun(["persistent://public/default/orders"])
    whole.check_begun(["persistent://public/default/payments"])
    stand = Stand(EntryPlace(1, 0), EntryPlace(1, 2))
    with pytest.raises(ConfigurationError, match=r"partition 1 of .*orders, which is named"):
        ForeignStreamReader(whole).latestOffset(to_json({(part, 1): stand}))
    log = ForeignOptions.parse({"cluster": URI, "dlog": "/a/b"}, streaming=True)
    with pytest.raises(ConfigurationError, match=r"one log has two names.*new checkpoint"):
        log.check_begun(["distributedlog://nowhere:1/a/b"])


def test_a_time_that_no_timestamp_holds_is_named() -> None:
    (piece,) = [LedgerPiece("t", -1, 7, 7, 0, 0, None, True, 7)]
    late = PulsarMessage(MessageId(-1, 7, 0), b"x", None, None, {}, 5, 2**62, "maker", 0, None)
    assert TOPIC_COLUMNS["publish_time"].value(piece, late) == 5000
    assert TOPIC_COLUMNS["event_time"].value(piece, replace(late, event_ms=None)) is None
    with pytest.raises(UnreadableContentError, match=r"7:0:-1 of topic t has event_time 4611.*col"):
        TOPIC_COLUMNS["event_time"].value(piece, late)


def fill(system: ForeignSystemInMemory) -> list[tuple[int, int, int, str]]:
    """Three ledgers of part 0, one of part 1; return all rows."""
    for number in range(3):
        if number:
            system.roll(ORDERS, 0)
        system.append(ORDERS, 0, *(f"{number}-{entry}" * 100 for entry in range(10)))
    system.append(ORDERS, 1, "only")
    return rows(reader := ForeignBatchReader(options()), reader.partitions())


def test_partitions_are_cut_by_bytes_and_hold_all(system: ForeignSystemInMemory) -> None:
    whole = fill(system)
    assert len(whole) == 31
    for more in ({"splitBytes": "1000"}, {"minPartitions": "7"}, {"splitBytes": "1"}):
        reader = ForeignBatchReader(options(**more))
        parts = reader.partitions()
        assert len(parts) >= 7
        assert rows(reader, parts) == whole
        assert max(len(pickle.dumps(part)) for part in parts) < 2000
    pruned = ForeignBatchReader(options(columns="text,entry"))
    assert rows(pruned, pruned.partitions()) == [(text, entry) for _, _, entry, text in whole]


def test_a_frame_has_no_later_entries(system: ForeignSystemInMemory) -> None:
    whole = fill(system)
    reader = ForeignBatchReader(options())
    parts = reader.partitions()
    system.append(ORDERS, 1, "later")
    assert rows(reader, parts) == whole


def test_bounds_are_places_in_parts(system: ForeignSystemInMemory) -> None:
    whole = fill(system)
    reader = ForeignBatchReader(options(fromPosition="0:2:3", toPosition="0:3:2"))
    expected = [row for row in whole if row[0] == 1 or (2, 3) <= row[1:3] < (3, 2)]
    assert rows(reader, reader.partitions()) == expected
    with pytest.raises(ConfigurationError, match=r"fromPosition names partition 7 .* are 0, 1"):
        ForeignBatchReader(options(fromPosition="7:2:3")).partitions()


def test_a_place_that_retention_deleted_is_an_error(system: ForeignSystemInMemory) -> None:
    whole = fill(system)
    del system.ledgers[ORDERS, 0][1]
    with pytest.raises(PositionTrimmedError, match=r"1:3:0 of log 'orders'.*left is 2:0:0"):
        ForeignBatchReader(options(fromPosition="0:1:3")).partitions()
    reader = ForeignBatchReader(options(fromPosition="0:1:3", failOnDataLoss="false"))
    assert rows(reader, reader.partitions()) == [row for row in whole if row[:2] != (0, 1)]


class Query:
    """Spark's part: it writes the end of a batch down, and repeats a batch after a crash."""

    def __init__(self, seed: int = 0, **more: str) -> None:
        self.rng = random.Random(seed)
        self.more = more
        self.ends: list[dict[str, Any]] = []
        self.batches: list[list[tuple[Any, ...]]] = []
        self.restart()

    def restart(self, **more: str) -> None:
        self.more |= more
        self.reader = ForeignStreamReader(stream_options(**self.more))
        self.knows = False

    def _start(self) -> dict[str, Any]:
        return self.ends[-1] if self.ends else self.reader.initialOffset()

    def step(self, *, old: bool = False) -> bool:
        """Run a batch; return whether there was news. An old Spark does not tell the beginning."""
        start = self._start()
        if old:
            end = self.reader.latestOffset()
        else:
            end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if end == start:
            return False
        found = rows(self.reader, self.reader.partitions(start, end))
        while self.rng.random() < 0.3:  # the driver died: the same batch again
            self.restart()
            start = self._start()
            assert rows(self.reader, self.reader.partitions(start, end)) == found
        self.ends.append(end)
        self.batches.append(found)
        return True

    @property
    def read(self) -> list[tuple[Any, ...]]:
        return sorted(row for batch in self.batches for row in batch)


def everything(system: ForeignSystemInMemory) -> list[tuple[Any, ...]]:
    return [
        (part, number, entry, text)
        for (_, part), ledgers in sorted(system.ledgers.items())
        for number, texts in ledgers.items()
        for entry, text in enumerate(texts)
    ]


@pytest.mark.parametrize("old", [False, True], ids=["4.2", "4.0"])
@pytest.mark.parametrize("seed", range(25))
def test_every_entry_is_in_one_batch(seed: int, old: bool, system: ForeignSystemInMemory) -> None:
    rng = random.Random(seed)
    system.append(ORDERS, 0, "first")
    query = Query(seed, maxEntriesPerTrigger=str(rng.choice([1, 3, 100])))
    gone: list[tuple[Any, ...]] = []
    for number in range(60):
        match rng.randrange(6):
            case 0 | 1:
                part = rng.randrange(3)
                system.append(ORDERS, part, *(f"{number}.{each}" for each in range(3)))
            case 2:
                log, part = rng.choice(sorted(system.ledgers))
                system.roll(log, part)
            case 3 if not old:  # an old Spark may read such an entry again (docs/bookkeeper.md)
                system.unconfirmed = rng.choice([0, 0, 1])
            case 4:
                query.restart()
            case 5:
                query.step(old=old)
                gone += trim(system, query)
    system.unconfirmed = 0
    while query.step(old=old):
        pass
    assert query.read == sorted([*gone, *everything(system)])
    if query.more["maxEntriesPerTrigger"] != "100" and not old:
        assert max(map(len, query.batches)) <= 3, "restarts included"


def trim(system: ForeignSystemInMemory, query: Query) -> list[tuple[Any, ...]]:
    """Delete the ledgers that the query has read and left; return their rows."""
    stands = from_json(query.ends[-1]) if query.ends else {}
    gone = []
    for (log, part), stand in stands.items():
        ledgers = system.ledgers[log, part]
        for number in [each for each in ledgers if each < stand.next.number]:
            gone += [(part, number, entry, text) for entry, text in enumerate(ledgers[number])]
            del ledgers[number]
    return gone


def test_a_deleted_ledger_ends_the_query_or_is_passed_over_as_told(
    system: ForeignSystemInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    system.append(ORDERS, -1, "a", "b")
    query = Query()
    query.rng.random = lambda: 1.0  # type: ignore[method-assign]
    assert query.step()
    system.append(ORDERS, -1, "c")
    system.roll(ORDERS, -1)
    system.append(ORDERS, -1, "d")
    del system.ledgers[ORDERS, -1][1]
    with pytest.raises(PositionTrimmedError, match=r"1:2:-1 .*left is 2:0:-1 \(let retention"):
        query.step()
    query.restart(failOnDataLoss="false")
    assert query.step()
    assert [row[3] for row in query.read] == ["a", "b", "d"]
    assert "from 1:2:-1 to 2:0:-1 may be lost" in caplog.text


def test_a_ledger_that_lost_its_first_entries_is_an_error(
    system: ForeignSystemInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    system.append(ORDERS, 0, *"abcde")
    query = Query(maxEntriesPerTrigger="1")
    query.rng.random = lambda: 1.0  # type: ignore[method-assign]
    assert query.step()
    system.truncated[1] = 1
    assert query.step(), "entry 1 is there still"
    system.truncated[1] = 4
    with pytest.raises(PositionTrimmedError, match=r"1:2:0 .*left is 1:4:0 \(let retention"):
        query.step()
    with pytest.raises(PositionTrimmedError, match=r"1:2:0 .*left is 1:4:0"):
        ForeignBatchReader(options(fromPosition="0:1:2")).partitions()
    query.restart(failOnDataLoss="false")
    assert query.step()
    assert [row[3] for row in query.read] == ["a", "b", "e"]
    assert "from 1:2:0 to 1:4:0 may be lost" in caplog.text


def test_a_log_that_was_recreated_is_not_gone_on_with(
    system: ForeignSystemInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    system.append(ORDERS, 0, "a", "b")
    query = Query()
    query.rng.random = lambda: 1.0  # type: ignore[method-assign]
    assert query.step()
    start = query.ends[-1]
    del system.ledgers[ORDERS, 0]
    system.append(ORDERS, 0, "c", "d", "e")
    system.recreated = 50
    with pytest.raises(PositionTrimmedError, match=r"1:2:0 in ledger 101 .* in ledger 151"):
        query.step()
    query.restart()
    with pytest.raises(PositionTrimmedError, match=r"1:2:0 in ledger 101 .* in ledger 151"):
        query.step()
    query.restart(failOnDataLoss="false")
    assert query.step()
    assert "1:2:0 in ledger 101 to 1:2:0 in ledger 151 may be lost" in caplog.text
    again = ForeignStreamReader(stream_options())
    system.recreated = 0
    with pytest.raises(PositionTrimmedError, match="1:3:0 in ledger 151"):
        again.partitions(start, query.ends[-1])


def test_a_part_that_vanished_is_an_error(system: ForeignSystemInMemory) -> None:
    system.append(ORDERS, 0, "a")
    query = Query()
    query.rng.random = lambda: 1.0  # type: ignore[method-assign]
    assert query.step()
    del system.ledgers[ORDERS, 0]
    with pytest.raises(PositionTrimmedError, match="left is none"):
        query.step()


def test_a_closed_ledger_that_was_read_may_go(system: ForeignSystemInMemory) -> None:
    system.append(ORDERS, 0, "a", "b")
    system.roll(ORDERS, 0)
    query = Query(maxEntriesPerTrigger="2")
    query.rng.random = lambda: 1.0  # type: ignore[method-assign]
    assert query.step()
    del system.ledgers[ORDERS, 0][1]
    system.append(ORDERS, 0, "c")
    assert query.step()
    assert [row[3] for row in query.read] == ["a", "b", "c"]


def test_a_stream_expects_all_ledgers_since_its_beginning(system: ForeignSystemInMemory) -> None:
    system.append(ORDERS, 0, "a")
    query = Query()
    assert query.step()
    system.roll(ORDERS, 0)
    system.append(ORDERS, 0, "b")
    assert query.step()
    assert query.step() is False
    del system.ledgers[ORDERS, 0][1]
    system.append(ORDERS, 0, "c")
    for lossy, since in (("false", 2), ("true", 1)):
        reader = ForeignStreamReader(stream_options(failOnDataLoss=lossy))
        end = reader.latestOffset(query.ends[-1], reader.getDefaultReadLimit())
        parts: Any = reader.partitions(query.ends[-1], end)
        assert [piece.since for part in parts for piece in part.pieces] == [since]


def test_a_batch_whose_ledger_went_meanwhile_is_an_error(system: ForeignSystemInMemory) -> None:
    system.append(ORDERS, 0, "a")
    reader = ForeignStreamReader(stream_options())
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    system.roll(ORDERS, 0)
    del system.ledgers[ORDERS, 0][1]
    with pytest.raises(PositionTrimmedError, match="1:0:0"):
        reader.partitions(start, end)


def test_a_list_without_the_last_ledger_of_a_batch_loses_no_entries(
    system: ForeignSystemInMemory,
) -> None:
    system.append(ORDERS, 0, "a")
    reader = ForeignStreamReader(stream_options())
    start = reader.initialOffset()
    system.roll(ORDERS, 0)
    system.append(ORDERS, 0, "b")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    ledger = system.ledgers[ORDERS, 0].pop(2)  # a server of ZooKeeper that lags behind
    with pytest.raises(PositionTrimmedError, match=r"2:1:0 .*left is 1:0:0"):
        reader.partitions(start, end)
    system.ledgers[ORDERS, 0][2] = ledger
    assert len(rows(reader, reader.partitions(start, end))) == 2


def test_latest_begins_after_all_there_is_but_not_in_new_parts(
    system: ForeignSystemInMemory,
) -> None:
    system.append(ORDERS, 0, "old")
    query = Query(startingOffsets="latest")
    start = query.reader.initialOffset()
    system.append(ORDERS, 0, "new")
    system.append(ORDERS, 1, "found")
    end = query.reader.latestOffset(start, query.reader.getDefaultReadLimit())
    found = rows(query.reader, query.reader.partitions(start, end))
    assert [row[3] for row in found] == ["new", "found"]


def test_a_query_that_ends_reads_what_there_was(system: ForeignSystemInMemory) -> None:
    system.append(ORDERS, 0, "a", "b", "c")
    query = Query(maxEntriesPerTrigger="2")
    query.reader.prepareForTriggerAvailableNow()
    system.append(ORDERS, 0, "later")
    system.roll(ORDERS, 0)
    system.append(ORDERS, 1, "later")
    query.restart = lambda **more: None  # type: ignore[method-assign]
    while query.step():
        pass
    assert [row[3] for row in query.read] == ["a", "b", "c"]


def test_an_old_spark_goes_on_when_the_place_where_it_began_is_gone(
    system: ForeignSystemInMemory,
) -> None:
    """Before 4.2 a restarted query is asked for an end before it is told where it is."""
    whole = fill(system)
    query = Query(fromPosition="0:1:3")
    while query.step(old=True):
        pass
    trim(system, query)
    assert 1 not in system.ledgers[ORDERS, 0]
    system.append(ORDERS, 0, "new")
    query.restart()
    while query.step(old=True):
        pass
    began = [row for row in whole if row[:2] != (0, 1) or row[2] >= 3]
    assert query.read == sorted([*began, (0, 3, 10, "new")])


def test_a_log_that_is_named_no_longer_keeps_its_place(system: ForeignSystemInMemory) -> None:
    system.append(ORDERS, 0, "a")
    system.append("other", 0, "x")
    query = Query(topic="orders,other")
    assert query.step()
    query.restart(topic="orders")
    system.append(ORDERS, 0, "b")
    del system.ledgers["other", 0]
    assert query.step()
    assert set(query.ends[-1]) == {"orders", "other"}
    assert system.asked[-1] == "orders"


def test_places_survive_json() -> None:
    stands = {
        ("r", 0): Stand(EntryPlace(1, 0), EntryPlace(2, 3), ledger=9),
        ("t", -1): Stand(EntryPlace(1, 0), EntryPlace(4, 7)),
        ("u", 2): Stand(EntryPlace(3, 1), EntryPlace(3, 1), sure=False),
    }
    told = to_json(stands)
    assert told["t"] == {"-1": {"first": [1, 0], "next": [4, 7]}}
    assert told["r"] == {"0": {"first": [1, 0], "next": [2, 3], "ledger": 9}}
    assert from_json(told) == stands


@pytest.mark.parametrize(
    "told",
    [
        {"orders": {"id": "x", "first": 0, "offset": 9}},
        {"orders": {"0": 1200}},
        {"orders": 7},
        {"orders": {"0": {"first": [1, 0]}}},
        7,
    ],
)
def test_a_checkpoint_of_another_source_is_told(told: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"checkpointLocation.*format 'bookkeeper'"):
        from_json(told)


def test_an_end_holds_the_beginning_of_a_first_batch() -> None:
    strand = ("t", 0)
    end = Stand(EntryPlace(1, 0), EntryPlace(1, 5))
    again = {strand: Stand(EntryPlace(2, 0), EntryPlace(2, 0))}  # Spark asked again after a crash
    assert start_of({}, strand, end) == (1, 0)
    assert start_of(again, strand, end) == (1, 0)
    unsure = Stand(EntryPlace(1, 0), EntryPlace(1, 5), sure=False)
    assert start_of(again, strand, unsure) == (2, 0)
    assert reached(again, {strand: unsure})[strand].next == (2, 0), "never before its beginning"


def test_the_limit_of_spark_counts_entries(system: ForeignSystemInMemory) -> None:
    system.append(ORDERS, 0, *"abc")
    system.append(ORDERS, 1, *"xyz")
    reader = ForeignStreamReader(stream_options())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(3))
    found = rows(reader, reader.partitions(start, end))
    assert sorted(row[0] for row in found) in ([0, 0, 1], [0, 1, 1]), "shared fairly"
