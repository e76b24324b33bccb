"""The adds of a run as one string of bytes, and the answers that a bookie owes to them.

One message for each entry, in each direction, was most of a writer's work. Numbers of one length
and frames of one size leave most bytes of a message as they are, so the messages of a run are put
together column by column. The answers of a bookie that stored everything repeat the ids of the
requests, so they are made beforehand, and compared with the bytes that come instead of taken
apart. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quire.bookkeeper.wire3 import AddEncoder
from quire.entry import EntryId, LedgerId
from quire.run import SIZE, ScannedRun
from quire.wire.varint import varint, varints


class AddBundle(NamedTuple):
    """The adds of a run; their transactions ascend by one."""

    ledger: LedgerId
    transaction: int
    """The first one."""
    entries: Sequence[EntryId]
    requests: bytes
    answers: bytes
    """The answers to all of them, in order, with their sizes, if a bookie stored every entry."""
    bounds: Sequence[int]
    """Where each answer begins, and the end."""

    def matched(self, done: int, data: bytes, at: int) -> int:
        """Return how many answers lie at an offset of some bytes that a bookie sent, whole and in
        order, from the answer number `done` on.
        """
        answers, bounds = self.answers, self.bounds
        begin = bounds[done]
        low, high = done, bisect_right(bounds, begin + len(data) - at) - 1
        step = _STEP_FIRST
        while low < high:  # in steps that grow: what lies behind another message is not compared
            end = min(high, low + step)
            if data.startswith(answers[bounds[low] : bounds[end]], at + bounds[low] - begin):
                low, step = end, 2 * step
            else:
                high, step = end - 1, 1
        return low - done


_STEP_FIRST: Final = 16
"""Answers that are compared at first."""


def bundle(encoder: AddEncoder, transaction: int, run: ScannedRun) -> AddBundle:
    """Return the adds of a run; transactions ascend by one from the given one on."""
    requests: list[bytes | memoryview] = []
    answers: list[bytes] = []
    bounds: Sequence[int] = range(1)
    for low, high in _stretches(transaction, run.entries):
        numbers = varints(transaction + low, high - low)
        entries = _numbers(run.entries, low, high)
        requests += _requests(encoder, run, low, numbers, entries)
        before, between = encoder.answer(len(numbers[0]), len(entries[0]))
        columns: list[bytes] = [before, b"", between, b""] * (high - low)
        columns[1::4], columns[3::4] = numbers, entries
        answers += columns
        size = len(before) + len(numbers[0]) + len(between) + len(entries[0])
        more = range(bounds[-1], bounds[-1] + size * (high - low) + 1, size)
        bounds = more if low == 0 else [*bounds, *more[1:]]
    return AddBundle(
        *(run.ledger, transaction, run.entries),
        *(b"".join(requests), b"".join(answers), bounds),
    )


def _requests(
    encoder: AddEncoder,
    run: ScannedRun,
    low: int,
    numbers: Sequence[bytes],
    entries: Sequence[bytes],
) -> list[bytes | memoryview]:
    """Return the adds of a stretch in pieces: seven for each, column by column."""
    count, view, bounds = len(numbers), memoryview(run.data), run.bounds
    frames = [view[bounds[at] + SIZE.size : bounds[at + 1]] for at in range(low, low + count)]
    lengths = len(numbers[0]), len(entries[0])
    columns: list[bytes | memoryview] = [b""] * (_COLUMNS * count)
    if run.stride is None:
        around = [encoder.around(*lengths, len(frame)) for frame in frames]
        columns[0::_COLUMNS] = [each[0] for each in around]
        columns[2::_COLUMNS] = [each[1] for each in around]
        columns[4::_COLUMNS] = [each[2] for each in around]
    else:
        before, between, after = encoder.around(*lengths, len(frames[0]))
        columns = [before, b"", between, b"", after, b"", encoder.after] * count
    columns[1::_COLUMNS], columns[3::_COLUMNS], columns[5::_COLUMNS] = numbers, entries, frames
    columns[6::_COLUMNS] = [encoder.after] * count
    return columns


_COLUMNS: Final = 7


def _stretches(transaction: int, entries: Sequence[EntryId]) -> Iterator[tuple[int, int]]:
    """Yield low ≤ n < high of stretches: within one, transactions have one length as varints, and
    entries have one. Most runs are one stretch.
    """
    low, count = 0, len(entries)
    while low < count:
        first = transaction + low
        high = min(count, low + _longer(first) - first)
        high = bisect_left(entries, _longer(entries[low]), low, high)
        yield low, high
        low = high


def _longer(number: int) -> int:
    """Return the least number that takes more bytes as a varint."""
    return int(1 << 7 * len(varint(number)))


def _numbers(entries: Sequence[EntryId], low: int, high: int) -> list[bytes]:
    if isinstance(entries, range):
        return varints(entries[low], high - low)
    return [varint(entry) for entry in entries[low:high]]
