"""Options of `quire log append` that give records keys, headers and an event time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import click

from quire.errors import ConfigurationError
from quire.log.records.attributes import Appendable, NewRecord

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """Attributes of every record of a command, and how a record names its own key."""

    key: bytes | None = None
    separator: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    event_time: datetime | None = None

    def attach(self, payloads: Sequence[bytes]) -> Sequence[Appendable]:
        """Return the records to append. Raises `ConfigurationError` for a record without a key."""
        if self == KeyOptions():
            return payloads
        return [self._record(payload) for payload in payloads]

    def _record(self, payload: bytes) -> NewRecord:
        key = self.key
        if self.separator is not None:
            key, found, payload = payload.partition(self.separator)
            if not found:
                shown = key[:40].decode(errors="backslashreplace")
                separator = self.separator.decode(errors="backslashreplace")
                raise ConfigurationError(
                    f"record {shown!r} has no key: {separator!r} does not occur in it"
                )
        return NewRecord(payload, key=key, headers=self.headers, event_time=self.event_time)


def given_attributes(
    key: str | None,
    separator: str | None,
    headers: Sequence[str],
    event_time: str | None,
) -> KeyOptions:
    """Return the attachment that the options describe. Raises `ConfigurationError`."""
    if key is not None and separator is not None:
        raise ConfigurationError("--key and --key-separator both give a key: give one of them")
    if separator == "":
        raise ConfigurationError("--key-separator '' is empty: give the text after the key")
    pairs: list[tuple[str, bytes]] = []
    for each in headers:
        name, found, value = each.partition("=")
        if not found or not name:
            raise ConfigurationError(f"--header {each!r} is not NAME=VALUE")
        pairs.append((name, os.fsencode(value)))
    return KeyOptions(
        None if key is None else os.fsencode(key),
        None if separator is None else os.fsencode(separator),
        tuple(pairs),
        None if event_time is None else _time(event_time),
    )


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ConfigurationError(
            f"--event-time {text!r} is not a time with its zone: write 2026-07-31T09:30:00Z"
        )
    return time


def attribute_options(command: Command) -> Command:
    """Add the options to a command."""
    options = (
        click.option("--key", metavar="TEXT", help="Key of the records."),
        click.option(
            "--key-separator",
            "separator",
            metavar="TEXT",
            help="Each record names its key: KEY, this text, PAYLOAD.",
        ),
        click.option(
            "--header",
            "headers",
            metavar="NAME=VALUE",
            multiple=True,
            help="Header of the records; repeatable.",
        ),
        click.option(
            "--event-time", metavar="TIME", help="When it happened, as 2026-07-31T09:30:00Z."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
