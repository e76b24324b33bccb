"""What a worker raised is found again in what Spark says about it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from copy import copy

import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from quire.cli.root import main
from quire.errors import (
    BehindError,
    LeavingTimeoutError,
    NoSuchLedgerError,
    NoSuchLogError,
    OvertakenError,
    PositionTrimmedError,
    QuireError,
    StoreUnavailableError,
)
from quire.spark.errors import find_error, reporting, typed_errors
from quire.spark.jobs import session

MASTER = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3205)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
SPARK = "An error occurred while calling o57.save.\n: org.apache.spark.SparkException: Job aborted"
LOST = "Lost task 1.0 in stage 3.0 (TID 4): org.apache.spark.api.python.PythonException: "

MISSING = NoSuchLedgerError(17)
TRIMMED = PositionTrimmedError("orders", "3.17.0", "4.0.0")


def told(*errors: Exception) -> str:
    """As a worker tells it: a traceback in which each error is the cause of the next one."""
    try:
        _raise_chained([copy(each) for each in errors])
    except Exception:
        return traceback.format_exc()
    raise AssertionError


def _raise_chained(errors: list[Exception]) -> None:
    *before, last = errors
    try:
        if before:
            _raise_chained(before)
    except Exception as cause:
        raise last from cause
    raise last


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Traceback (most recent call last):\nValueError: quire.errors: no\n", None),
        (told(MISSING), MISSING),
        (told(MISSING, TRIMMED), TRIMMED),
        (told(OSError("no"), MISSING, TRIMMED), TRIMMED),
        (told(TRIMMED, RuntimeError("of Spark's own")), TRIMMED),
        (told(TRIMMED) + "\n" + told(StoreUnavailableError("zk://a/q", "no")), TRIMMED),
    ],
)
def test_the_last_error_of_a_chain_is_the_one_that_was_raised(
    text: str, error: QuireError | None
) -> None:
    found = find_error(f"{SPARK}\n{LOST}{text}\n\tat org.apache.spark.Task.run(Task.scala)\n")
    assert (type(found), str(found)) == (type(error), str(error))


@reporting
class Called:
    """A class that Spark calls."""

    def plan(self, error: Exception) -> None:
        self.read_nothing()
        raise error

    def read(self, error: Exception) -> Iterator[int]:
        yield 1
        self.plan(error)

    def read_nothing(self) -> None:
        pass


def reported(call: Callable[[], object]) -> str:
    """As `told`, of an error that left a method that Spark called."""
    try:
        call()
    except Exception:
        return f"{SPARK}\n{LOST}{traceback.format_exc()}\n\tat org.apache.spark.Task.run\n"
    raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        TRIMMED,
        BehindError("orders", 7, 3),
        LeavingTimeoutError(["log 'a'", "reader"], 3.5),
        PositionTrimmedError("two\nlines", "3.17.0", "4.0.0"),
    ],
)
def test_fields_reach_the_program(error: QuireError) -> None:
    for text in (
        reported(lambda: Called().plan(copy(error))),
        reported(lambda: list(Called().read(copy(error)))),
    ):
        found = find_error(PySparkException(text))
        assert type(found) is type(error)
        assert (str(found), vars(found)) == (str(error), vars(error))
        assert text.count("quire error fields") == 1


class OddError(QuireError):
    """Its fields are no JSON, or too many."""

    def __init__(self, field: object) -> None:
        super().__init__("odd")
        self.field = field


@pytest.mark.parametrize("field", [object(), "x" * 5_000])
def test_an_error_whose_fields_cannot_be_told_keeps_its_text(field: object) -> None:
    text = reported(lambda: Called().plan(OddError(field)))
    assert "OddError: odd" in text
    assert "quire error fields" not in text


def test_a_note_that_spark_cut_costs_the_fields_only() -> None:
    text = reported(lambda: Called().plan(copy(TRIMMED)))
    found = find_error(text[: text.index('"position"')] + "}")
    assert (type(found), vars(found)) == (PositionTrimmedError, {})


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(PySparkException, match="of Spark's own"), typed_errors():
        raise PySparkException("of Spark's own")
    assert find_error(None) is None


def test_what_spark_raises_is_quires_error_again(spark: SparkSession, cluster: str) -> None:
    source = spark.read.format("quire").options(cluster=cluster, log="absent")
    with pytest.raises(NoSuchLogError) as absent, typed_errors():
        source.load().count()
    assert absent.value.log == "absent"
    target = spark.createDataFrame([("x",)], "payload string").write.format("quire").mode("append")
    with pytest.raises(OvertakenError) as overtaken, typed_errors():
        target.options(cluster=cluster, log="overtaken", job="late", sequence=9, after=5).save()
    assert (overtaken.value.job, overtaken.value.after, overtaken.value.found) == ("late", 5, 0)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Py4JError(MASTER), 1, "Could not parse Master URL: 'nonsense'"),
        (PySparkRuntimeError("Java gateway process exited", messageParameters={}), 1, "Java"),
        (PySparkException(f"{SPARK}\n{LOST}{told(MISSING)}"), 3, "ledger 17 does not exist"),
    ],
)
def test_what_spark_says_is_one_line(
    error: Exception, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def local_session(name: str, master: str | None) -> None:
        raise error

    monkeypatch.setattr(session, "start_java", lambda: None)
    monkeypatch.setattr(session, "local_session", local_session)
    given = ["--store", "sqlite:///nowhere", "spark", "audit", "orders"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == code, done.exception
    (line,) = done.stderr.splitlines()
    assert message in line


@pytest.mark.parametrize(
    "job", [["replay", "a", "--to", "b"], ["offload", "a", "--to", "/tmp/cold"]]
)
def test_a_password_that_is_no_text_is_refused(job: list[str]) -> None:
    given = ["--store", "sqlite:///nowhere", "spark", *job, "--password", "s\udcff"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2, done.exception
    (line,) = done.stderr.splitlines()
    assert "password" in line
    assert "udcff" not in line
