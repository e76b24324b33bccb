"""Which connections use which ledgers, by what a bookie was asked; in numbers of seconds."""

from __future__ import annotations

from quire.bookie import LedgerUse, UseKind
from quire.storage.serving.uses import (
    AGAIN_SECONDS,
    KEPT_SECONDS,
    NOTES_MAX,
    TOLD_MAX,
    StreamUses,
    Uses,
)

WRITES, READS, FOLLOWS = UseKind.WRITES, UseKind.READS, UseKind.FOLLOWS


def told(uses: Uses, now: float) -> list[tuple[int, UseKind, str, float]]:
    return [tuple(each) for each in uses.told(now).uses]  # type: ignore[misc]


def test_the_latest_uses_are_told_first() -> None:
    uses = Uses()
    uses.note(7, WRITES, "a:1", 10.0)
    uses.note(8, READS, "b:1", 12.0)
    assert told(uses, 13.0) == [(8, READS, "b:1", 1.0), (7, WRITES, "a:1", 3.0)]
    uses.note(7, WRITES, "a:1", 13.0)
    assert told(uses, 13.0) == [(7, WRITES, "a:1", 0.0), (8, READS, "b:1", 1.0)]


def test_each_kind_is_forgotten_in_its_time() -> None:
    uses = Uses()
    uses.note(7, READS, "a:1", 0.0)
    uses.note(7, WRITES, "a:1", 0.0)
    assert len(told(uses, KEPT_SECONDS[READS])) == 2
    assert [each[1] for each in told(uses, KEPT_SECONDS[READS] + 1)] == [WRITES]
    assert told(uses, KEPT_SECONDS[WRITES] + 1) == []
    assert not uses._last


def test_a_follower_is_told_while_it_waits_and_its_reads_are_not_told_beside() -> None:
    uses = Uses()
    with uses.waiting(7, "a:1"), uses.waiting(7, "a:1"):
        uses.note(7, READS, "a:1", 5.0)
        assert told(uses, 5.0) == [(7, FOLLOWS, "a:1", 0.0)]
    assert told(uses, 5.0) == [(7, READS, "a:1", 0.0)]
    assert not uses._waits


def test_a_connection_that_ended_writes_no_more() -> None:
    uses = Uses()
    stream, other = StreamUses(uses, "a:1"), StreamUses(uses, "b:1")
    stream.note(7, WRITES, 1.0)
    other.note(7, WRITES, 1.0)
    stream.close()
    assert told(uses, 1.0) == [(7, WRITES, "b:1", 0.0)]


def test_a_stream_notes_a_ledger_once_a_second() -> None:
    class Counted(Uses):
        notes = 0

        def note(self, ledger: int, kind: UseKind, peer: str, now: float) -> None:
            self.notes += 1
            super().note(ledger, kind, peer, now)

    uses = Counted()
    stream = StreamUses(uses, "a:1")
    for number in range(1000):
        stream.note(7, WRITES, 5.0 + number / 1000 * AGAIN_SECONDS)
    assert uses.notes == 1
    stream.note(8, WRITES, 5.5)
    assert uses.notes == 2
    stream.note(8, WRITES, 5.5 + AGAIN_SECONDS)
    assert uses.notes == 3


def test_notes_and_answers_are_bounded() -> None:
    uses = Uses()
    for ledger in range(NOTES_MAX + 10):
        uses.note(ledger, WRITES, "a:1", 1.0)
    assert len(uses._last) == NOTES_MAX
    found = uses.told(1.0)
    assert len(found.uses) == TOLD_MAX
    assert found.left_out == NOTES_MAX - TOLD_MAX
    assert found.uses[0] == LedgerUse(NOTES_MAX + 9, WRITES, "a:1", 0.0)
