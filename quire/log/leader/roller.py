"""Rolling: a leader ends its segment and begins the next one, while appends go on.

    half full   → create the next ledger ahead; no manifest lists it yet
    full or old → list the successor in the manifest → move the writes → close and seal the previous

Appends wait only for one drain of the entries in flight. While metadata is out of reach, or the
manifest may not grow (capacity.py), the leader continues with the old ledger. Creating the ledger
ahead costs the same metadata operations, only earlier. After a crash an unlisted ledger is an
orphan (orphans.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from quire.aio.retry import retry
from quire.errors import LogFullError
from quire.log.leader.segments import Chain
from quire.log.manifest.capacity import check_growth, has_much_space, warning
from quire.log.manifest.live_options import LiveOptions
from quire.log.manifest.manifest import EMPTY
from quire.tracing.spans import EPOCH, LOG, NO_SPANS, ROLL, SEGMENT, Spans, Values

_log = logging.getLogger(__name__)

FULL_PAUSE_SECONDS: Final = 1.0
"""Time between two looks at a manifest that is full."""

WARNING_SECONDS: Final = 600.0
"""Time between two warnings of one leader that the manifest is nearly full."""

PREPARE_AT: Final = 0.5
"""Share of a full segment at which the next ledger is created: short logs never need one."""


class Roller:
    """Rolls one leader's log. Its owner runs `run` and `prepare` in tasks, and calls `end`."""

    def __init__(
        self,
        chain: Chain,
        rng: Random,
        options: LiveOptions,
        nudge: Callable[[], None],
        begun: float,
        spans: Spans = NO_SPANS,
    ) -> None:
        """`begun` is the loop time when the current segment began, for its age."""
        self._chain = chain
        self._rng = rng
        self._options = options
        self._nudge = nudge
        self._spans = spans
        self._due = asyncio.Event()
        """The task that rolls has to look: a roll is wanted, or the writes have moved."""
        self._is_wanted = False
        self._filling = asyncio.Event()
        self._switched = asyncio.Event()
        self._rolls: list[tuple[int, asyncio.Future[None]]] = []
        self.begun = begun
        self._age: asyncio.TimerHandle | None = None
        self.warns_at = 0.0
        """Loop time before which no warning is logged again."""

    @property
    def may_rest(self) -> bool:
        """Whether no roll is under way or asked for, and no ledger is to be made ahead."""
        return not (self._rolls or self._is_wanted or self._filling.is_set())

    @property
    def due_at(self) -> float | None:
        """Loop time of the roll by age; None while the segment is empty."""
        is_empty = not self._chain.current.entries
        return None if is_empty else self.begun + self._options.now.roll_seconds

    def rest(self) -> None:
        """Roll no more by age: another roller goes on."""
        if self._age is not None:
            self._age.cancel()

    def fill(self, share: float) -> None:
        """Note how full the current segment is; 1 is full."""
        number = self._chain.current.number
        if share >= 1 or any(asked == number for asked, _ in self._rolls):
            self._want()
        elif share >= PREPARE_AT:
            self._filling.set()

    def _want(self) -> None:
        self._is_wanted = True
        self._due.set()

    def switched(self) -> None:
        """Note that the writes have moved to the successor."""
        self._is_wanted = False
        self._due.set()
        self._filling.clear()
        self._switched.set()
        self._move_rolls()
        self.restart_age()

    def _move_rolls(self) -> None:
        """Move waiting rolls past a segment whose ledger failed before any entry was written.

        The entries of that segment go to the next one.
        """
        left, now = self._chain.previous, self._chain.current.number
        if left is not None and left.confirmed == EMPTY:
            self._rolls = [
                (now if asked == left.number else asked, done) for asked, done in self._rolls
            ]

    async def roll(self, *, is_idle: bool) -> None:
        """Begin a new segment; return when the old one is sealed.

        An empty segment rolls after its first entry. If nothing is to be sent (`is_idle`), the call
        does nothing.
        """
        is_empty = not self._chain.current.entries
        if is_empty and is_idle:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rolls.append((self._chain.current.number, done))
        if not is_empty:
            self._want()
        await done

    def end(self, error: Callable[[], BaseException]) -> None:
        """Stop rolling; each caller that waits for a roll gets a fresh error."""
        if self._age is not None:
            self._age.cancel()
        for _, future in self._rolls:
            if not future.done():
                future.set_exception(error())
                future.exception()

    def restart_age(self) -> None:
        """Count the age of the current segment from now on."""
        self.begun = asyncio.get_running_loop().time()
        self.age_changed()

    def age_changed(self) -> None:
        """Schedule the roll by age again: the option may have changed."""
        if self._age is not None:
            self._age.cancel()
        when = self.begun + self._options.now.roll_seconds
        self._age = asyncio.get_running_loop().call_at(when, self._on_age)

    def _on_age(self) -> None:
        if self._chain.current.entries:
            self._want()
        else:
            self.restart_age()

    async def run(self) -> None:
        """Roll forever. Raises the error that ends the leader."""
        chain = self._chain
        while True:
            await self._due.wait()
            self._due.clear()
            if chain.previous is not None:  # its ledger failed: the pump has moved the writes
                await retry(chain.seal_previous, self._rng)
                self._report()
            if not self._is_wanted:
                continue
            number = chain.current.number
            if not await self._has_space():
                await asyncio.sleep(FULL_PAUSE_SECONDS)
                self._due.set()
                continue
            about: Values = {LOG: chain.manifest.name, EPOCH: chain.epoch, SEGMENT: number}
            with self._spans.begin(ROLL, about, alone=True):
                await self._replace(number)
            self._report()

    async def _replace(self, number: int) -> None:
        """Roll a segment: install its successor, wait until the writes are there, and seal it."""
        chain = self._chain
        await retry(partial(chain.install_successor, number), self._rng)
        self._nudge()
        while chain.current.number == number:
            self._switched.clear()
            await self._switched.wait()
        await retry(chain.seal_previous, self._rng)

    async def _has_space(self) -> bool:
        """Return whether the manifest has space for another segment; warn before it is full.

        If it is full, each caller that waits for a roll gets the error.
        """
        if has_much_space(self._chain.manifest):
            return True
        # Another client may have trimmed the log since.
        manifest = await retry(self._chain.find_mine, self._rng)
        try:
            check_growth(manifest)
        except LogFullError as error:
            self._warn(str(error))
            self._refuse(error)
            return False
        self._warn(warning(manifest))
        return True

    def _warn(self, text: str | None) -> None:
        """Log a warning, at most once per `WARNING_SECONDS`."""
        now = asyncio.get_running_loop().time()
        if text is not None and now >= self.warns_at:
            self.warns_at = now + WARNING_SECONDS
            _log.warning("%s", text)

    def _refuse(self, error: LogFullError) -> None:
        for _, future in self._rolls:
            if not future.done():
                future.set_exception(error)
                future.exception()  # the caller may have given up waiting
        self._rolls = []

    async def prepare(self) -> None:
        """Create ledgers ahead, forever. Raises the error that ends the leader."""
        while True:
            await self._filling.wait()
            await retry(partial(self._chain.prepare, self._chain.current.number), self._rng)
            self._filling.clear()
            while self._chain.is_prepared:
                self._switched.clear()
                await self._switched.wait()

    def _report(self) -> None:
        number = self._chain.current.number
        for rolled, future in self._rolls:
            if rolled < number and not future.done():
                future.set_result(None)
        self._rolls = [each for each in self._rolls if not each[1].done()]
