"""Bytes from bookies prove what their digests cover, and nothing else."""

from __future__ import annotations

from quire.bookie import LedgerTail
from quire.entry import NO_ENTRY, DigestKind, Sealer
from quire.ledger.verify import unseal_run, unverified_entry, verified_lac
from quire.run import pack_run

SEALER = Sealer(7, DigestKind.HMAC_SHA256, b"right")
STRANGER = Sealer(7, DigestKind.HMAC_SHA256, b"wrong")
OTHER = Sealer(8, DigestKind.HMAC_SHA256, b"right")


def frames(sealer: Sealer, *entries: int) -> list[bytes]:
    return [sealer.seal(entry, entry - 1, entry + 1, b"x") for entry in entries]


def test_the_higher_of_frame_and_packet_counts() -> None:
    frame, packet = SEALER.seal(5, 3, 9, b"x"), SEALER.seal_lac(5)
    assert verified_lac(SEALER, LedgerTail(frame, None)) == 3
    assert verified_lac(SEALER, LedgerTail(frame, packet)) == 5
    assert verified_lac(SEALER, LedgerTail(frame, SEALER.seal_lac(1))) == 3
    assert verified_lac(SEALER, LedgerTail(None, packet)) == 5


def test_nothing_held_proves_that_nothing_was_announced() -> None:
    assert verified_lac(SEALER, LedgerTail()) == NO_ENTRY


def test_a_hint_proves_nothing() -> None:
    assert verified_lac(SEALER, LedgerTail(hint=99)) == NO_ENTRY


def test_what_does_not_verify_proves_nothing_not_even_little() -> None:
    good, bad = SEALER.seal(5, 3, 9, b"x"), STRANGER.seal(5, 4, 9, b"x")
    for tail in (
        LedgerTail(bad),
        LedgerTail(good, STRANGER.seal_lac(4)),
        LedgerTail(good[:-1]),
        LedgerTail(good[:10]),
        LedgerTail(OTHER.seal(5, 3, 9, b"x")),
        LedgerTail(good, b""),
    ):
        assert verified_lac(SEALER, tail) is None


def test_a_frame_too_short_claims_nothing() -> None:
    assert unverified_entry(b"short") == NO_ENTRY


def test_a_run_is_sorted_into_valid_and_damaged() -> None:
    run = pack_run([*frames(SEALER, 1, 2), *frames(STRANGER, 3), *frames(SEALER, 4)])
    entries, damaged = unseal_run(SEALER, run, 1, 9)
    assert [entry.entry for entry in entries] == [1, 2, 4]
    assert damaged == [3]


def test_what_was_not_asked_for_is_not_taken() -> None:
    run = pack_run(frames(SEALER, 1, 2, 3, 4))
    entries, damaged = unseal_run(SEALER, run, 2, 3)
    assert ([entry.entry for entry in entries], damaged) == ([2, 3], [])
    entries, _ = unseal_run(SEALER, run, 1, 4, lambda entry: entry != 2)
    assert [entry.entry for entry in entries] == [1, 3, 4]


def test_one_damaged_frame_of_a_run_costs_no_other() -> None:
    run = bytearray(pack_run(frames(SEALER, *range(5, 15))))
    run[-1] ^= 1
    for first, last in ((5, 14), (8, 14), (0, 99)):
        entries, damaged = unseal_run(SEALER, bytes(run), first, last)
        assert ([entry.entry for entry in entries], damaged) == (
            list(range(max(5, first), 14)),
            [14],
        )
    assert [entry.entry for entry in unseal_run(SEALER, bytes(run), 3, 7)[0]] == [5, 6, 7]


def test_an_answer_to_another_question_is_damage() -> None:
    run = pack_run(frames(SEALER, 1, 2))
    assert unseal_run(SEALER, run, 5, 6) == ([], [5])
    assert unseal_run(SEALER, b"no run", 5, 6) == ([], [5])
    assert unseal_run(SEALER, b"", 5, 6) == ([], [5])


def test_a_run_of_another_ledger_is_damage() -> None:
    assert unseal_run(SEALER, pack_run(frames(OTHER, 1)), 1, 1) == ([], [1])


def test_a_run_around_the_question_is_damage() -> None:
    run = pack_run(frames(SEALER, 1, 3))
    assert unseal_run(SEALER, run, 2, 2) == ([], [2])
    assert unseal_run(SEALER, run, 3, 4, lambda entry: False) == ([], []), "it was not wanted"
