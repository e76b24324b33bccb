"""How a server writes its log: text for people, JSON for programs.

A line of JSON has `time` (UTC, ISO 8601), `level`, `logger`, `message`, the process, and the
subjects of the message as keys of their own: everything given by `extra=`, and the values that
follow one of the words `KEYS` in the text, as in "ledger %d". A record written for a request has
its id. An exception is one string, with its lines.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final

import click

from quire.requests import REQUEST_ID

LEVELS: Final = ("debug", "info", "warning", "error")

_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Attributes of every record. What else one has, its message is about."""


KEYS: Final = ("bookie", "ledger", "entry", "log", "epoch", "peer", "request")
"""The subjects of messages: the same key in every message."""

_CONVERSION: Final = re.compile(rf"(?:\b({'|'.join(KEYS)}) )?%([^a-zA-Z%]*)([a-zA-Z%])")


def keys_of(template: object, values: object) -> dict[str, object]:
    """Return the values that follow one of `KEYS` in the template of a message. Pure.

    A message without such words, or with other arguments than its template takes, gives nothing.
    """
    if not isinstance(template, str) or not isinstance(values, tuple):
        return {}
    found = [each for each in _CONVERSION.finditer(template) if each[3] != "%"]
    if len(found) != len(values) or any("*" in each[2] for each in found):
        return {}
    pairs = zip(found, values, strict=True)
    return {each[1]: value for each, value in pairs if each[1] is not None}


class JsonLines(logging.Formatter):
    """One JSON object a record, on one line."""

    def __init__(self) -> None:
        super().__init__()
        self.always: dict[str, object] = {}
        """Keys of all lines of the process."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": os.getpid(),
        }
        if request := REQUEST_ID.get():
            fields["request"] = request
        fields |= self.always | keys_of(record.msg, record.args)
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


@dataclass(frozen=True, slots=True)
class LogOutput:
    """The form and the level of a log."""

    form: str = "text"
    level: str = "info"
    _lines: JsonLines = field(default_factory=JsonLines, compare=False, repr=False)

    def begin(self) -> None:
        """Write the log of this process to standard error from now on."""
        handler = logging.StreamHandler(sys.stderr)
        text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        handler.setFormatter(self._lines if self.form == "json" else text)
        logging.basicConfig(level=self.level.upper(), handlers=[handler])

    def note(self, **about: object) -> None:
        """Put keys on all lines from now on. A bookie learns its id after its log has begun."""
        self._lines.always |= about


def logging_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of its log; it takes them as `logging`, a `LogOutput`."""

    @click.option(
        "--log-format",
        type=click.Choice(("text", "json")),
        default="text",
        show_default=True,
        help="Lines for people, or JSON objects for programs.",
    )
    @click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        help="The least important messages that are written.",
    )
    @wraps(command)
    def wrapped(*args: Any, log_format: str, log_level: str, **kwargs: Any) -> Any:
        return command(*args, logging=LogOutput(log_format, log_level), **kwargs)

    return wrapped
