"""The deadlines of one writer, for its runs under way and its appends, by one alarm.

Most appends come while the alarm is set for earlier ones. Then nothing is computed: later runs
and appends are due later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quire.aio.alarm import Alarm
from quire.ledger.ensemble import Ensemble
from quire.ledger.options import LedgerOptions
from quire.ledger.pending_appends import PendingAppends


class Deadlines:
    """Rings when a run or an append may be due. `watch` after each sending and queueing."""

    __slots__ = ("_alarm", "_appends", "_ensemble", "_patience", "_timeout")

    def __init__(
        self,
        ensemble: Ensemble,
        appends: PendingAppends,
        options: LedgerOptions,
        ring: Callable[[], None],
    ) -> None:
        self._alarm: Final = Alarm(ring)
        self._ensemble: Final = ensemble
        self._appends: Final = appends
        self._timeout: Final = options.append_timeout
        self._patience: Final = min(options.request_timeout, options.append_timeout)

    def watch(self) -> None:
        """Ring no later than the first deadline."""
        is_crowded, oldest = self._appends.is_waiting, self._appends.oldest
        if oldest is not None and not is_crowded and self._alarm.is_set(oldest + self._patience):
            return  # for runs before, too; runs of now were sent no earlier than that append came
        self._alarm.set(self._ensemble.deadline(is_crowded))
        if oldest is not None:
            self._alarm.set(oldest + self._timeout)

    def cancel(self) -> None:
        """Ring no more."""
        self._alarm.cancel()
