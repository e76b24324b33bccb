"""Epochs and sequences of producers, as the numbers that a log remembers. Pure.

A log remembers the last number of each producer, in its own records. The number of an append is its
epoch and its sequence, one after the other: a later epoch is above all numbers of an earlier one.
"""

from __future__ import annotations

from enum import Enum, auto
from hashlib import blake2b
from typing import Final, NamedTuple

from quire.gateway.durable.asking import Sender
from quire.log.records.producers import NAME_BYTES_MAX

_BITS: Final = 32
SEQUENCE_MAX: Final = 2**_BITS - 1
EPOCH_MAX: Final = 2**31 - 1
_PREFIX: Final = "stream/"


class Verdict(Enum):
    """What becomes of an append."""

    NEW = auto()
    REPEATED = auto()
    STALE = auto()
    """Of an epoch that another process of the producer has ended."""
    TOO_EARLY = auto()
    """Appends before it are missing."""
    NOT_FROM_ZERO = auto()
    """A new epoch begins with another sequence than 0."""


class Judged(NamedTuple):
    """A verdict, and where the producer is."""

    verdict: Verdict
    epoch: int
    sequence: int
    """The last one of the epoch; −1 before its first."""


def name_of(producer: str) -> str:
    """Return the name of a producer in the log: its own, or a digest of a long one."""
    name = _PREFIX + producer
    if len(name.encode()) <= NAME_BYTES_MAX:
        return name
    return _PREFIX + "#" + blake2b(producer.encode(), digest_size=32).hexdigest()


def number_of(sender: Sender) -> int:
    """Return the number of an append in the log."""
    return sender.epoch << _BITS | sender.sequence


def judge(sender: Sender, last: int | None) -> Judged:
    """Return what becomes of an append after the last number of its producer in the log."""
    epoch, sequence = (0, -1) if last is None else (last >> _BITS, last & SEQUENCE_MAX)
    if sender.epoch < epoch:
        verdict = Verdict.STALE
    elif last is None or sender.epoch > epoch:
        if sender.sequence == 0:
            verdict = Verdict.NEW
        elif last is None:
            verdict = Verdict.TOO_EARLY
        else:
            verdict = Verdict.NOT_FROM_ZERO
    elif sender.sequence <= sequence:
        verdict = Verdict.REPEATED
    else:
        verdict = Verdict.NEW if sender.sequence == sequence + 1 else Verdict.TOO_EARLY
    return Judged(verdict, epoch, sequence)
