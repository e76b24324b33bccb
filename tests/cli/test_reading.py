"""`quire log read`, `tail` and `end`: ranges, formats, and words for an empty answer."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime

import click.testing
import pytest

import quire.sync
from quire.cli.root import main
from quire.errors import DeposedError
from quire.sync import SyncLocalCluster
from tests.support.command import started

LETTERS = [b"a", b"b", b"c", b"d", b"e"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster with a log of five letters, one entry each, with txids 10 to 14."""
    directory = tmp_path_factory.mktemp("reading") / "quire-data"
    with SyncLocalCluster(directory, bookies=3) as cluster:
        with quire.sync.connect(cluster.store_uri) as client:
            with client.open_log("letters") as log:
                for number, letter in enumerate(LETTERS):
                    log.append(letter, txid=10 + number)
            client.open_log("empty").close()
            with client.open_log("long") as log:
                log.append_many([b"%d" % number for number in range(25)])
        yield cluster.store_uri


def call(store: str, *arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["--store", store, *arguments])


def lines(store: str, *arguments: str) -> list[str]:
    done = call(store, "log", *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "abcde"),
        (("--to", "2"), "ab"),
        (("--from", "1", "--to", "3"), "bc"),
        (("--to", "1.3.0"), "abc"),
        (("--from", "txid:11", "--to", "txid:13"), "bc"),
        (("--to", "latest"), "abcde"),
        (("--from", "3", "--to", "2"), ""),
        (("-n", "2"), "ab"),
        (("-n", "1", "--from", "4"), "e"),
        (("--to", "2000-01-01T00:00:00Z"), ""),
        (("--to", "2999-01-01T00:00:00Z"), "abcde"),
    ],
    ids=str,
)
def test_a_range_has_the_records_before_its_end(
    store: str, options: tuple[str, ...], expected: str
) -> None:
    assert "".join(lines(store, "read", "letters", *options)) == expected


def test_a_time_that_a_record_shows_is_a_place_to_start(store: str) -> None:
    (time, *_), *_ = (each.split("|") for each in lines(store, *SHOWN))
    assert lines(store, "read", "letters", "--from", time) == ["a", "b", "c", "d", "e"]
    assert datetime.fromisoformat(time).tzinfo == UTC


SHOWN = ("read", "letters", "-n", "1", "--format", "{time}|{payload}")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{offset} {position} {epoch} {txid} {payload}", "0 1.0.0 1 10 a"),
        (r"{offset}\t{payload}\n", "0\ta\n"),
        (r"\\{{{payload}}}", r"\{a}"),
        ("no field", "no field"),
    ],
)
def test_a_format_prints_the_fields_of_a_record(store: str, template: str, expected: str) -> None:
    done = call(store, "log", "read", "letters", "-n", "1", "--format", template)
    assert done.stdout == f"{expected}\n"


def test_a_format_takes_the_payload_as_the_payload_option_says(store: str) -> None:
    options = ("-n", "1", "--payload", "hex", "--format", "<{payload}>")
    assert lines(store, "read", "letters", *options) == ["<61>"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--format", "{colour}"), "no field 'colour'; fields are position, offset"),
        (("--format", "{offset:>8}"), "no field 'offset'"),
        (("--format", "{offset"), "format '{offset': "),
        (("--format", "{}"), "no field ''"),
        (("--format", r"\x"), r"unknown escape '\\x'"),
        (("--format", "{offset}", "--json"), "--format and --json both say how to print"),
        (
            ("--to", "soon"),
            "'soon' is not a position: write an offset, segment.entry.slot, txid:ID, a time",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_printed_is_wrong_usage(
    store: str, options: tuple[str, ...], text: str
) -> None:
    done = call(store, "log", "read", "letters", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("empty",), "Log empty has no record now; its next offset is 0."),
        (("letters", "--from", "99"), "it begins at 1.0.0 and ends before 2.0.0 (offset 5)"),
        (("letters", "--from", "5"), "no record in this range"),
        (("letters", "--to", "0"), "no record in this range"),
        (("letters", "--from", "latest"), "no record in this range"),
    ],
    ids=str,
)
def test_a_read_without_records_says_why(store: str, arguments: tuple[str, ...], text: str) -> None:
    done = call(store, "log", "read", *arguments)
    assert (done.exit_code, done.stdout) == (0, "")
    assert text in done.stderr


def test_a_read_with_records_says_nothing(store: str) -> None:
    assert call(store, "log", "read", "letters").stderr == ""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--limit", "10"), list(range(15, 25))),
        (("-n", "3", "--limit", "3"), [22, 23, 24]),
        (("-n", "99", "--limit", "25"), list(range(25))),
        (("--from", "7", "--limit", "1"), [7]),
    ],
    ids=str,
)
def test_tail_begins_with_the_last_records(
    store: str, options: tuple[str, ...], expected: list[int]
) -> None:
    assert lines(store, "tail", "long", *options) == [str(each) for each in expected]


def test_tail_takes_one_place_to_begin(store: str) -> None:
    done = call(store, "log", "tail", "long", "-n", "3", "--from", "7")
    assert done.exit_code == 2
    assert "--from and -n both say where to begin" in done.stderr


@pytest.mark.parametrize(("options", "shown"), [((), 10), (("-n", "0"), 0)], ids=str)
def test_tail_says_that_it_waits_and_shows_new_records(
    store: str, options: tuple[str, ...], shown: int
) -> None:
    command = ("log", "tail", "long", *options)
    with started(*command, store=store) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(shown):
            process.stdout.readline()
        assert process.stderr.readline() == "Waiting for records of log long; Ctrl-C ends.\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_end_prints_the_range_of_a_log(store: str) -> None:
    (found,) = (json.loads(each) for each in lines(store, "end", "letters", "--json"))
    assert found == {
        "log": "letters",
        "first_position": "1.0.0",
        "first_offset": 0,
        "end_position": "2.0.0",
        "end_offset": 5,
        "records": 5,
    }
    assert "2.0.0" in "".join(lines(store, "end", "letters", "--linearizable"))


def test_end_recovers_a_log_on_demand(store: str) -> None:
    with quire.sync.connect(store) as client, client.open_log("left-open") as log:
        log.append_many([b"a", b"b", b"c"])
        command = ("end", "left-open", "--recover", "--json")
        (found,) = (json.loads(each) for each in lines(store, *command))
        assert (found["end_offset"], found["records"]) == (3, 3)
        with pytest.raises(DeposedError):
            log.append(b"d")
    missing = call(store, "log", "end", "missing", "--recover")
    assert missing.exit_code == 3
    assert "log 'missing' does not exist" in missing.stderr


def test_end_counts_what_a_trim_left(store: str) -> None:
    with quire.sync.connect(store) as client:
        with client.open_log("trimmed") as log:
            log.append_many([b"a", b"b", b"c"])
        client.trim_log("trimmed", 2)
    (found,) = (json.loads(each) for each in lines(store, "end", "trimmed", "--json"))
    assert (found["first_offset"], found["end_offset"], found["records"]) == (2, 3, 1)
    assert lines(store, "tail", "trimmed", "--limit", "1") == ["c"]
