"""Requests by name: an id that travels from client to bookie, stages, and a log of the slow ones.

A request id is 64 random bits, in hexadecimal digits. Runs share a stream, so the id of a run is
the id of its stream and its number in it: the client's log and the bookie's name the same append.
Other calls share the id of their work (`requesting`), or draw their own.

A trace notes the moments between the stages of a request. The context carries it to the parts that
know them: the journal knows when a batch was written, and knows nothing of connections. It costs a
run some stores into slots, and an entry nothing. Stages are computed for slow requests only.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

SLOW_SECONDS: Final = 1.0
"""A request that takes as long is written to the log, with its stages."""

LINES_BURST: Final = 20
"""So many lines may come at once; after them one a second. A slow disk makes all appends slow."""

REQUEST_ID: Final[ContextVar[str]] = ContextVar("quire_request", default="")
"""The id of the request that this work belongs to; empty outside of one."""

TRACE: Final[ContextVar[Trace | None]] = ContextVar("quire_trace", default=None)
"""Where the moments of the request at hand are noted; None if no log wants them."""

_FORM: Final = re.compile(r"[0-9A-Za-z._:-]{1,64}")


def new_request_id() -> str:
    """Return an id that no other request has."""
    return secrets.token_hex(8)


def checked_id(text: object) -> str:
    """Return the id that a peer sent; empty for anything else. Ids end up in logs."""
    return text if isinstance(text, str) and _FORM.fullmatch(text) else ""


def run_id(stream: str, number: int) -> str:
    """Return the id of a run; empty if its stream has none."""
    return f"{stream}-{number}" if stream else ""


@contextmanager
def requesting(request: str = "") -> Iterator[str]:
    """Give all calls in the block one id, and yield it: the given id, or the id of the work around
    it, or a new id.
    """
    chosen = request or REQUEST_ID.get() or new_request_id()
    token = REQUEST_ID.set(chosen)
    try:
        yield chosen
    finally:
        REQUEST_ID.reset(token)


class Trace:
    """The moments between the stages of a request, by the loop's clock; 0.0 until then."""

    __slots__ = ("accepted", "arrived", "begun", "durable", "worked")

    def __init__(self, arrived: float) -> None:
        self.arrived = arrived
        self.accepted = 0.0
        """The journal, or the bookie's work, took it in."""
        self.begun = 0.0
        """The journal began to write it."""
        self.durable = 0.0
        """It was written and synced."""
        self.worked = 0.0
        """The bookie was done with it."""

    def begin_again(self, now: float) -> None:
        """Forget the time until now: the client asked for a wait."""
        self.arrived, self.accepted = now, 0.0

    def stages(self, ended: float) -> dict[str, float]:
        """Return the seconds of each stage, in order. A moment that was not noted has no stage, and
        its time belongs to the next.

        `accept` is spent on rights, limits and memory, `queue` in the journal's queue, `journal` on
        the write and sync of the batch, `work` on anything else, `answer` on the way out.
        """
        moments = (
            ("accept", self.accepted),
            ("queue", self.begun),
            ("journal", self.durable),
            ("work", self.worked),
            ("answer", ended if ended > self.worked else 0.0),
        )
        found: dict[str, float] = {}
        before = self.arrived
        for stage, moment in moments:
            if moment:
                found[stage] = max(0.0, moment - before)
                before = max(before, moment)
        return found


class SlowRequests:
    """Writes slow requests to a log, at a bounded rate. One owner, on one loop."""

    def __init__(self, log: logging.Logger, seconds: float = SLOW_SECONDS) -> None:
        """A request is slow if it takes `seconds` or longer: each with 0, none with infinity."""
        self.seconds: Final = seconds
        self._log: Final = log
        self._left = float(LINES_BURST)
        self._looked_at = 0.0
        self._unsaid = 0

    def tell(
        self, kind: str, trace: Trace, now: float, request: str, keys: Mapping[str, object]
    ) -> None:
        """Write a finished request to the log if it was slow. After too many lines the next line
        counts it instead. `keys` are its bookie, ledger and so on; empty ones are left out.
        """
        if now - trace.arrived < self.seconds or not self._may_say(now):
            return
        stages = {stage: round(taken, 6) for stage, taken in trace.stages(now).items()}
        about = {key: value for key, value in keys.items() if value not in ("", None)}
        spent = ", ".join(f"{stage} {taken:.3f}" for stage, taken in stages.items())
        named = "".join(f", {key} {value}" for key, value in about.items())
        unsaid, self._unsaid = self._unsaid, 0
        more = f"; {unsaid} more since the last line" if unsaid else ""
        seconds = round(now - trace.arrived, 6)
        self._log.warning(
            "slow %s: %.3f s (%s), request %s%s%s",
            *(kind, seconds, spent, request or "unnamed", named, more),
            extra={
                "event": "slow_request",
                "kind": kind,
                "seconds": seconds,
                "stages": stages,
                "request": request,
                **about,
                "unsaid": unsaid,
            },
        )

    def _may_say(self, now: float) -> bool:
        """Take a line off the budget, which grows by one a second."""
        self._left = min(float(LINES_BURST), self._left + now - self._looked_at)
        self._looked_at = now
        if self._left < 1.0:
            self._unsaid += 1
            return False
        self._left -= 1.0
        return True
