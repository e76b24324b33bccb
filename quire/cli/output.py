"""How results are printed: tables for people, JSON for programs, progress on stderr for both."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
)
from rich.progress import TimeElapsedColumn as ElapsedColumn
from rich.table import Table

from quire.cli.ending import handling, interrupt
from quire.cli.streams import STANDARD_OUTPUT
from quire.errors import ConfigurationError

WIDE_COLUMNS: Final = 1_000_000
"""A width that cuts nothing off: a table is as wide as its contents, and a terminal wraps."""

Value: TypeAlias = "str | float | bool | Sequence[Value] | Mapping[str, Value] | None"


def print_json(value: object) -> None:
    """Print one JSON value on one line, with characters that the output encoding lacks escaped."""
    line = json.dumps(value, ensure_ascii=False)
    try:
        line.encode(sys.stdout.encoding)
    except UnicodeEncodeError:  # also half a character, as names of files may hold
        line = json.dumps(value)
    click.echo(line)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print rows under their headings, or `empty` without rows."""
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, sample in zip(columns, rows[0], strict=True):
        numeric = isinstance(sample, int | float) and not isinstance(sample, bool)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console = _console()
    console.width = WIDE_COLUMNS
    console.print(table)


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(name, cell(value))
    _console().print(table)


@contextlib.contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show progress of long work on stderr while it is a terminal.

    Yields a function that takes how much more was done.
    """
    with _bar(what, total) as (bars, bar):
        yield lambda more: bars.advance(bar, more)


@contextlib.contextmanager
def progress_of(what: str) -> Iterator[Callable[[int, int], None]]:
    """As `progress`, for work that reports how much is done, and the total."""
    with _bar(what, None) as (bars, bar):
        yield lambda done, total: bars.update(bar, completed=done, total=total)


@contextlib.contextmanager
def _bar(what: str, total: int | None) -> Iterator[tuple[Progress, TaskID]]:
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    with Progress(
        *columns,
        MofNCompleteColumn(),
        ElapsedColumn(),
        console=console,
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bars:
        yield bars, bars.add_task(what, total=total)


def note(text: str) -> None:
    """Print a remark for people on stderr, where it does not mix with results."""
    click.echo(text, err=True)


def confirm(question: str) -> None:
    """Ask whether to destroy something. Raises `click.Abort` at a no, and `ConfigurationError` when
    standard input ends without an answer.
    """
    try:
        with handling(interrupt):
            click.confirm(question, abort=True, err=True)
    except click.Abort as error:
        if not isinstance(error.__context__, EOFError):
            raise
        note("")  # the question's line is still open
        raise ConfigurationError(
            "not deleted: cannot prompt (standard input ended); pass --yes"
        ) from None


def write_line(line: bytes) -> None:
    """Write one line of payload to standard output, as it is."""
    stdout = sys.stdout.buffer
    stdout.write(line)
    stdout.write(b"\n")


def flush() -> None:
    """Pass the output written so far on to its reader."""
    sys.stdout.buffer.flush()


class _Paper(Console):
    """Standard output for drawings, where the end of the reader is an error as elsewhere."""

    def on_broken_pipe(self) -> None:
        # rich would end the process with exit code 1
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE), STANDARD_OUTPUT)


def screen(width: int | None = None) -> Console:
    """Return standard output for drawings that fill its width: 80 columns where it is no terminal,
    or `COLUMNS`.
    """
    return _Paper(highlight=False, markup=False, emoji=False, width=width)


def _console() -> Console:
    console = _Paper(highlight=False, markup=False, emoji=False)
    if not sys.stdout.isatty():  # FORCE_COLOR makes rich take it for a terminal
        console.width = WIDE_COLUMNS
    return console


def cell(value: object) -> str:
    """Return a value as people read it, in a table or in a line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:,}" if isinstance(value, float) else str(value)
    # A name may hold anything: no line break in it splits a row, nothing in it steers a terminal.
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
