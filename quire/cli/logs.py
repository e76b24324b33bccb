"""How a server writes its log: text for people, JSON for programs.

A line of JSON has `time` (UTC, ISO 8601), `level`, `logger`, `message`, the process, and what the
message is about as keys of their own: everything that a record was given by `extra=`. An exception
is one string, with its lines.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final

import click

LEVELS: Final = ("debug", "info", "warning", "error")

_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Attributes of every record. What else one has, its message is about."""


class JsonLines(logging.Formatter):
    """One JSON object a record, on one line."""

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
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


@dataclass(frozen=True, slots=True)
class LogOutput:
    """The form and the level of a log."""

    form: str = "text"
    level: str = "info"

    def begin(self) -> None:
        """Write the log of this process to standard error from now on."""
        handler = logging.StreamHandler(sys.stderr)
        text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        handler.setFormatter(JsonLines() if self.form == "json" else text)
        logging.basicConfig(level=self.level.upper(), handlers=[handler])


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
