"""Runs: round trip, and that `scan_run` believes nothing that is not one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import DigestKind, Sealer
from quire.errors import InvalidRequestError
from quire.run import _scan_any, _scan_uniform, pack_parts, pack_run, scan_run, split_run

SEALER = Sealer(7, DigestKind.CRC32C, b"dice")


def frame(entry: int, lac: int | None = None, payload: bytes = b"x") -> bytes:
    return SEALER.seal(entry, entry - 1 if lac is None else lac, 100, payload)


@given(st.sets(st.integers(0, 1000), min_size=1, max_size=20))
def test_frames_come_back_as_they_went_in(ids: set[int]) -> None:
    frames = {entry: frame(entry, payload=b"p" * (entry % 7)) for entry in sorted(ids)}
    run = pack_run(frames.values())
    assert dict(split_run(run)) == frames
    scanned = scan_run(run)
    assert (scanned.ledger, scanned.first, scanned.last) == (7, min(ids), max(ids))
    assert scanned.lac == max(ids) - 1


@pytest.mark.parametrize(
    ("what", "run"),
    [
        ("empty", b""),
        ("ends inside a frame", b"\0\0\0"),
        ("ends inside a frame", pack_run([frame(0)]) + bytes(20)),
        ("impossible", struct.pack(">I", 2**31) + frame(0)),
        ("impossible", struct.pack(">I", 31) + frame(0)),
        ("impossible", pack_run([frame(0)])[:-1]),
        ("cannot follow", pack_run([frame(1), frame(0)])),
        ("cannot follow", pack_run([frame(1), frame(1)])),
        ("cannot follow", pack_run([frame(1, lac=1)])),
        ("cannot follow", pack_run([frame(1, lac=-2)])),
        ("mixes ledgers", pack_run([frame(0), Sealer(8, DigestKind.NONE, b"").seal(1, 0, 2, b"")])),
        ("negative", pack_run([Sealer(-1, DigestKind.NONE, b"").seal(1, 0, 2, b"")])),
    ],
)
def test_a_run_that_lies_is_refused(what: str, run: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=what):
        scan_run(run)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_is_a_run(data: bytes) -> None:
    try:
        scanned = scan_run(data)
    except InvalidRequestError:
        return
    assert pack_run(data[at.offset : at.offset + at.size] for at in scanned.frames) == data


@given(
    st.integers(0, 5),
    st.integers(1, 6),
    st.sampled_from([0, 3, 40]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
)
def test_the_scan_by_columns_agrees_with_the_scan_by_frames(
    first: int, count: int, size: int, edits: list[tuple[int, int]]
) -> None:
    frames = [frame(entry, payload=b"p" * size) for entry in range(first, first + count)]
    run = bytearray(pack_run(frames))
    for at, value in edits:
        run[at % len(run)] = value
    by_columns = _scan_uniform(bytes(run))
    if not edits:
        assert by_columns is not None
    if by_columns is not None:
        by_frames = _scan_any(bytes(run))
        assert by_columns.lac == by_frames.lac
        assert list(by_columns.frames) == list(by_frames.frames)


def test_frames_and_cuts_of_a_scanned_run() -> None:
    frames = [frame(entry, payload=b"p" * entry) for entry in (1, 3, 4, 9)]
    scanned = scan_run(pack_run(frames))
    assert bytes(scanned.frame(4)) == frames[2]
    assert bytes(scanned.cut(1, 3)) == pack_run(frames[1:3])


@pytest.mark.parametrize("kind", DigestKind)
@pytest.mark.parametrize("payload", [b"", b"x" * 300])
def test_the_parts_of_a_frame_are_a_run_of_one(kind: DigestKind, payload: bytes) -> None:
    sealer = Sealer(7, kind, b"secret")
    parts = sealer.parts(3, 1, 40, payload)
    assert parts[-1] is payload
    assert pack_parts(parts) == pack_run([sealer.seal(3, 1, 40, payload)])
