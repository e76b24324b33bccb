"""The fields of records and files keep the names of the first version, whatever Python calls them.

The expected names are written out here: a rename in the code must not change what other versions of
the program read.
"""

from __future__ import annotations

from quire.entry import DigestKind
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.log.cold.parquet import SCHEMA
from quire.log.manifest.manifest import LogManifest
from quire.log.records.producers import STAMPS
from quire.log.records.txids import TXIDS
from quire.metastore.record import decode_record


def test_a_ledgers_record() -> None:
    metadata = LedgerMetadata(
        7,
        Replication(1, 1, 1),
        DigestKind.CRC32C,
        "0" * 64,
        (Fragment(0, ("a",)),),
        custom_metadata={"owner": "billing"},
    )
    _, body = decode_record("", "ledger", metadata.encode())
    assert body["custom"] == {"owner": "billing"}
    assert "custom_metadata" not in body
    assert LedgerMetadata.decode("", metadata.encode()) == metadata


def test_a_logs_record() -> None:
    manifest = LogManifest("a", "id", 5).set_options({"roll_bytes": "7"})
    _, body = decode_record("", "log", manifest.encode())
    assert body["settings"] == {"roll_bytes": "7"}
    assert body["trimmed_transaction"] == -1
    assert body["doomed"] == []
    assert LogManifest.decode("", manifest.encode()) == manifest


def test_a_cold_file_and_the_columns_of_a_batch() -> None:
    assert "transaction" in SCHEMA.names
    assert (STAMPS, TXIDS) == (1, 4)
