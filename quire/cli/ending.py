"""Signals that end a command as Ctrl-C does, wherever its work is done.

All of them end in KeyboardInterrupt. A signal that the process ignores stays ignored: `nohup`
ignores the loss of the terminal, and a script ignores Ctrl-C for a command in the background.
"""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Signals that end a command as Ctrl-C does; Windows has no SIGHUP."""

JAVA_SECONDS_MAX: Final = 10.0
"""How long Java may take to remove its files before it is killed."""


@contextmanager
def handling(
    come: Callable[[int, FrameType | None], None], numbers: tuple[int, ...] = ENDING
) -> Iterator[None]:
    """Let signals call `come` within the block, except ignored signals."""
    replaced = {
        number: signal.signal(number, come)
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, previous in replaced.items():
            signal.signal(number, previous)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, as Python's own handler of Ctrl-C does."""
    raise KeyboardInterrupt


class JavaWork:
    """Work that a Java process does for this process. At a signal Java ends first, then Python.

    While Java runs, a thread that waits for its answer cannot be interrupted, and the cleanup needs
    Java's help: once Java has ended, both fail at once. If this process ended first, the Java
    process could stay permanently.
    """

    def __init__(
        self, find: Callable[[], subprocess.Popen[Any] | None], silence: Callable[[], None]
    ) -> None:
        self._find = find
        """Returns the Java process; None before its start, or if another process must end it."""
        self._silence = silence
        self._is_starting = False
        self.has_come = False
        """A signal has arrived: Java has ended, so a cleanup is neither needed nor possible."""

    @contextmanager
    def handling(self) -> Iterator[JavaWork]:
        """Handle signals and Ctrl-C in the block. An error after a signal is KeyboardInterrupt."""
        with handling(self._come, (signal.SIGINT, *ENDING)):
            try:
                yield self
            except Exception:
                if self.has_come:
                    raise KeyboardInterrupt from None
                raise

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Start Java within the block: until its process is known, a signal cannot end it."""
        self._is_starting = True
        try:
            yield
        finally:
            self._is_starting = False
        if self.has_come:
            self._end()

    def _come(self, number: int, frame: FrameType | None) -> None:
        if not self.has_come:  # a later signal must not interrupt the cleanup
            self.has_come = True
            if not self._is_starting:
                self._end()

    def _end(self) -> None:
        logging.disable()  # the bridge to Java reports the end of Java with tracebacks
        java = self._find()
        if java is not None:
            self._silence()
            java.terminate()
            try:
                java.wait(JAVA_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                java.kill()
                java.wait()
        raise KeyboardInterrupt
