"""Before and after a run: garbage is collected between runs, never during one, and in silence.

Objects that the collector ends take steps of their own: in a run they would come at moments that no
seed decides. After a run the coroutines that are left are unwound. Their loop is gone, so their
last words mean nothing.
"""

from __future__ import annotations

import atexit
import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quire.testing.sim.loop import SimLoop
from quire.testing.sim.process import last_words_ignored

COLLECT_EVERY: Final = 20
"""Runs between two whole collections."""

_runs = 0


@contextmanager
def undisturbed(loop: SimLoop) -> Iterator[None]:
    """Let a loop's run be in the block, without a collection; then end the rest of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    _freeze()
    try:
        yield
    finally:
        _clean_up(loop, was_enabled)


def _freeze() -> None:
    """Keep imported modules out of every later collection."""
    if _runs == 0:
        gc.collect()
        gc.freeze()
        atexit.register(collect_quietly)


def collect_quietly() -> None:
    """End what is left of the last runs now: not in a later test, nor in the interpreter's own last
    moments.
    """
    with warnings.catch_warnings(), last_words_ignored():
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()


def _clean_up(loop: SimLoop, was_enabled: bool) -> None:
    global _runs
    _runs += 1
    with warnings.catch_warnings(), _silence(), last_words_ignored():
        warnings.simplefilter("ignore", RuntimeWarning)
        loop.dispose()
        if _runs % COLLECT_EVERY == 0:
            gc.collect()
        elif was_enabled:
            gc.collect(0)
    if was_enabled:
        gc.enable()


@contextmanager
def _silence() -> Iterator[None]:
    """Let production's loggers say nothing."""
    logger = logging.getLogger("quire")
    before, logger.propagate = logger.propagate, False
    handler = logging.NullHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
