"""What a bookie refused to its peers: counted by reason, and logged at a bounded rate.

A peer that is refused may come again at once and for days. So each reason is logged at most once in
`LOG_SECONDS`, with the number of refusals since. So is each internal error that a peer's request
meets: an error of one type from one line of the program.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from traceback import walk_tb
from typing import Final

from quire.entry import BookieId

LOG_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class Refusals:
    """The refusals of one bookie since its start. One owner, on one loop."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By reason, a word for the figures."""
        self._said: dict[str, tuple[float, int]] = {}
        """When each reason was logged last, and its count then."""

    def count(self, reason: str, details: str) -> None:
        """Count a refusal, and log it unless its reason was logged a moment ago."""
        self.counts[reason] += 1
        now = asyncio.get_running_loop().time()
        at, before = self._said.get(reason, (-LOG_SECONDS, 0))
        if now - at >= LOG_SECONDS:
            count = self.counts[reason]
            self._said[reason] = (now, count)
            _log.warning(
                "refused %d since the last warning (%s): %s", count - before, reason, details
            )


class InternalErrors:
    """The internal errors of one bookie since its start. One owner, on one loop."""

    def __init__(self, bookie: BookieId) -> None:
        self._bookie = bookie
        self._said: dict[tuple[str, str, int], float] = {}
        """When each was logged last, by type and line of the program."""
        self._unsaid: Counter[tuple[str, str, int]] = Counter()

    def tell(self, error: BaseException) -> None:
        """Log an error with its traceback, unless the same was logged a moment ago."""
        now, kind = asyncio.get_running_loop().time(), _kind_of(error)
        if now - self._said.get(kind, -LOG_SECONDS) < LOG_SECONDS:
            self._unsaid[kind] += 1
            return
        self._said[kind] = now
        text = "bookie %s met an internal error; %d more since the last line"
        _log.error(text, self._bookie, self._unsaid.pop(kind, 0), exc_info=error)


def _kind_of(error: BaseException) -> tuple[str, str, int]:
    """Return the type of an error and the line that raised it: there are not many of them."""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    file, line = lines[-1] if lines else ("", 0)
    return type(error).__name__, file, line
