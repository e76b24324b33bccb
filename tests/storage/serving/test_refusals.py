"""Internal errors in the log: each with its traceback, and at a bounded rate."""

from __future__ import annotations

import asyncio

import pytest

from quire.storage.serving.limits import Reception
from quire.storage.serving.refusals import LOG_SECONDS
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from tests.support.virtual import virtually


def defect(word: str) -> Exception:
    """Return an error of one line of the program, whatever it says."""
    try:
        raise ValueError(word)
    except ValueError as error:
        return error


def test_the_same_internal_error_is_logged_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        for _ in range(2):
            for number in range(100):
                failure = reception.failure(defect(f"stranger's {number}"))
                assert failure.status == pb.INTERNAL
            await asyncio.sleep(LOG_SECONDS)

    virtually(main)
    assert [each.message for each in caplog.records] == [
        "bookie b1 met an internal error; 0 more since the last line",
        "bookie b1 met an internal error; 99 more since the last line",
    ]
    assert all(each.exc_info for each in caplog.records)


def test_another_internal_error_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        reception = Reception(MemoryBookie("b1"), "b1")
        reception.failure(defect("one"))
        reception.failure(ValueError("never raised"))
        reception.failure(KeyError("another"))

    virtually(main)
    assert len(caplog.records) == 3
