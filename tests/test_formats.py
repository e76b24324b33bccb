"""docs/formats.md draws what the code writes: its vectors are recomputed, its sizes compared."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from quire.entry import HEADER, DigestKind, Sealer, access_key
from quire.log.records import batch
from quire.log.records.encryption import Encryption
from quire.log.records.keyring import Keyring
from quire.log.records.producers import encode_columns
from quire.log.records.txids import TXIDS, encode_txids
from quire.metastore.record import encode_record as encode_metadata
from quire.run import pack_run
from quire.storage.entries import entry_log, ledger_state
from quire.storage.entries.checkpoint import Checkpoint, encode_checkpoint
from quire.storage.entries.ledger_state import LedgerState, encode_row
from quire.storage.identity.cookie import BookieCookie, encode_cookie
from quire.storage.journal import record
from quire.storage.journal.record import RecordKind, SegmentHeader, encode_record, encode_segment
from quire.storage.journal.replay import JournalPosition

DOCUMENT = (Path(__file__).resolve().parents[1] / "docs" / "formats.md").read_text("utf-8")
LEDGER = 7
KEY, SALT = bytes(range(32)), bytes(range(100, 116))
SEALERS = {kind: Sealer(LEDGER, kind, b"") for kind in DigestKind}


def vectors() -> dict[str, str]:
    """Return every vector of the document by name."""
    frame = SEALERS[DigestKind.CRC32C].seal(1, 0, 5, b"hello")
    key = access_key(b"")
    state = LedgerState(LEDGER)
    state.key, state.is_fenced, state.hint = key, True, 0
    segment = encode_segment(SegmentHeader(1, 3, 0, 1 << 24, "b" * 32))
    found = {"access-key": key.hex()}
    for kind, sealer in SEALERS.items():
        found[f"frame-{kind}"] = sealer.seal(1, 0, 5, b"hello").hex()
    found |= {
        "lac-packet": SEALERS[DigestKind.CRC32C].seal_lac(1).hex(),
        "run": pack_run([frame]).hex(),
        "segment-header": segment[:78].hex(),
        "record-header": encode_record(RecordKind.RUN, pack_run([frame]), 2, 1, 3, 1).hex(),
        "state-row": encode_row(state).hex(),
    }
    columns = encode_columns({TXIDS: encode_txids([5, 9])})
    plain = batch.encode_batch(
        [b"buy", b"sell"], first_offset=3, epoch=2, timestamp_ms=1000, columns=columns
    )
    sealed = Encryption(Keyring({"k1": KEY}, current="k1"), LEDGER, SALT).seal(plain, 1, 9)
    return found | {"batch": plain.hex(), "encrypted-batch": sealed.hex()}


def written() -> dict[str, str]:
    section = DOCUMENT.partition("\n## Vectors\n")[2]
    rows = [line.split() for line in section.splitlines() if line.startswith("    ")]
    return dict(row for row in rows if len(row) == 2)


def test_the_vectors_are_what_the_code_writes() -> None:
    assert written() == vectors()


@pytest.mark.parametrize(
    ("size", "found"),
    [
        (32, HEADER.size),
        (36, batch.HEADER.size),
        (44, record.RECORD_HEADER_BYTES),
        (54, entry_log._HEADER.size + 4),
        (12, entry_log._LEDGER.size),
        (36, entry_log._CHUNK.size),
        (54, entry_log._FOOTER.size + 4),
        (21, ledger_state._ROW.size),
    ],
)
def test_the_sizes_in_the_drawings_are_right(size: int, found: int) -> None:
    assert size == found


def test_an_encrypted_batch_opens_as_the_drawing_says() -> None:
    stored, plain = (bytes.fromhex(written()[name]) for name in ("encrypted-batch", "batch"))
    size = stored[37]
    front, inner = stored[: 62 + size], plain[:2] + stored[2:3] + plain[3:36]
    assert stored[:36] == inner
    assert (stored[36], stored[38 : 38 + size]) == (plain[2], b"k1")
    assert stored[38 + size : 54 + size] == SALT
    assert int.from_bytes(stored[54 + size : 62 + size], "big") == 9
    extracted = hmac.digest(SALT, KEY, "sha256")
    info = b"quire batch" + LEDGER.to_bytes(8, "big")
    key = hmac.digest(extracted, info + b"\x01", "sha256")
    place = LEDGER.to_bytes(8, "big") + (1).to_bytes(8, "big")
    body = AESGCM(key).decrypt((1).to_bytes(12, "big"), stored[62 + size :], place + front)
    assert body == plain[36:]


def test_state_files_and_metadata_records_begin_as_drawn() -> None:
    cookie = encode_cookie(BookieCookie("b" * 32, "c" * 32))
    checkpoint = encode_checkpoint(Checkpoint(3, JournalPosition(1, 4096, 7), (2, 1)))
    for kind, data in (("cookie", cookie), ("checkpoint", checkpoint)):
        assert data.startswith(f"quire {kind} v1 crc32c=".encode())
        assert data.endswith(b"}\n")
        assert data.count(b"\n") == 2
    metadata = encode_metadata("ledger-ids", 1, {"next": 8})
    assert metadata == b'quire ledger-ids v1 crc32c=f9502ac6\n{"next":8}'


def test_every_kind_of_metadata_record_is_listed() -> None:
    kinds = ["cluster", "ledger-ids", "ledger", "bookie", "cookie", "log", "epoch", "candidate"]
    assert all(f"| `{kind}` |" in DOCUMENT for kind in kinds)
