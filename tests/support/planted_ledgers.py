"""Many ledgers in a ZooKeeper, fast: records with real metadata, written in transactions."""

from __future__ import annotations

from itertools import groupby

from kazoo.client import KazooClient

from quire.entry import DigestKind, LedgerId
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.metastore.layout import ledger_path, parent_of

RECORDS_A_TRANSACTION = 500


def plant_ledgers(hosts: str, root: str, ledgers: range) -> None:
    """Create the records of some ledgers below `root`. Blocks."""
    client = KazooClient(hosts=hosts, timeout=30.0)
    client.start()
    try:
        for shard, group in groupby(ledgers, key=lambda ledger: parent_of(ledger_path(ledger))):
            client.ensure_path(root + shard)
            wanted = list(group)
            chunks = range(0, len(wanted), RECORDS_A_TRANSACTION)
            results = [
                _plant(client, root, wanted[at : at + RECORDS_A_TRANSACTION]) for at in chunks
            ]
            for result in results:
                assert all(isinstance(each, str) for each in result.get(timeout=60.0))
    finally:
        client.stop()
        client.close()


def _plant(client: KazooClient, root: str, ledgers: list[LedgerId]):  # type: ignore[no-untyped-def]
    transaction = client.transaction()
    for ledger in ledgers:
        transaction.create(root + ledger_path(ledger), metadata_of(ledger).encode())
    return transaction.commit_async()


def metadata_of(ledger: LedgerId) -> LedgerMetadata:
    """Return the metadata of a ledger as its creator would write it."""
    return LedgerMetadata(
        ledger=ledger,
        replication=Replication(),
        digest=DigestKind.CRC32C,
        key_check="0" * 64,
        fragments=(Fragment(0, tuple(f"{number:032x}" for number in range(3))),),
        created_ms=0,
        token=f"{ledger:032x}",
    )
