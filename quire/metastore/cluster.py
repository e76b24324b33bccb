"""The record of the cluster: its id, and the incarnation of its metadata store.

A store that was put back from a backup begins a new *incarnation*. It has lost changes that it had
confirmed, so nothing may be served, given out or deleted on its word until an operator adopts it
(protocol.md, I1). Fields that this program does not know are kept when the record is rewritten.

Pure, but for the last two functions and `Level`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from quire.errors import CorruptRecordError, NoSuchNodeError, StoreWentBackError
from quire.fields import NOTHING, Unknown
from quire.metastore.layout import CLUSTER, RESTORING
from quire.metastore.levels import FIRST_LEVEL, SPEAKS, check_level
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

FORMAT: Final = RecordFormat(
    "cluster",
    frozenset({"cluster", "incarnation", "adopted", "counted", "level", "raising", "ruled"}),
)


RECHECK_SECONDS: Final = 60.0
"""Time between two looks at a level that is too low to write a format."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A store's record of its cluster. A record of before incarnations is of incarnation 0."""

    id: str
    incarnation: int = 0
    adopted: bool = True
    """Whether an operator has adopted the incarnation; the first one needs no adoption."""
    unknown: Unknown = NOTHING
    """Fields of a later program."""
    counted: bool = False
    """Whether the store has had a counter of ledger ids. A counter that is missing now was lost."""
    level: int = FIRST_LEVEL
    """The feature level: which formats may be written (levels.py)."""
    raising: int = 0
    """The level that an operator is about to raise to, 0 for none. Programs join as if the cluster
    were there already: else one that registers after the operator looked could be missed."""
    ruled: bool = False
    """Whether the store has had a table of rights. A table that is missing now was lost."""

    def encode(self) -> bytes:
        """Return the record."""
        body: dict[str, object] = {"cluster": self.id}
        if self.incarnation or not self.adopted:
            body |= {"incarnation": self.incarnation, "adopted": self.adopted}
        if self.counted:
            body["counted"] = True
        if self.level != FIRST_LEVEL:
            body["level"] = self.level
        if self.raising:
            body["raising"] = self.raising
        if self.ruled:
            body["ruled"] = True
        return FORMAT.encode(body, self.unknown)

    @classmethod
    def decode(cls, data: bytes) -> Cluster:
        """Return the contents of a record. Raises `CorruptRecordError`."""
        _, body, unknown = FORMAT.decode(CLUSTER, data)
        cluster = body.get("cluster")
        incarnation, adopted = body.get("incarnation", 0), body.get("adopted", True)
        counted, ruled = body.get("counted", False), body.get("ruled", False)
        if not isinstance(cluster, str) or not cluster:
            raise CorruptRecordError(CLUSTER, f"cluster id {cluster!r}")
        if type(incarnation) is not int or incarnation < 0 or not isinstance(adopted, bool):
            raise CorruptRecordError(CLUSTER, f"incarnation {incarnation!r}, adopted {adopted!r}")
        if not isinstance(counted, bool) or not isinstance(ruled, bool):
            raise CorruptRecordError(CLUSTER, f"counted {counted!r}, ruled {ruled!r}")
        level, raising = body.get("level", FIRST_LEVEL), body.get("raising", 0)
        if type(level) is not int or level < FIRST_LEVEL or type(raising) is not int:
            raise CorruptRecordError(CLUSTER, f"level {level!r}, raising {raising!r}")
        return cls(cluster, incarnation, adopted, unknown, counted, level, raising, ruled)

    def check_adopted(self, store: MetadataStore) -> None:
        """Raise `StoreWentBackError` unless the incarnation was adopted."""
        if not self.adopted:
            raise StoreWentBackError(
                f"metadata store {store.uri}",
                f"it was put back from a backup (incarnation {self.incarnation}), and it was not "
                "adopted",
            )


class Level:
    """The feature level of a cluster, for programs that write shared records.

    A level never falls. So a level that was high enough once is not read again; a lower one is,
    after `RECHECK_SECONDS`.
    """

    def __init__(self, store: MetadataStore, seen: int = 0) -> None:
        """`seen` is a level that the cluster has for certain."""
        self._store = store
        self._seen = seen
        self._again_at = 0.0

    @property
    def seen(self) -> int:
        """The level that was read last, 0 before the first look."""
        return self._seen

    async def allows(self, level: int) -> bool:
        """Return whether the formats of a level may be written. Raises the store's errors."""
        now = asyncio.get_running_loop().time()
        if self._seen < level <= SPEAKS.highest and (not self._seen or now >= self._again_at):
            try:
                self._seen = Cluster.decode((await self._store.get(CLUSTER)).value).level
            except (NoSuchNodeError, CorruptRecordError):  # then only the oldest may be written
                self._seen = FIRST_LEVEL
            self._again_at = now + RECHECK_SECONDS
        return self._seen >= level


EPOCH_BITS: Final = 24
"""Epochs of one incarnation, of an election or a log: sixteen million, one a second for half a
year. A restore draws its incarnation below 2^32 above the one before, and so does an adoption
without a restore; a hundred of them leave an epoch in 63 bits."""


def epoch_floor(incarnation: int) -> int:
    """Return the epoch that all epochs begun in an incarnation are above. Those that a restored
    store lost are below, so none of them comes again.
    """
    return incarnation << EPOCH_BITS


async def adopted_incarnation(store: MetadataStore) -> int:
    """Return the incarnation of a store, 0 for a store of ledgers alone, without a cluster.

    Raises `StoreWentBackError` when it was not adopted or is being put back, `CorruptRecordError`,
    and the store's errors.
    """
    try:
        found = await read_cluster(store)
    except NoSuchNodeError:
        with suppress(NoSuchNodeError):
            await store.get(RESTORING)
            raise StoreWentBackError(
                f"metadata store {store.uri}", "a backup is being put back there"
            ) from None
        return 0
    found.check_adopted(store)
    return found.incarnation


async def read_cluster(store: MetadataStore) -> Cluster:
    """Return the record of a store's cluster.

    Raises `NoSuchNodeError` when the store has none, `FormatLevelError` when the cluster is at a
    level that this program does not speak, `CorruptRecordError`, and the store's errors.
    """
    found = Cluster.decode((await store.get(CLUSTER)).value)
    check_level(max(found.level, found.raising))
    return found
