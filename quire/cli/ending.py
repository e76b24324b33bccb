"""Signals that end a command as Ctrl-C does, wherever its work is done.

All of them end in KeyboardInterrupt. What is ignored stays ignored, by itself: `nohup` takes the
terminal away, a script that puts us into the background takes Ctrl-C.
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
    """Have signals call `come` for a while, except those that are ignored."""
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
    """A stretch of work that Java does for us. At a signal Java ends first, then we do.

    While Java runs, whoever waits for its answer cannot be reached, and cleaning up needs its help:
    once it is gone both fail at once. A Java that is left when we end may stay for good.
    """

    def __init__(
        self, find: Callable[[], subprocess.Popen[Any] | None], silence: Callable[[], None]
    ) -> None:
        self._find = find
        """Tells the process, or None while there is none, or where it is not ours to end."""
        self._silence = silence
        self._is_starting = False
        self.has_come = False
        """A signal has: there is nothing left to clean up, and nobody who could."""

    @contextmanager
    def handling(self) -> Iterator[JavaWork]:
        """Take signals, and Ctrl-C, in here. Whatever fails after one is KeyboardInterrupt."""
        with handling(self._come, (signal.SIGINT, *ENDING)):
            try:
                yield self
            except Exception:
                if self.has_come:
                    raise KeyboardInterrupt from None
                raise

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Let Java's process come up in here: nobody knows it before, so nobody could end it."""
        self._is_starting = True
        try:
            yield
        finally:
            self._is_starting = False
        if self.has_come:
            self._end()

    def _come(self, number: int, frame: FrameType | None) -> None:
        if not self.has_come:  # what comes later must not cut the cleanup
            self.has_come = True
            if not self._is_starting:
                self._end()

    def _end(self) -> None:
        logging.disable()  # the bridge to Java tells with tracebacks that Java is gone
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
