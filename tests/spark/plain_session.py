"""The offload job as a process that needs no Java: to be killed, often and cheaply.

    python -m tests.spark.plain_session STORE LOG TARGET

What a job asks of Spark is to map a function over a list; here the process does it itself, so that
driver and executor die together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from quire.spark.jobs import offload_log
from quire.spark.jobs.copy import Place


class PlainContext:
    """As much of a SparkContext as the job uses."""

    defaultParallelism = 2  # noqa: N815 Spark's name

    def parallelize(self, items: Sequence[Any], pieces: int) -> PlainItems:
        return PlainItems(items)


class PlainItems:
    """A list that waits for its function."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def map(self, function: Callable[[Any], Any]) -> PlainItems:
        return PlainItems([function(item) for item in self._items])

    def collect(self) -> Sequence[Any]:
        return self._items


class PlainSession:
    """As much of a session as the job uses."""

    sparkContext = PlainContext()  # noqa: N815 Spark's name


if __name__ == "__main__":
    store, log, target = sys.argv[1:]
    session: Any = PlainSession()
    offload_log(session, Place(store, log), target)
