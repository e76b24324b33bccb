"""The standard streams, made fit for a command in whatever state they were handed to it.

- A closed stream (`<&-`, some daemons) is opened so that its use fails. Then a file opened later
  cannot take its number, which would break the event loop, and output cannot be lost silently.
- A character that the terminal's encoding lacks is escaped instead of ending the command.
- Output is written completely: with PYTHONUNBUFFERED Python drops the bytes that a full pipe does
  not take at once.
- An error of standard output names it: the system's own error names no file.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STANDARD_OUTPUT: Final = "standard output"
"""Its name in errors, in the place of a path."""

_UNUSABLE: Final = (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_RDONLY))
"""How each stream is opened when it is closed: the other way round, so that using it fails."""


def prepare() -> None:
    """Make the streams of this process fit for a command."""
    for name, flags in _UNUSABLE:
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            unusable = os.open(os.devnull, flags)
            setattr(sys, name, os.fdopen(unusable, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        below = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        if isinstance(below, io.FileIO):  # an object in memory stays
            sys.stdout = _named(sys.stdout)
        if sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")


class _NamedOutput(io.FileIO):
    """Standard output, which its errors name."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from error


def _named(stream: TextIO) -> io.TextIOWrapper:
    """Return a buffered stream to the same file, of the same encoding."""
    named = _NamedOutput(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(named),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=named.isatty(),
    )


def settle() -> None:
    """Flush the output. Output that cannot be flushed is dropped: the interpreter would try again
    at its end, and exit with 120 instead of the command's exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _forget(stream)


def complain(text: str) -> None:
    """Print a line on standard error, if it is open."""
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _forget(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
