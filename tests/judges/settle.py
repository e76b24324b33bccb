"""A history made ready for a judge of linearizability, without changing what it proves. Pure.

Four steps. Each keeps the answer to "is this history linearizable" as it is, and makes the search
for it short.

1. **Settle** the appends. Values are unique, so a reader that met a value tells where its append
   took effect: the append gets that offset, and keeps its open end when its client was told
   nothing. An append whose outcome is unknown and that no client met is left out, if all offsets
   that the log ever showed belong to other values: such an append can only take effect after
   everything else, or not at all, and the history is linearizable with it if and only if it is
   without it. Failed appends and unanswered reads are left out, too: they claim nothing. A value of
   a failed append that a reader met belongs to no append then, which a judge rejects.

2. **Deduce** the offsets that no reader knows, because the records were trimmed before one met
   them. Clients were given positions, which order the records. Where the acknowledged records
   between two known offsets are exactly as many as the offsets between them, each has its offset.
   Where they are fewer, an append with an unknown outcome is among them: their offsets stay
   unknown, and the judge gets their order.

3. **Reads are prefixes.** A plain read of quire may lag, but it never shows what is not there. So
   a read of records up to offset m holds at any moment of its interval from which on the log has m
   records. A read is never wrong because it is old; `end` is the operation that may not be old.

4. **Cut** the history at offsets. An append at offset o takes effect when the log has exactly o
   records, an end of n holds when it has exactly n, a read up to m when it has at least m. So each
   operation belongs to the block of its offset, and the blocks follow each other. A history is
   linearizable if and only if each block is, starting from the length of the log at its beginning,
   and no operation of a later block returned before an append or end of an earlier block was
   called. The second condition is checked here; the blocks are for the judge. A history with an
   append whose offset remains unknown stays in one block.

tests/judges/test_settle.py compares both forms by exhaustive search on small histories.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tests.judges.history import History, Kind, Operation

BLOCK_RECORDS = 256


@dataclass(slots=True)
class Block:
    """Operations at offsets from `base` on. The judge starts with a log of `base` records."""

    base: int
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True)
class Settled:
    """A history in blocks, and what is wrong between these."""

    blocks: list[Block]
    left_out: int
    """Appends with an unknown outcome that no client met."""
    wrong: list[str]
    """Pairs of operations of two blocks that cannot have happened in this order."""

    @property
    def count(self) -> int:
        """How many operations a judge gets."""
        return sum(len(block.operations) for block in self.blocks)


def settle(history: History, block_records: int = BLOCK_RECORDS) -> Settled:
    """Return a history ready for a judge, in blocks of about so many records."""
    met = _met(history)
    kept: list[Operation] = []
    unmet: list[Operation] = []
    for operation in history:
        if operation.kind is Kind.APPEND:
            located = _locate(operation, met)
            if located is not None and (located.is_ok or located.offset is not None):
                kept.append(located)
            elif located is not None:
                unmet.append(located)
        elif operation.is_ok and operation.kind is not Kind.TRIM:
            kept.append(operation)
    kept = _deduce(kept)
    if not _shows_all(kept):
        kept += unmet
        unmet = []
    blocks = [Block(0, kept)] if _is_vague(kept) else _cut(kept, block_records)
    return Settled(blocks, len(unmet), list(_between(blocks)))


def _met(history: History) -> dict[str, int]:
    """Return where readers met each value first."""
    met: dict[str, int] = {}
    for operation in history:
        if operation.kind is Kind.READ and operation.is_ok and operation.offset is not None:
            for offset, value in enumerate(operation.values, operation.offset):
                met.setdefault(value, offset)
    return met


def _locate(append: Operation, met: dict[str, int]) -> Operation | None:
    """Return an append with the offset that is known of it; None when it claims nothing."""
    if append.outcome == "failed":
        return None
    if append.offset is not None and append.is_ok:
        return append
    places = [met[value] - at for at, value in enumerate(append.values) if value in met]
    return replace(append, offset=places[0] if places else None)


def _deduce(operations: list[Operation]) -> list[Operation]:
    """Give offsets to acknowledged appends where the known ones around them leave no choice."""
    placed = sorted((each for each in operations if each.place), key=lambda each: each.place or ())
    deduced: dict[tuple[str, int], int] = {}
    start, waiting = 0, list[Operation]()
    for append in placed:
        if append.offset is None:
            waiting.append(append)
            continue
        if start + sum(len(each.values) for each in waiting) == append.offset:
            for each in waiting:
                deduced[each.process, each.number] = start
                start += len(each.values)
        start, waiting = append.after, []
    return [
        replace(each, offset=deduced[each.process, each.number])
        if each.kind is Kind.APPEND and (each.process, each.number) in deduced
        else each
        for each in operations
    ]


def _is_vague(operations: Iterable[Operation]) -> bool:
    return any(each.offset is None for each in operations)


def _shows_all(operations: Iterable[Operation]) -> bool:
    """Whether each offset that the log ever showed is known to belong to some value."""
    shown, highest = set[int](), 0
    for each in operations:
        if each.offset is None:
            return False
        highest = max(highest, each.after)
        shown.update(range(each.offset, each.after))
    return len(shown) == highest


def _cut(operations: list[Operation], size: int) -> list[Block]:
    """Deal operations out to blocks that begin where an append begins."""
    begins = sorted({each.offset or 0 for each in operations if each.kind is Kind.APPEND})
    inside = {
        offset
        for each in operations
        if each.kind is Kind.APPEND and each.offset is not None
        for offset in range(each.offset + 1, each.after)
    }
    bases = [0]
    for offset in begins:
        if offset >= bases[-1] + size and offset not in inside:
            bases.append(offset)
    blocks = [Block(base) for base in bases]
    for each in operations:
        for index, part in _parts(each, bases):
            blocks[index].operations.append(part)
    return blocks


def _parts(operation: Operation, bases: list[int]) -> Iterator[tuple[int, Operation]]:
    """Yield an operation with its block; a read of several blocks is one read in each of them."""
    assert operation.offset is not None
    index = max(bisect_right(bases, operation.offset) - 1, 0)
    if operation.kind is not Kind.READ:
        yield index, operation
        return
    values, offset = operation.values, operation.offset
    while values:
        count = bases[index + 1] - offset if index + 1 < len(bases) else len(values)
        yield index, replace(operation, values=values[:count], offset=offset)
        values, offset, index = values[count:], offset + count, index + 1


def _between(blocks: list[Block]) -> Iterator[str]:
    """Yield what returned in a later block before something in an earlier block was called."""
    latest: Operation | None = None
    for number, block in enumerate(blocks):
        for each in block.operations:
            if latest and each.returned is not None and each.returned < latest.called:
                yield f"block {number}: {each} returned before {latest} was called"
        for each in block.operations:
            is_exact = each.kind is not Kind.READ
            if is_exact and (latest is None or each.called > latest.called):
                latest = each
