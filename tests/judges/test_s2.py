"""A history in the words of S2's collector: exact, and as its judge reads it."""

from __future__ import annotations

import json
from typing import Any

from tests.judges.history import Outcome
from tests.judges.planted import Scene
from tests.judges.s2 import chain, convert, record_hash
from tests.judges.settle import settle


def events(scene: Scene, block_records: int = 100) -> list[list[Any]]:
    converted = convert(scene.history, settle(scene.history, block_records))
    return [[json.loads(line)["event"] for line in lines] for lines in converted.files]


def test_the_chained_hash_is_theirs() -> None:
    # the first vector of their tests: xxh3("foo") on an empty stream
    assert chain(0, 0xAB6E5F64077E7D8A) == 0x4D2B003EE417C3A5


def test_operations_keep_their_order_and_their_results() -> None:
    scene = Scene()
    scene.append("a", "b", offset=0, expected=0)
    scene.append("c", outcome=Outcome.FAILED)
    scene.end(2)
    [file] = events(scene)
    hashes = [record_hash("a"), record_hash("b")]
    nothing = {"set_fencing_token": None, "fencing_token": None, "match_seq_num": 0}
    assert file == [
        {"Start": {"Append": {"num_records": 2, "record_hashes": hashes, **nothing}}},
        {"Finish": {"AppendSuccess": {"tail": 2}}},
        {"Start": "CheckTail"},
        {"Finish": {"CheckTailSuccess": {"tail": 2}}},
    ]


def test_a_read_that_lags_starts_when_the_log_had_its_records() -> None:
    scene = Scene()
    scene.append("a", offset=0)
    scene.append("b", offset=1)
    scene.append("c", offset=2)
    scene.read("reader", 0, "a", "b")
    [file] = events(scene)
    assert file.index({"Start": "Read"}) == 3
    stream_hash = chain(chain(0, record_hash("a")), record_hash("b"))
    assert file[-1] == {"Finish": {"ReadSuccess": {"tail": 2, "stream_hash": stream_hash}}}


def test_a_pass_that_began_inside_a_block_says_nothing_there() -> None:
    scene = Scene()
    for offset, value in enumerate("abcd"):
        scene.append(value, offset=offset)
    scene.read("reader", 1, "b", "c", "d")
    first, second = events(scene, block_records=2)
    assert {"Start": "Read"} not in first
    stream_hash = chain(chain(0, record_hash("c")), record_hash("d"))
    assert second[-1] == {"Finish": {"ReadSuccess": {"tail": 2, "stream_hash": stream_hash}}}


def test_a_read_ends_where_a_batch_ends() -> None:
    scene = Scene()
    scene.append("a", offset=0)
    scene.append("b", "c", offset=1)
    scene.read("reader", 0, "a", "b")
    [file] = events(scene)
    stream_hash = chain(0, record_hash("a"))
    assert {"Finish": {"ReadSuccess": {"tail": 1, "stream_hash": stream_hash}}} in file


def test_an_unanswered_append_finishes_last() -> None:
    scene = Scene()
    scene.append("a", outcome=Outcome.UNKNOWN)
    scene.append("b", outcome=Outcome.UNKNOWN)
    scene.end(2)
    scene.read("reader", 1, "b")
    [file] = events(scene)
    assert {"Finish": {"AppendSuccess": {"tail": 2}}} in file[-2:]
    assert {"Finish": "AppendIndefiniteFailure"} in file[-2:]


def test_an_acknowledged_append_without_an_offset_cannot_be_fed() -> None:
    scene = Scene()
    scene.append("a")
    assert "offset" in convert(scene.history, settle(scene.history)).refusal
