"""Requests that no client of quire sends are refused and change nothing."""

from __future__ import annotations

import pytest

from quire.entry import DigestKind, Sealer
from quire.errors import InvalidRequestError
from quire.run import pack_run
from tests.contract.bookie.frames import KEY, LEDGER, SEALER, WRONG_KEY, frame, run_of
from tests.contract.bookie.subjects import Run, Subject

GOOD = run_of(1, 2)
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "cut": GOOD[:-1],
    "cut in a header": GOOD[:20],
    "followed by junk": GOOD + b"junk",
    "size too large": b"\xff\xff\xff\xff" + GOOD[4:],
    "size too small": b"\x00\x00\x00\x01" + GOOD[4:],
    "descending": run_of(2, 1),
    "repeated": run_of(1, 1),
    "another ledger": pack_run([Sealer(8, DigestKind.CRC32C, b"").seal(0, -1, 1, b"")]),
    "two ledgers": run_of(0) + pack_run([Sealer(8, DigestKind.CRC32C, b"").seal(1, -1, 1, b"")]),
    "LAC beyond the entry": pack_run([frame(1, lac=1)]),
}


@pytest.mark.parametrize("name", sorted(MALFORMED))
@pytest.mark.parametrize("recovery", [False, True])
def test_malformed_runs_change_nothing(run: Run, name: str, recovery: bool) -> None:
    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, KEY, run_of(0))
        before = await bookie.read_tail(LEDGER)
        with pytest.raises(InvalidRequestError):
            await bookie.add(LEDGER, KEY, MALFORMED[name], recovery=recovery)
        assert await bookie.read_tail(LEDGER) == before
        assert await bookie.list_entries(LEDGER) == [(0, 0)]
        assert await bookie.list_entries(8) == []
        await bookie.add(LEDGER, KEY, run_of(1))

    run(check)


def test_malformed_runs_bind_no_key(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(InvalidRequestError):
            await subject.bookie.add(LEDGER, WRONG_KEY, MALFORMED["cut"])
        await subject.bookie.add(LEDGER, KEY, run_of(0))

    run(check)


@pytest.mark.parametrize(("first", "last"), [(3, 2), (-1, 5), (-2, -1)])
def test_impossible_ranges_are_refused_not_denied(run: Run, first: int, last: int) -> None:
    async def check(subject: Subject) -> None:
        await subject.bookie.add(LEDGER, KEY, run_of(0, 1, 2, 3))
        with pytest.raises(InvalidRequestError):
            await subject.bookie.read(LEDGER, first, last)
        with pytest.raises(InvalidRequestError):
            await subject.bookie.read(LEDGER, first, last, fence_key=KEY)
        assert not (await subject.bookie.read_tail(LEDGER)).fenced

    run(check)


@pytest.mark.parametrize(
    "packet", [b"", SEALER.seal_lac(3)[:15], Sealer(8, DigestKind.CRC32C, b"").seal_lac(3)]
)
def test_malformed_packets_are_refused(run: Run, packet: bytes) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(InvalidRequestError):
            await subject.bookie.write_lac(LEDGER, KEY, packet)
        assert (await subject.bookie.read_tail(LEDGER)).lac_packet is None

    run(check)
