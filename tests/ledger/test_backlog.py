"""Runs cut from the backlog: complete, in order, bounded, and forgotten when no longer needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import DigestKind, Sealer
from quire.ledger.backlog import RUN_ENTRIES_MAX, Backlog
from quire.ledger.quorum import Replication
from quire.run import RUN_BYTES_MAX, split_run

SEALER = Sealer(1, DigestKind.CRC32C, b"")


def filled(replication: Replication, sizes: list[int], **bounds: int) -> Backlog:
    backlog = Backlog(
        replication, bounds.get("entries_max", 10_000), bounds.get("bytes_max", 2**30)
    )
    for entry, size in enumerate(sizes):
        length = backlog.length + size
        backlog.append(SEALER.parts(entry, -1, length, bytes(size)), length)
    return backlog


@given(
    st.integers(1, 5),
    st.lists(st.integers(0, 300) | st.integers(0, 700_000), max_size=30),
    st.data(),
)
def test_following_the_cuts_sends_a_position_exactly_its_entries(
    ensemble: int, sizes: list[int], data: st.DataObject
) -> None:
    replication = Replication(ensemble, data.draw(st.integers(1, ensemble)), 1)
    backlog = filled(replication, sizes)
    position = data.draw(st.integers(0, ensemble - 1))
    cursor = data.draw(st.integers(0, len(sizes)))
    expected = [
        entry for entry in range(cursor, len(sizes)) if replication.is_written_to(entry, position)
    ]
    sent: list[int] = []
    while (cut := backlog.cut(position, cursor)) is not None:
        assert cut.through >= cursor, "every cut makes progress"
        if cut.run:
            frames = list(split_run(cut.run))
            assert sum(sizes[entry] for entry, _ in frames) <= RUN_BYTES_MAX or len(frames) == 1
            for entry, frame in frames:
                SEALER.unseal(entry, frame)
                sent.append(entry)
        cursor = cut.through + 1
    assert sent == expected
    assert cursor == len(sizes)


def test_senders_that_keep_step_share_a_run_and_later_ones_get_what_came_since() -> None:
    backlog = filled(Replication(3, 3, 2), [1])
    first = backlog.cut(0, 0)
    assert first is not None
    assert backlog.cut(1, 0) is first
    assert backlog.cut(0, 1) is None
    backlog.append(SEALER.parts(1, -1, 2, b"x"), 2)
    late = backlog.cut(2, 0)
    assert late is not None
    assert [entry for entry, _ in split_run(late.run)] == [0, 1]
    own = backlog.cut(0, 1)
    assert own is not None
    assert [entry for entry, _ in split_run(own.run)] == [1]


def test_a_run_is_cut_at_its_bounds() -> None:
    unstriped = Replication(3, 3, 2)
    cut = filled(unstriped, [1] * (RUN_ENTRIES_MAX + 5)).cut(0, 0)
    assert cut is not None
    assert len(list(split_run(cut.run))) == RUN_ENTRIES_MAX
    half = RUN_BYTES_MAX // 2
    cut = filled(unstriped, [half, half, 1]).cut(0, 0)
    assert cut is not None
    assert cut.through == 1
    cut = filled(unstriped, [RUN_BYTES_MAX + 1, 1]).cut(0, 0)
    assert cut is not None
    assert cut.through == 0, "one larger entry goes alone"


def test_released_frames_are_gone_and_lengths_stay_true() -> None:
    backlog = filled(Replication(3, 3, 2), [10, 20, 30])
    backlog.release(1)
    backlog.check(lac=1, pushed=2)
    assert (backlog.base, backlog.pushed, backlog.length) == (2, 2, 60)
    assert [backlog.length_of(entry) for entry in (1, 2)] == [30, 60]
    with pytest.raises(AssertionError, match="forgotten"):
        backlog.cut(0, 1)
    backlog.release(0)
    backlog.release(2)
    backlog.check(lac=2, pushed=2)
    assert (backlog.base, backlog.length, backlog.length_of(2)) == (3, 60, 60)
    assert backlog.cut(0, 3) is None


def test_room_counts_entries_and_bytes_not_confirmed() -> None:
    backlog = filled(Replication(3, 3, 2), [10, 10, 10], entries_max=4, bytes_max=40)
    assert backlog.is_room(10, lac=-1)
    assert not backlog.is_room(11, lac=-1)
    backlog.append(SEALER.parts(3, -1, 30, b""), 30)
    assert not backlog.is_room(0, lac=-1), "four are in flight"
    assert backlog.is_room(0, lac=0)


def test_room_for_one_of_any_size_when_nothing_is_in_flight() -> None:
    backlog = filled(Replication(3, 3, 2), [10], entries_max=2, bytes_max=40)
    assert not backlog.is_room(41, lac=-1)
    backlog.release(0)
    assert backlog.is_room(41, lac=0)


def test_confirmed_frames_that_a_slow_bookie_lacks_are_bounded_apart() -> None:
    backlog = filled(Replication(3, 3, 2), [10, 10, 30, 1], entries_max=4, bytes_max=40)
    assert backlog.is_room(0, lac=1)
    assert not backlog.is_lagging(lac=1)
    assert not backlog.is_room(0, lac=2), "50 confirmed bytes are unsent to someone"
    assert backlog.is_lagging(lac=2)
    backlog.release(0)
    assert backlog.is_room(0, lac=2)
