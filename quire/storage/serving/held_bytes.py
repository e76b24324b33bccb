"""Bytes that a bookie holds for its peers' sake: messages that are not whole, answers not taken.

A peer decides how long such bytes stay: it sends half of a message, or takes no answer. So all
peers together have one budget. When it is used up, the owner that holds most loses a place, its
oldest: a peer that stalls takes places from itself before it takes one from another peer.

Invariants: at most `bytes_max` are held after each call, and no holder stays for longer than
`seconds` without progress. Not here: the effect of a drop, which is the holder's (framed.py,
grpc_service.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final

from quire.storage.serving.refusals import Refusals

STALLED_SECONDS: Final = 30.0
"""A peer that makes no progress for so long is dropped."""


class _Account:
    __slots__ = ("drop", "owner", "since", "size")

    def __init__(self, since: float, owner: str, drop: Callable[[str], None]) -> None:
        self.since = since
        self.size = 0
        self.drop = drop
        self.owner = owner


class HeldBytes:
    """One budget over all peers, for one kind of bytes.

    Args:
        what: the kind, in a few words; reasons and the log begin with it.
        label: the reason in the figures.
        bytes_max: the budget.
        grace: seconds for which a holder cannot lose its place to another.
        refusals: where drops are counted.
        seconds: a holder without progress is dropped after this time.
    """

    def __init__(
        self,
        what: str,
        label: str,
        bytes_max: int,
        refusals: Refusals,
        *,
        grace: float = 0.0,
        seconds: float = STALLED_SECONDS,
    ) -> None:
        self.bytes_max = bytes_max
        self.total = 0
        self._what = what
        self._label = label
        self._grace = grace
        self._seconds = seconds
        self._refusals = refusals
        self._holdings: dict[Hashable, _Account] = {}
        """Oldest first."""
        self._owned: Counter[str] = Counter()
        """Bytes by owner."""
        self._alarm: asyncio.TimerHandle | None = None

    def hold(
        self, holder: Hashable, size: int, drop: Callable[[str], None], owner: str = ""
    ) -> bool:
        """Count bytes for a holder, or count its bytes anew; its age goes on. A refusal leaves the
        bytes that it had.

        Args:
            holder: the peer's connection or call.
            size: all bytes held for it now.
            drop: called with the reason when the holder loses its place; it must free the bytes.
            owner: the peer that the holder belongs to.

        Returns:
            Whether the holder has a place for the bytes. It has none when there is no space, and
            the oldest holder of the owner that holds most is within its grace.
        """
        loop = asyncio.get_running_loop()
        holding, had = self._holdings.get(holder), 0
        if holding is None:
            holding = self._holdings[holder] = _Account(loop.time(), owner, drop)
        else:
            had = holding.size
        self._resize(holding, size)
        while self.total > self.bytes_max:
            oldest, found = self._victim()
            if loop.time() - found.since < self._grace:
                if not had or self._holdings.get(holder) is not holding:
                    self.release(holder)
                else:
                    self._resize(holding, had)
                self._refusals.count(self._label, f"{self._what}: {self.bytes_max} bytes are held")
                return False
            self._drop(oldest, f"{self._what}, and others need the space")
        self._watch(loop)
        return holder in self._holdings

    def release(self, holder: Hashable) -> None:
        """Forget a holder: it has finished, or is gone. Harmless when it holds nothing."""
        holding = self._holdings.pop(holder, None)
        if holding is not None:
            self._resize(holding, 0)

    def renew(self, holder: Hashable) -> None:
        """Begin the age of a holder anew: its peer makes progress. Harmless without bytes."""
        holding = self._holdings.pop(holder, None)
        if holding is not None:
            holding.since = asyncio.get_running_loop().time()
            self._holdings[holder] = holding

    def _resize(self, holding: _Account, size: int) -> None:
        self.total += size - holding.size
        owned = self._owned[holding.owner] = self._owned[holding.owner] + size - holding.size
        holding.size = size
        if not owned:
            del self._owned[holding.owner]

    def _victim(self) -> tuple[Hashable, _Account]:
        """Return the oldest holder of the owner that holds most."""
        greedy = max(self._owned, key=self._owned.__getitem__)
        return next(each for each in self._holdings.items() if each[1].owner == greedy)

    def _drop(self, holder: Hashable, reason: str) -> None:
        holding = self._holdings[holder]
        self.release(holder)
        self._refusals.count(self._label, reason)
        holding.drop(reason)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._alarm is None and self._holdings:
            oldest = next(iter(self._holdings.values()))
            self._alarm = loop.call_at(oldest.since + self._seconds, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm = None
        for holder, holding in list(self._holdings.items()):
            if holding.since + self._seconds > loop.time():
                break
            self._drop(holder, f"{self._what} for {self._seconds:g} s")
        self._watch(loop)

    def close(self) -> None:
        """Watch no longer."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
