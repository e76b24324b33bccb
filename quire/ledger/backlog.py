"""The backlog: sealed frames that some sender has yet to send, shared by all senders of a writer.

A frame is sealed and stored once. A sender is a cursor into the backlog: it cuts a run from there
by joining bytes that are already in wire form, so an entry costs no Python step per copy. Frames
leave when they are confirmed and every sender that is up has cut them into a run; those beyond LAC
always stay, for a replacement is sent everything from LAC + 1 on.

Two bounds keep it small, each in entries and in payload bytes: one for unconfirmed frames, one for
frames that are confirmed but still unsent to a slow bookie. `is_room` is false while either is
exceeded.

Invariants (`check`):

  K1  Frames are kept for exactly the entries base … pushed, and base ≤ LAC + 1.
  K2  Lengths never fall from one entry to the next.

Pure: it decides the contents of a run, not when it is sent.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from quire.entry import NO_ENTRY, EntryId, FrameParts
from quire.ledger.quorum import Replication
from quire.run import RUN_BYTES_MAX, pack_parts

RUN_ENTRIES_MAX: Final = 1024
"""A run is cut at so many entries: with headers of at most 68 bytes they add 70 KB to its bytes."""


class Cut(NamedTuple):
    """A run for one position: it has all entries of that position up to `through`."""

    through: EntryId
    run: bytes
    """Empty when the position has none of the entries up to `through`."""


class Backlog:
    """Frames and cumulative payload lengths of the entries from `base` on."""

    __slots__ = (
        "_bytes_max",
        "_entries_max",
        "_frames",
        "_length_before",
        "_lengths",
        "_replication",
        "_shared",
        "_shared_first",
        "base",
        "pushed",
    )

    def __init__(
        self,
        replication: Replication,
        entries_max: int,
        bytes_max: int,
        *,
        confirmed: EntryId = NO_ENTRY,
        length: int = 0,
    ) -> None:
        """Begin after the entry `confirmed`, with `length` payload bytes up to it."""
        self.base = confirmed + 1
        self.pushed = confirmed
        """The last entry that was added."""
        self._replication = replication
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._frames: list[bytes] = []
        self._lengths: list[int] = []
        self._length_before = length
        self._shared = Cut(confirmed, b"")
        self._shared_first = -1

    @property
    def length(self) -> int:
        """Payload bytes of the ledger up to the last entry that was added."""
        return self._lengths[-1] if self._lengths else self._length_before

    def length_of(self, entry: EntryId) -> int:
        """Return the payload bytes of the ledger up to an entry ≥ base − 1."""
        index = entry - self.base
        return self._lengths[index] if index >= 0 else self._length_before

    def append(self, parts: FrameParts, length: int) -> None:
        """Add the next frame; `length` is the ledger's up to and including it."""
        # Runs of one frame join to a run without another step.
        self._frames.append(pack_parts(parts))
        self._lengths.append(length)
        self.pushed += 1

    def is_room(self, size: int, lac: EntryId) -> bool:
        """Return whether an entry of `size` bytes fits the bounds; alone, it always does."""
        confirmed = self.length_of(lac)
        if lac + 1 - self.base >= self._entries_max:
            return False
        if confirmed - self._length_before > self._bytes_max:
            return False
        pending = self.pushed - lac
        if pending == 0:
            return True
        return pending < self._entries_max and self.length - confirmed + size <= self._bytes_max

    def is_lagging(self, lac: EntryId) -> bool:
        """Return whether confirmed frames that some sender has yet to send take up the room."""
        lag = lac + 1 - self.base
        return (
            lag >= self._entries_max or self.length_of(lac) - self._length_before > self._bytes_max
        )

    def release(self, through: EntryId) -> None:
        """Forget the frames up to an entry: confirmed, and cut by every sender that is up."""
        count = through + 1 - self.base
        if count > 0:
            self._length_before = self._lengths[count - 1]
            del self._frames[:count]
            del self._lengths[:count]
            self.base = through + 1

    def cut(self, position: int, first: EntryId) -> Cut | None:
        """Return the run a position is sent next, from `first` ≥ base on; None if nothing is left.

        Cut at `RUN_BYTES_MAX` payload bytes and `RUN_ENTRIES_MAX` entries, counting entries of all
        positions; one larger entry goes alone.
        """
        if first == self._shared_first and self._shared.through == self.pushed:
            return self._shared  # a sender that keeps step has cut it
        start = first - self.base
        assert start >= 0, f"entry {first} was forgotten, the backlog begins at {self.base}"
        if start >= len(self._frames):
            return None
        end = min(start + RUN_ENTRIES_MAX, len(self._frames))
        limit = self.length_of(first - 1) + RUN_BYTES_MAX
        if self._lengths[end - 1] > limit:
            end = max(bisect_right(self._lengths, limit, start, end), start + 1)
        through = self.base + end - 1
        if not self._replication.is_striped:
            # Senders that keep step are sent the same run: it is joined once, not once per copy.
            if self._shared_first != first or self._shared.through != through:
                self._shared = Cut(through, b"".join(self._frames[start:end]))
                self._shared_first = first
            return self._shared
        written_to = self._replication.is_written_to
        entries = range(first, through + 1)
        frames = [
            frame
            for entry, frame in zip(entries, self._frames[start:end], strict=True)
            if written_to(entry, position)
        ]
        return Cut(through, b"".join(frames))

    def check(self, lac: EntryId, pushed: EntryId) -> None:
        """Assert the invariants; for tests and the simulator."""
        assert len(self._frames) == len(self._lengths), "K1"
        assert self.base <= lac + 1, "K1"
        assert self.pushed == self.base + len(self._frames) - 1, "K1"
        assert self.pushed == pushed, "K1"
        assert [self._length_before, *self._lengths] == sorted(
            [self._length_before, *self._lengths]
        ), "K2"
