"""Which ledgers exist no more, and which ids were given out, as the metadata store proves it.

A ledger is deleted when its record is not there. But a store that lost its data, a wrong store, or
a store that wrongly answers with an empty listing would say so of every ledger. So an absence
counts only when

  * the store still knows this cluster by its id, in the same adopted incarnation before and after,
  * the store's counter says that the ledger's id was once given out, and
  * after the listing of its shard lacked it, the record itself was asked for and is not there.

Any error is raised: nothing is deleted on the strength of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from quire.entry import LedgerId
from quire.errors import (
    CorruptRecordError,
    NoSuchNodeError,
    StoreWentBackError,
    WrongBookieError,
)
from quire.metastore.cluster import read_cluster
from quire.metastore.layout import LEDGER_IDS, ledger_path, name_of, parent_of
from quire.metastore.record import decode_record
from quire.metastore.store import MetadataStore


class SameStore:
    """Whether a store is still the store that answered before: only then may anything be dropped on
    its word.
    """

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._incarnation: int | None = None

    async def check(self) -> int:
        """Return the store's incarnation, if its word counts.

        Raises the store's errors, and `WrongBookieError`, `NoSuchNodeError` or
        `CorruptRecordError` when it is not the store of this cluster any more, and
        `StoreWentBackError` when it was put back from a backup since the last call.
        """
        found = await read_cluster(self._store)
        if found.id != self._cluster:
            name = f"metadata store {self._store.uri}"
            raise WrongBookieError(name, f"cluster {self._cluster}", f"cluster {found.id}")
        found.check_adopted(self._store)
        if self._incarnation not in (None, found.incarnation):
            self._incarnation = found.incarnation
            raise StoreWentBackError(
                f"metadata store {self._store.uri}", "it is of another incarnation than before"
            )
        self._incarnation = found.incarnation
        return found.incarnation

    async def check_again(self, incarnation: int) -> None:
        """Raise as `check`, and unless the incarnation is still this one."""
        if await self.check() != incarnation:
            raise StoreWentBackError(
                f"metadata store {self._store.uri}", "its incarnation changed while it was asked"
            )


class MetadataDeletions:
    """The collector's port `Deletions` over a metadata store."""

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._same = SameStore(store, cluster)
        self._following: LedgerId = 0

    async def deleted(self, ledgers: Sequence[LedgerId]) -> list[LedgerId]:
        """Return which of some ledgers exist no more.

        Raises the store's errors, and `WrongBookieError`, `NoSuchNodeError` or
        `CorruptRecordError` when it is not the store of this cluster any more, and
        `StoreWentBackError` when its counter is lower than in an earlier round.
        """
        found = await self._same.check()
        following = await self._next_id()
        gone: list[LedgerId] = []
        # A client may have begun a ledger with an id that was never given out.
        known = sorted(ledger for ledger in ledgers if 0 <= ledger < following)
        for shard, members in groupby(known, key=lambda ledger: parent_of(ledger_path(ledger))):
            listed = frozenset(await self._store.children(shard))
            missing = [each for each in members if name_of(ledger_path(each)) not in listed]
            gone += [ledger for ledger in missing if await self._is_absent(ledger)]
        await self._same.check_again(found)
        return gone

    async def _next_id(self) -> LedgerId:
        following = await _following(self._store)
        if following < self._following:
            raise StoreWentBackError(
                f"metadata store {self._store.uri}",
                f"its next ledger id is {following}, and was {self._following} before",
            )
        self._following = following
        return following

    async def _is_absent(self, ledger: LedgerId) -> bool:
        try:
            await self._store.get(ledger_path(ledger))
        except NoSuchNodeError:
            return True
        return False


class MetadataBirths:
    """The port `Births` of a bookie (births.py) over a metadata store."""

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._cluster = cluster

    async def born_below(self) -> LedgerId:
        """Return the lowest id that was not given out yet: 0 in a cluster without a counter.

        Raises the store's errors, `WrongBookieError` for the store of another cluster,
        `StoreWentBackError` for a store that was put back and not adopted, `NoSuchNodeError` and
        `CorruptRecordError`.
        """
        found = await read_cluster(self._store)
        if found.id != self._cluster:
            name = f"metadata store {self._store.uri}"
            raise WrongBookieError(name, f"cluster {self._cluster}", f"cluster {found.id}")
        found.check_adopted(self._store)
        try:
            return await _following(self._store)
        except NoSuchNodeError:
            return 0


async def _following(store: MetadataStore) -> LedgerId:
    """Return the next id that the store's counter gives out."""
    record = await store.get(LEDGER_IDS)
    _, body = decode_record(LEDGER_IDS, "ledger-ids", record.value)
    following = body.get("next")
    if type(following) is not int:
        raise CorruptRecordError(LEDGER_IDS, f"next id {following!r}")
    return following
