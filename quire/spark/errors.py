"""Typed errors of Spark's workers: `PositionTrimmedError` with its fields, instead of Spark's text.

Spark carries an exception of a worker to the program as text, in the middle of its own report. So a
method that Spark calls adds a note with the error's fields to the error (`reporting`), Python
prints notes after the error, and the program has the error made again out of the text:

    with quire.spark.errors.typed_errors():
        frame.count()

    quire.spark.errors.find_error(query.exception())

The note is JSON and never a pickle: whatever the text holds, no code of it runs.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from itertools import takewhile
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from quire.errors import QuireError, SparkFailedError

C = TypeVar("C")

_LAST_LINE: Final = re.compile(r"^(?:\S+: )?(quire(?:\.\w+)+)\.(\w+Error): (.+)$", re.MULTILINE)
"""How a traceback of Python ends."""

_NOTE: Final = re.compile(r"^quire error fields: (\{.*\})$", re.MULTILINE)
_NEXT: Final = re.compile(r"^Traceback \(most recent call last\)|^\tat ", re.MULTILINE)

NOTE_MAX: Final = 2_000
"""Characters of a note; an error with larger fields has none."""

REASON_MAX: Final = 500
"""Characters kept of Spark's report; its plans fill pages."""

_GOES_ON: Final = re.compile(r"\s*(?:The above exception was|During handling of the above)")
"""The text that Python writes between an error and the error that it led to."""


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise quire's own error if Spark failed because of it; other errors stay as they are.

    Raises:
        QuireError: the error that a worker raised, of its own type, with its fields. Spark's
            exception is its cause.

    Cancellation: nothing to undo.

    Guarantees: it starts no job and asks Spark nothing.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = find_error(error)
        if found is None:
            raise
        raise found from error


def find_error(report: BaseException | str | None) -> QuireError | None:
    """Return quire's error in a report of Spark.

    Args:
        report: what Spark raised, `query.exception()` of a streaming query, or its text.

    Returns:
        The error that ends the first traceback of quire's: not the error that led to it. Fields
        that JSON cannot carry are missing. None if quire raised no error.

    Cancellation: nothing to undo.

    Guarantees: no code of the report is run, and it is not imported from anywhere but quire.
    """
    text = str(report or "")
    found: QuireError | None = None
    for match in _LAST_LINE.finditer(text):
        end = _NEXT.search(text, match.end())
        note = _NOTE.search(text, match.end(), end.start() if end else len(text))
        module, name, sentence = match.groups()
        if note is not None:  # it comes after the last line of the sentence
            sentence = text[match.start(3) : note.start()].rstrip("\n")
        found = _error(module, name, sentence, note) or found
        if found is not None and not _GOES_ON.match(text, note.end() if note else match.end()):
            break
    return found


@contextmanager
def plain_errors() -> Iterator[None]:
    """As `typed_errors`, and `SparkFailedError` in one line for all other errors.

    Raises:
        QuireError: the error that a worker raised.
        SparkFailedError: Spark itself failed.

    Cancellation: nothing to undo.

    Guarantees: as `typed_errors`.
    """
    try:
        with typed_errors():
            yield
    except (PySparkException, Py4JError) as error:
        lines = takewhile(lambda line: not line.startswith("\tat "), str(error).splitlines())
        reason = " ".join(line.strip() for line in lines if line.strip())
        raise SparkFailedError(reason[:REASON_MAX]) from error


def reporting(kind: type[C]) -> type[C]:
    """Decorate a class that Spark calls: quire's errors in its public methods carry their fields.

    Args:
        kind: the class.

    Returns:
        The class itself, with each of its own public methods wrapped.

    Cancellation: not applicable.

    Guarantees: signatures stay the same, since Spark looks at them.
    """
    for name, method in list(vars(kind).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _reported(method))
    return kind


def _reported(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        with _noting():
            return method(*args, **options)

    @wraps(method)
    def generate(*args: Any, **options: Any) -> Iterator[Any]:
        with _noting():
            yield from method(*args, **options)

    return generate if isgeneratorfunction(method) else call


@contextmanager
def _noting() -> Iterator[None]:
    try:
        yield
    except QuireError as error:
        if any(_NOTE.fullmatch(note) for note in getattr(error, "__notes__", ())):
            raise  # a method that this one called has noted them
        fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        with suppress(TypeError, ValueError):  # JSON cannot carry the fields: the text has to do
            note = json.dumps(fields)
            if len(note) <= NOTE_MAX:
                error.add_note(f"quire error fields: {note}")
        raise


def _error(module: str, name: str, sentence: str, note: re.Match[str] | None) -> QuireError | None:
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    if not (isinstance(kind, type) and issubclass(kind, QuireError)):
        return None
    error: QuireError = kind.__new__(kind)
    error.args = (sentence,)
    with suppress(ValueError):  # Spark cut the text
        fields = json.loads(note[1]) if note is not None else {}
        error.__dict__.update({key: _frozen(value) for key, value in fields.items()})
    return error


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
