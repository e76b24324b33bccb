"""The checker of the soak: each violation is found, and a good history is none."""

from __future__ import annotations

import pytest

from tests.gateway.soak.history import Read, Written, check

LOG = ["http-0", "go-0", "http-1", "go-1", "http-2"]
ACKED = {"http": {0: 0, 1: 2, 2: 4}, "go": {0: 1, 1: 3}}


def written(**changes: dict[int, int]) -> dict[str, Written]:
    return {name: Written(acked=changes.get(name, acked)) for name, acked in ACKED.items()}


def reading(payloads: list[str]) -> list[Read]:
    return [Read(offset, payload) for offset, payload in enumerate(payloads)]


def told(payloads: list[str], **changes: dict[int, int]) -> list[str]:
    both = {"java": reading(payloads), "quire": reading(payloads)}
    return check(written(**changes), both, len(payloads))


def test_a_good_history_is_no_violation() -> None:
    assert told(LOG) == []


@pytest.mark.parametrize(
    ("payloads", "said"),
    [
        (LOG[:-1], "http-2, acknowledged at 4, is at None"),
        ([*LOG, "go-1"], "go-1 is in the log 2 times: at [3, 5]"),
        (["http-0", "http-1", "go-0", "go-1", "http-2"], "acknowledged at 2, is at [1]"),
        ([*LOG, "http-3"], "http-3 is in the log and was never acknowledged"),
        ([*LOG, "cat-0"], "'cat-0' at 5 is of no writer"),
        ([*LOG, "http"], "'http' at 5 is of no writer"),
    ],
)
def test_a_log_that_broke_a_promise(payloads: list[str], said: str) -> None:
    assert any(said in line for line in told(payloads)), told(payloads)


def test_records_of_a_writer_in_another_order() -> None:
    wrong = told(["http-1", "go-0", "http-0", "go-1", "http-2"], http={0: 2, 1: 0, 2: 4})
    assert wrong == ["the records of http are not in the order in which it sent them"]


def test_a_number_that_a_writer_sent_and_was_not_told_of() -> None:
    assert "http was told of numbers with gaps between them" in told(LOG, http={0: 0, 2: 4})


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (reading(LOG[:-1]), "quire read 4 records, java 5"),
        (reading([*LOG, "go-2"]), "quire read 6 records, java 5"),
        (
            reading(["go-0", "http-0", *LOG[2:]]),
            "quire read (0, 'go-0') where java read (0, 'http-0')",
        ),
        (
            [Read(0, "http-0"), Read(2, "go-0")],
            "quire read (2, 'go-0') where java read (1, 'go-0')",
        ),
    ],
)
def test_a_reader_that_differs(other: list[Read], said: str) -> None:
    assert check(written(), {"java": reading(LOG), "quire": other}, 5) == [said]


def test_an_end_that_no_reader_reached() -> None:
    wrong = check(written(), {"java": reading(LOG)}, 6)
    assert wrong == ["java did not read the offsets from 0 to 6, each once"]


def test_no_reader_is_a_violation() -> None:
    assert check(written(), {}, 5) == ["nothing read the log"]


def test_lines_of_a_writer() -> None:
    writer = Written()
    for line in ("acked 0 7", "acked 1 8", "acked 0 7", "acked 0 9", "failed 2 timed out"):
        writer.heard(line)
    assert writer.acked == {0: 7, 1: 8}
    assert writer.failed == ["failed 2 timed out"]
    assert writer.doubles == ["0 was acknowledged at 7 and at 9"]
    wrong = check({"go": writer}, {"java": []}, 0)
    assert "go failed: failed 2 timed out" in wrong
    assert "go: 0 was acknowledged at 7 and at 9" in wrong


def test_many_violations_of_a_kind_are_counted() -> None:
    assert "and 15 more of this kind" in told([*LOG, *(["cat-0"] * 20)])
