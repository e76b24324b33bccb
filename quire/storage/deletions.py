"""Which ledgers exist no more, as the metadata store proves it.

A ledger is deleted when its record is not there. But a store that lost its data, a wrong one, or
one that answers with an empty listing by mistake would say so of every ledger, so an absence counts
only when

  * the store still knows this cluster by its id,
  * the store's counter says that the ledger's id was once given out, and
  * after the listing of its shard lacked it, the record itself was asked for and is not there.

Any error is raised: nothing is deleted on the strength of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from quire.entry import LedgerId
from quire.errors import CorruptRecordError, NoSuchNodeError, WrongBookieError
from quire.metastore.layout import CLUSTER, LEDGER_IDS, ledger_path, name_of, parent_of
from quire.metastore.record import decode_record
from quire.metastore.store import MetadataStore


class MetadataDeletions:
    """The collector's port `Deletions` over a metadata store."""

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._cluster = cluster

    async def deleted(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """Return which of some ledgers exist no more.

        Raises the store's errors, and `WrongBookieError`, `NoSuchNodeError` or
        `CorruptRecordError` when it is not the store of this cluster any more.
        """
        found = await self._field(CLUSTER, "cluster", "cluster")
        if found != self._cluster:
            raise WrongBookieError(
                f"metadata store {self._store.uri}", f"cluster {self._cluster}", f"cluster {found}"
            )
        following = await self._field(LEDGER_IDS, "ledger-ids", "next")
        if type(following) is not int:
            raise CorruptRecordError(LEDGER_IDS, f"next id {following!r}")
        gone: list[LedgerId] = []
        # Somebody may be waiting for the tail of a ledger that can never be.
        known = sorted(ledger for ledger in ledgers if 0 <= ledger < following)
        for shard, members in groupby(known, key=lambda ledger: parent_of(ledger_path(ledger))):
            listed = frozenset(await self._store.children(shard))
            missing = [each for each in members if name_of(ledger_path(each)) not in listed]
            gone += [ledger for ledger in missing if await self._is_absent(ledger)]
        return gone

    async def _field(self, path: str, kind: str, name: str) -> object:
        record = await self._store.get(path)
        _, body = decode_record(path, kind, record.value)
        return body.get(name)

    async def _is_absent(self, ledger: LedgerId) -> bool:
        try:
            await self._store.get(ledger_path(ledger))
        except NoSuchNodeError:
            return True
        return False
