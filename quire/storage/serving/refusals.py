"""What a bookie refused to its peers: counted by reason, and logged at a bounded rate.

A peer that is refused may come again at once and for days. So each reason is logged at most once in
`LOG_SECONDS`, with the number of refusals since.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

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
