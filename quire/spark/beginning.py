"""Whether a batch read can begin where its options say.

A trimmed log is read from its first remaining record. But options that name a place count on the
records after it: if those were trimmed, silent continuation would lose records.
"""

from __future__ import annotations

from quire.errors import PositionTrimmedError
from quire.log.records.position import BEGINNING
from quire.spark.options import ReadOptions
from quire.sync import SyncClient


def check_beginning(client: SyncClient, log: str, options: ReadOptions) -> None:
    """Raise `PositionTrimmedError`, naming the option, when its place in the log was trimmed."""
    if not options.fail_on_data_loss:
        return
    bounds, named = options.bounds, options.starting.number_of(log)
    for option, place in (
        ("fromPosition", bounds.first),
        ("fromOffset", bounds.first_offset),
        ("startingOffsets", named or 0),
    ):
        if place in (BEGINNING, 0):
            continue
        try:
            client._logs.check_left(log, place, password=options.password)
        except PositionTrimmedError as error:
            place_and_option = f"{error.position} (option {option})"
            left = f"{error.first} (or give failOnDataLoss=false)"
            raise PositionTrimmedError(log, place_and_option, left) from error
