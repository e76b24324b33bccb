"""A leader that numbers what it appends, and sends again what it is not sure of.

It is a producer of its own and stays the same one whenever it leads again, with others in between.
What went unanswered is sent again under its old number before anything new is; so is the last
record that was confirmed, which must be found where it was, unless it was trimmed: a log that was
trimmed to its very end has forgotten who wrote it. Some are sent again as soon as they are
confirmed, when no bookie has heard of that yet. However often a record is sent, the log has it
once (`no_duplicates`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import Final

from quire.errors import (
    ForgottenProducerError,
    HandleClosedError,
    InvalidRequestError,
    LogSealedError,
    OutcomeUnknownError,
    PositionTrimmedError,
    RetryError,
    SequenceConflictError,
    TooManyProducersError,
)
from quire.log.leader.log import Log
from quire.log.records.position import Appended, Position
from quire.log.records.producers import WINDOW, ProducerSequence
from tests.sim.history import LogAppend, LogHistory, Outcome, require

DOUBTED_SHARE: Final = 0.2
UNSURE_MAX: Final = WINDOW // 2
"""New numbers wait while so many are unsure: a log remembers only the last of a producer."""


class Sender:
    """See the module. `share` of the appends are numbered."""

    def __init__(self, name: str, history: LogHistory, rng: random.Random, share: float) -> None:
        self._name = name
        self._history = history
        self._rng = rng
        self._share = share
        self._sent: list[LogAppend] = []
        self._generation = 0
        self.found = 0
        """Records that were sent again and had been in the log."""

    def number(self, append: LogAppend) -> ProducerSequence | None:
        """Return the number of a new append, None for one that has none."""
        if self._rng.random() >= self._share or len(self._unsure()) >= UNSURE_MAX:
            return None
        self._sent.append(append)
        return ProducerSequence(self._producer, len(self._sent))

    @property
    def _producer(self) -> str:
        return f"{self._name}.{self._generation}"

    def refused(self, producer_sequence: ProducerSequence | None) -> None:
        """Go on under a new name when the log has forgotten the one in a stamp."""
        if producer_sequence is not None and producer_sequence.producer == self._producer:
            self._generation += 1
            self._sent = []

    def _unsure(self) -> list[LogAppend]:
        return [each for each in self._sent[-WINDOW:] if each.outcome is not Outcome.OK]

    async def send_again(self, log: Log) -> None:
        """Send what is unsure once more, in order. Returns early when the leader is none."""
        numbered = list(enumerate(self._sent, 1))[-WINDOW:]
        sure = [each for each in numbered if each[1].outcome is Outcome.OK][-1:]
        sure = [each for each in sure if not self._is_trimmed(each[1].positions)]
        unsure = [each for each in numbered if each[1].outcome is not Outcome.OK]
        for number, append in sorted(sure + unsure, key=lambda each: each[0]):
            try:
                await self._send(log, append, ProducerSequence(self._producer, number))
            except (OutcomeUnknownError, HandleClosedError):
                return
            except (ForgottenProducerError, TooManyProducersError):
                self.refused(ProducerSequence(self._producer, number))
                return
            except (PositionTrimmedError, InvalidRequestError):
                if self._history.trimmed_to is None:
                    raise

    async def doubt(
        self, log: Log, append: LogAppend, producer_sequence: ProducerSequence | None
    ) -> None:
        """Send what was just confirmed once more, or do not. It is where it was."""
        if producer_sequence is None or self._rng.random() >= DOUBTED_SHARE:
            return
        try:
            self._check_place(
                append, await log.append_many(append.payloads, producer_sequence=producer_sequence)
            )
            self.found += 1
        except (OutcomeUnknownError, HandleClosedError, LogSealedError, RetryError):
            return
        except ForgottenProducerError:
            self.refused(producer_sequence)
        except (PositionTrimmedError, SequenceConflictError):
            if self._history.trimmed_to is None and append is self._sent[-1]:
                raise

    async def _send(self, log: Log, append: LogAppend, producer_sequence: ProducerSequence) -> None:
        known, append.is_resent = bool(append.positions), True
        if append.outcome is Outcome.FAILED:
            append.outcome = Outcome.UNKNOWN
        before = log.next_offset
        told = await log.append_many(append.payloads, producer_sequence=producer_sequence)
        self.found += log.next_offset == before
        if known:
            self._check_place(append, told)
        self._history.confirm(append, told)

    def _check_place(self, append: LogAppend, found: Sequence[Appended]) -> None:
        assert append.offset is not None, "it was confirmed"
        before = [*map(Appended, append.positions, count(append.offset))]
        text = f"{append.payloads!r} of {self._name} was at {before}, is now at {found}"
        require(list(found) == before, "a record sent again is where it was", text)

    def _is_trimmed(self, positions: Sequence[Position]) -> bool:
        trimmed_to = self._history.trimmed_to
        return trimmed_to is not None and positions[-1] < trimmed_to
