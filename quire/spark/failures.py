"""Finds the error of a Spark worker in Spark's report.

Spark reports an exception of a worker as text in the middle of its own. The command line, and
callers that decide by the kind of an error, need quire's error.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from quire.errors import QuireError, SparkFailedError

_LAST_LINE: Final = re.compile(r"^(?:\S+: )?(quire(?:\.\w+)+)\.(\w+Error): (.+)$", re.MULTILINE)
"""How a traceback of Python ends."""

REASON_MAX: Final = 500
"""Characters kept of Spark's report; its plans fill pages."""

_GOES_ON: Final = re.compile(r"\s*(?:The above exception was|During handling of the above)")
"""The text that Python writes between an error and the error that it led to."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """As `workers_errors`, and `SparkFailedError` in one line for all other errors."""
    try:
        with workers_errors():
            yield
    except (PySparkException, Py4JError) as error:
        lines = takewhile(lambda line: not line.startswith("\tat "), str(error).splitlines())
        reason = " ".join(line.strip() for line in lines if line.strip())
        raise SparkFailedError(reason[:REASON_MAX]) from error


@contextmanager
def workers_errors() -> Iterator[None]:
    """Raise a worker's error if Spark failed because of it; other errors stay as they are.

    The error has its text only: its attributes stayed in the worker.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = find_error(str(error))
        if found is None:
            raise
        raise found from error


def find_error(text: str) -> QuireError | None:
    """Return the error that ends the first traceback of quire's in a text: not what led to it."""
    found: QuireError | None = None
    for match in _LAST_LINE.finditer(text):
        found = _error(*match.groups()) or found
        if found is not None and not _GOES_ON.match(text, match.end()):
            break
    return found


def _error(module: str, name: str, sentence: str) -> QuireError | None:
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    if not (isinstance(kind, type) and issubclass(kind, QuireError)):
        return None
    error: QuireError = kind.__new__(kind)
    error.args = (sentence,)
    return error
