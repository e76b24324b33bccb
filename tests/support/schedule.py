"""Which tests of `make test` stay together in one worker, beside those of one file.

All tests of Spark share one session and one cluster: each further worker would start a Java, three
bookies and some twenty processes of Python of its own, of 50 s of processor.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadFileScheduling

TOGETHER: Final = ("tests/spark/",)
"""Directories whose tests run in one worker, one file after the other."""


class Schedule(LoadFileScheduling):
    """Hands out files, and some directories whole."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(test: str) -> str:
    """Return the file of a test, or the directory whose tests stay together."""
    return next((each for each in TOGETHER if test.startswith(each)), test.partition("::")[0])
