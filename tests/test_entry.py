"""Frames and digests: fixed vectors, and that no changed byte is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.entry import (
    DIGEST_BYTES,
    ENTRY_BYTES_MAX,
    HEADER,
    NO_ENTRY,
    DigestKind,
    Entry,
    Sealer,
    access_key,
    is_checked,
    key_check,
)
from quire.errors import CorruptEntryError, EntryTooLargeError

HEADER_HEX = "000000000000000700000000000000020000000000000001000000000000000d"
LAC_HEX = "00000000000000070000000000000002"
DIGESTS = {
    DigestKind.CRC32C: ("8096c8c2", "642b2407"),
    DigestKind.CRC32: ("000000001ed5c29c", "0000000066d447b0"),
    DigestKind.HMAC_SHA1: (
        "2f33fc8d9d71852709604b27540557b7fbbc7237",
        "3853329a60dd7a95ccd68fd821a34f78772663cc",
    ),
    DigestKind.HMAC_SHA256: (
        "cf9f18419ae6e07a679be0c24d1765977e2c8b5fe25bd187a16dd62530408382",
        "bef10d947dbd382fc982afd5caa93cf1e0c2e2f0cbbc509557d4f53268545a6a",
    ),
    DigestKind.NONE: ("", ""),
}
"""Ledger 7, password "dice"; computed with hashlib, zlib and a bitwise CRC-32C."""


@pytest.mark.parametrize("kind", list(DigestKind))
def test_a_frame_has_exactly_these_bytes(kind: DigestKind) -> None:
    frame = Sealer(7, kind, b"dice").seal(2, 1, 13, b"three")
    assert frame.hex() == HEADER_HEX + DIGESTS[kind][0] + b"three".hex()


@pytest.mark.parametrize("kind", list(DigestKind))
def test_a_lac_packet_has_exactly_these_bytes(kind: DigestKind) -> None:
    sealer = Sealer(7, kind, b"dice")
    packet = sealer.seal_lac(2)
    assert packet.hex() == LAC_HEX + DIGESTS[kind][1]
    assert sealer.unseal_lac(packet) == 2


def test_the_access_key_is_the_field_s() -> None:
    assert access_key(b"dice").hex() == "31828020a11e9c9bf22480a7c990766b8accc098"


@given(
    st.sampled_from(list(DigestKind)),
    st.binary(max_size=64),
    st.integers(0, 2**62),
    st.binary(max_size=40),
)
def test_what_is_sealed_is_unsealed(
    kind: DigestKind, password: bytes, entry: int, payload: bytes
) -> None:
    sealer = Sealer(3, kind, password)
    frame = sealer.seal(entry, entry - 1, 100, payload)
    assert sealer.unseal(entry, frame) == Entry(3, entry, entry - 1, 100, payload)


@given(st.sampled_from([kind for kind in DigestKind if DIGEST_BYTES[kind]]), st.data())
def test_a_flipped_bit_is_noticed(kind: DigestKind, data: st.DataObject) -> None:
    sealer = Sealer(7, kind, b"dice")
    frame = bytearray(sealer.seal(2, 1, 13, b"three"))
    bit = data.draw(st.integers(0, len(frame) * 8 - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptEntryError):
        sealer.unseal(2, bytes(frame))


@given(st.sampled_from([kind for kind in DigestKind if DIGEST_BYTES[kind]]), st.data())
def test_a_cut_frame_is_noticed(kind: DigestKind, data: st.DataObject) -> None:
    sealer = Sealer(7, kind, b"dice")
    frame = sealer.seal(2, 1, 13, b"three")
    with pytest.raises(CorruptEntryError):
        sealer.unseal(2, frame[: data.draw(st.integers(0, len(frame) - 1))])


FIRST = 5


@given(st.sampled_from(list(DigestKind)), st.integers(0, 20), st.integers(0, 3), st.data())
def test_many_frames_are_believed_when_each_of_them_is(
    kind: DigestKind, size: int, lead: int, data: st.DataObject
) -> None:
    """Whether a bit was flipped, or a writer sealed what cannot be: as `unseal` says."""
    sealer, other = Sealer(7, kind, b"dice"), Sealer(8, kind, b"dice")
    count = data.draw(st.integers(1, 4))
    odd = data.draw(st.sampled_from(["nothing", "bit", "ledger", "entry", "lac", "low", "length"]))
    at = data.draw(st.integers(0, count - 1))
    frames = []
    for entry in range(FIRST, FIRST + count):
        claimed, lac, length, by = entry, entry - 1, 100, sealer
        if entry == FIRST + at:
            claimed += odd == "entry"
            lac = {"lac": entry, "low": -2}.get(odd, lac)
            length = size - 1 if odd == "length" else length
            by = other if odd == "ledger" else by
        frame = bytearray(by.seal(claimed, lac, length, bytes(size)))
        if odd == "bit" and entry == FIRST + at:
            bit = data.draw(st.integers(0, len(frame) * 8 - 1))
            frame[bit // 8] ^= 1 << bit % 8
        frames.append(bytes(frame))
    joined = b"".join(b"\xff" * lead + frame for frame in frames)

    def many() -> list[Entry]:
        return sealer.unseal_many(FIRST, memoryview(joined), lead + len(frames[0]), lead)

    try:
        expected = [sealer.unseal(FIRST + number, frame) for number, frame in enumerate(frames)]
    except CorruptEntryError:
        with pytest.raises(CorruptEntryError, match=f"entry {FIRST} "):
            many()
    else:
        assert many() == expected


@pytest.mark.parametrize("size", [0, HEADER.size, HEADER.size + 3])
def test_frames_too_short_for_a_digest_are_not_believed(size: int) -> None:
    with pytest.raises(CorruptEntryError, match="entry 0 "):
        Sealer(7, DigestKind.CRC32C, b"").unseal_many(0, bytes(2 * size), max(size, 1), 0)


def test_a_frame_cannot_pass_as_another_entry() -> None:
    sealer = Sealer(7, DigestKind.CRC32C, b"dice")
    frame = sealer.seal(2, 1, 13, b"three")
    with pytest.raises(CorruptEntryError, match="frame is entry 2 of ledger 7"):
        sealer.unseal(3, frame)
    with pytest.raises(CorruptEntryError, match="frame is entry 2 of ledger 7"):
        Sealer(8, DigestKind.CRC32C, b"dice").unseal(2, frame)


@pytest.mark.parametrize("kind", [DigestKind.HMAC_SHA1, DigestKind.HMAC_SHA256])
def test_another_password_cannot_forge(kind: DigestKind) -> None:
    frame = Sealer(7, kind, b"loaded").seal(2, 1, 13, b"three")
    with pytest.raises(CorruptEntryError, match="digest does not match"):
        Sealer(7, kind, b"dice").unseal(2, frame)


@pytest.mark.parametrize(("lac", "length"), [(2, 13), (-2, 13), (1, 4)])
def test_an_impossible_header_is_refused(lac: int, length: int) -> None:
    sealer = Sealer(7, DigestKind.CRC32C, b"")
    with pytest.raises(CorruptEntryError, match="impossible header"):
        sealer.unseal(2, sealer.seal(2, lac, length, b"three"))


def test_a_payload_over_the_limit_is_named_with_the_limit() -> None:
    sealer = Sealer(7, DigestKind.NONE, b"")
    assert len(sealer.seal(0, NO_ENTRY, ENTRY_BYTES_MAX, bytes(ENTRY_BYTES_MAX))) == (
        HEADER.size + ENTRY_BYTES_MAX
    )
    with pytest.raises(EntryTooLargeError) as caught:
        sealer.seal(0, NO_ENTRY, 0, bytes(ENTRY_BYTES_MAX + 1))
    assert (caught.value.size, caught.value.limit) == (ENTRY_BYTES_MAX + 1, ENTRY_BYTES_MAX)


@pytest.mark.parametrize("packet", [b"", bytes(15), bytes(20)])
def test_a_bad_lac_packet_is_refused(packet: bytes) -> None:
    with pytest.raises(CorruptEntryError):
        Sealer(7, DigestKind.CRC32C, b"dice").unseal_lac(packet)


@pytest.mark.parametrize("check", ["", "0" * 64, "é", "\ud800", key_check(access_key(b"b"))])
def test_a_check_fits_its_key_only(check: str) -> None:
    key = access_key(b"a")
    assert is_checked(key, key_check(key))
    assert not is_checked(key, check)
