"""A history as the collector of S2's public `s2-porcupine` would have written it. Pure.

S2's model has the same three operations with stricter reads: a read starts at the head of the
stream and reports its whole content as one chained hash, and it may not lag. quire's readers may
lag. The conversion is exact all the same, in these steps:

* A read that lags, of the first m records, holds at any moment before its return at which the
  stream has at least m. It is the same claim as a read of exactly m records that may have been
  called as early as the stream can have had m: after the append of record m − 1 was called. So the
  start of the read moves back to there.
* The stream is cut at offsets as for the first judge (settle.py). Each block is a stream of its
  own, counted from 0. A pass that read a block from its beginning on is given as one read: the
  last prefix of the block that it met, and that ends where a batch ends. It commits to all records
  of the block before it. Passes that begin inside a block are left to the other judges there.
* An append that was not answered but that a reader met did take effect, at a known offset: it is a
  success that returns at the end of the history. An unmet one is an indefinite failure that
  finishes there, unless settle.py leaves it out.

Cannot be fed: an acknowledged append whose offset no client knows (its record was trimmed before
any reader met it). `convert` says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby
from math import inf
from typing import Any, Final

from tests.judges.history import History, Kind, Operation, Outcome
from tests.judges.settle import Block, Settled

_MASK: Final = 2**64 - 1
_SECRET: Final = 0x1CAD21F72C81017C ^ 0xDB979083E96DD4DE
"""The two words of XXH3's default secret that it mixes into 8 bytes of input."""
_PRIME: Final = 0x9FB21C651E98DF25


def chain(stream_hash: int, record_hash: int) -> int:
    """Return the hash of a stream with one more record: XXH3 of its hash, seeded with the old."""
    seed = stream_hash ^ int.from_bytes((stream_hash & 0xFFFFFFFF).to_bytes(4, "little")) << 32
    low, high = record_hash & 0xFFFFFFFF, record_hash >> 32
    mixed = (high | low << 32) ^ ((_SECRET - seed) & _MASK)
    mixed ^= _rotate(mixed, 49) ^ _rotate(mixed, 24)
    mixed = mixed * _PRIME & _MASK
    mixed ^= (mixed >> 35) + 8
    mixed = mixed * _PRIME & _MASK
    return mixed ^ mixed >> 28


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _MASK


def record_hash(value: str) -> int:
    """Return what stands for a record. The model takes any 64 bits, so it need not be XXH3."""
    return int.from_bytes(blake2b(value.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class Converted:
    """The files for S2's judge, each a list of lines; or why it cannot be fed."""

    files: list[list[str]]
    refusal: str = ""


def convert(history: History, settled: Settled) -> Converted:
    """Return the input of S2's judge, one file a block."""
    appends = [each for block in settled.blocks for each in block.operations if _is_append(each)]
    if any(each.is_ok and each.offset is None for each in appends):
        return Converted([], "the offset of an acknowledged append is not known")
    bases = [block.base for block in settled.blocks]
    prefixes = _prefixes(history, bases, _inside(appends))
    blocks = enumerate(settled.blocks)
    return Converted([_file(block, prefixes.get(number, [])) for number, block in blocks])


def _is_append(operation: Operation) -> bool:
    return operation.kind is Kind.APPEND


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The first records of a block as one pass read them, with their chained hash."""

    after: int
    stream_hash: int
    read: Operation


def _inside(appends: Iterable[Operation]) -> set[int]:
    """Return the offsets inside batches: the log never ended there."""
    located = [each for each in appends if each.offset is not None]
    return {offset for each in located for offset in range((each.offset or 0) + 1, each.after)}


def _prefixes(history: History, bases: list[int], inside: set[int]) -> dict[int, list[_Prefix]]:
    """Return, by block, how far each pass had read it that began at its beginning."""
    numbers = {base: number for number, base in enumerate(bases)}
    found: dict[tuple[str, int], _Prefix] = {}
    reads = [each for each in history if each.kind is Kind.READ and each.is_ok]
    reads.sort(key=lambda each: (each.process, each.number))
    for process, group in groupby(reads, key=lambda each: each.process):
        number, expected, stream_hash = -1, -1, 0
        for read, offset, value in _records(group):
            if offset in numbers:
                number, stream_hash = numbers[offset], 0
            elif offset != expected:
                number = -1  # the pass jumped, or began inside a block
            expected = offset + 1
            if number >= 0:
                stream_hash = chain(stream_hash, record_hash(value))
            if number >= 0 and expected not in inside:
                found[process, number] = _Prefix(expected, stream_hash, read)
    by_block: dict[int, list[_Prefix]] = {}
    for (_, number), prefix in found.items():
        by_block.setdefault(number, []).append(prefix)
    return by_block


def _records(reads: Iterable[Operation]) -> Iterator[tuple[Operation, int, str]]:
    for read in reads:
        for offset, value in enumerate(read.values, read.offset or 0):
            yield read, offset, value


@dataclass(frozen=True, slots=True)
class _Event:
    time: float
    is_finish: bool
    """Starts come before finishes: what happens at the same time is concurrent."""
    operation: int
    body: dict[str, Any]


def _file(block: Block, prefixes: list[_Prefix]) -> list[str]:
    operations = [each for each in block.operations if each.kind is not Kind.READ]
    pairs = [(each, _finish(each, block.base)) for each in operations]
    for prefix in prefixes:
        result = {"tail": prefix.after - block.base, "stream_hash": prefix.stream_hash}
        pairs.append((_as_exact(prefix, operations), {"ReadSuccess": result}))
    events: list[_Event] = []
    for number, (each, finish) in enumerate(pairs):
        end = inf if each.returned is None else each.returned
        events.append(_Event(each.called, False, number, {"Start": _start(each, block.base)}))
        events.append(_Event(end, True, number, {"Finish": finish}))
    events.sort(key=lambda event: (event.time, event.is_finish, event.operation))
    return [_line(event) for event in events]


def _as_exact(prefix: _Prefix, operations: list[Operation]) -> Operation:
    """Return a read of exactly a prefix that begins as early as the log can have had it."""
    starts = [
        each.called
        for each in operations
        if _is_append(each) and (each.offset is None or each.offset < prefix.after <= each.after)
    ]
    return replace(prefix.read, called=min([prefix.read.called, *starts]))


def _arguments(values: Sequence[str], expected: int | None) -> dict[str, Any]:
    return {
        "num_records": len(values),
        "record_hashes": [record_hash(value) for value in values],
        "set_fencing_token": None,
        "fencing_token": None,
        "match_seq_num": expected,
    }


def _start(operation: Operation, base: int) -> Any:
    if operation.kind is Kind.APPEND:
        expected = None if operation.expected is None else operation.expected - base
        return {"Append": _arguments(operation.values, expected)}
    return "Read" if operation.kind is Kind.READ else "CheckTail"


def _finish(operation: Operation, base: int) -> Any:
    if operation.kind is Kind.END:
        assert operation.offset is not None
        return {"CheckTailSuccess": {"tail": operation.offset - base}}
    if operation.offset is not None:
        return {"AppendSuccess": {"tail": operation.after - base}}
    assert operation.outcome is not Outcome.OK
    return "AppendIndefiniteFailure"


def _line(event: _Event) -> str:
    record = {"event": event.body, "client_id": event.operation, "op_id": event.operation}
    return json.dumps(record, separators=(",", ":"))
