"""A recovery keeps the payloads of a ledger without a password (B16)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quire.entry import DIGEST_BYTES, HEADER, OPEN_KEY, DigestKind, Sealer
from quire.errors import CorruptEntryError
from quire.run import pack_run
from tests.contract.bookie.capabilities import BookieCapability
from tests.contract.bookie.subjects import Run, Subject
from tests.contract.capabilities import needs

LEDGER = 11
KINDS = [kind for kind in DigestKind if kind is not DigestKind.NONE]


def _forged(sealer: Sealer) -> Iterator[bytes]:
    """Frames that a stranger could make for entry 1, which was sealed with length 20."""
    yield sealer.seal(1, 0, 20, b"pay mallo")
    yield sealer.seal(1, 0, 20, b"pay alice and mallo")
    yield sealer.seal(1, 0, 21, b"pay alice")
    at = HEADER.size + DIGEST_BYTES[sealer.kind]
    sound = sealer.seal(1, 0, 20, b"pay alice")
    yield sound[: at - 1] + bytes([sound[at - 1] ^ 1]) + sound[at:]


@needs(BookieCapability.KEEPS_ENTRIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_recovery_changes_no_payload(run: Run, kind: DigestKind) -> None:
    sealer = Sealer(LEDGER, kind, b"")

    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        held = pack_run([sealer.seal(1, 0, 20, b"pay alice"), sealer.seal(2, 1, 30, b"x")])
        await bookie.add(LEDGER, OPEN_KEY, held)
        await bookie.read_tail(LEDGER, fence_key=OPEN_KEY)
        for frame in _forged(sealer):
            for frames in ([frame], [sealer.seal(0, -1, 11, b"new"), frame]):
                with pytest.raises(CorruptEntryError, match="another payload"):
                    await bookie.add(LEDGER, OPEN_KEY, pack_run(frames), recovery=True)
        assert await bookie.read(LEDGER, 1, 9) == held, "nothing of it was stored"

    run(check)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recovery_seals_an_entry_for_another_lac(run: Run, kind: DigestKind) -> None:
    sealer = Sealer(LEDGER, kind, b"")

    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        await bookie.add(LEDGER, OPEN_KEY, pack_run([sealer.seal(1, 0, 20, b"pay alice")]))
        await bookie.read_tail(LEDGER, fence_key=OPEN_KEY)
        again = pack_run([sealer.seal(1, -1, 20, b"pay alice"), sealer.seal(2, -1, 21, b"x")])
        await bookie.add(LEDGER, OPEN_KEY, again, recovery=True)
        assert await bookie.read(LEDGER, 1, 9) == again

    run(check)


def test_a_copy_that_fits_no_digest_proves_nothing(run: Run) -> None:
    """It was damaged before it was stored, or the ledger has no digests."""
    sealer = Sealer(LEDGER, DigestKind.CRC32C, b"")

    async def check(subject: Subject) -> None:
        bookie = subject.bookie
        sound = sealer.seal(1, 0, 20, b"pay alice")
        await bookie.add(LEDGER, OPEN_KEY, pack_run([sound[:-1] + b"?"]))
        await bookie.add(LEDGER, OPEN_KEY, pack_run([sound]), recovery=True)
        assert await bookie.read(LEDGER, 1, 1) == pack_run([sound])

    run(check)
