"""Finishing an upgrade: raising the cluster's feature level once all programs speak it.

The decision is pure (quire/metastore/levels.py). Both sides write before they look: the operator
writes into the cluster's record which level is being raised to, then reads the registrations; a
program registers, then reads the cluster's record. So a program that speaks less is either seen
here, or sees the level that is being raised to and ends. The level itself comes last.
"""

from __future__ import annotations

from dataclasses import replace

from quire.errors import UpgradeRefusedError
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from quire.metastore.levels import Upgrade, check_level
from quire.metastore.members import read_members
from quire.metastore.store import MetadataStore


async def upgrade_status(store: MetadataStore) -> Upgrade:
    """Return the level of a cluster, and which programs are registered.

    Raises `NoSuchNodeError` when the store holds no cluster, `CorruptRecordError`, and the store's
    errors.
    """
    cluster = Cluster.decode((await store.get(CLUSTER)).value)
    return Upgrade(cluster.level, await read_members(store))


async def finish_upgrade(store: MetadataStore) -> Upgrade:
    """Raise a cluster's level to the newest of this program; a second call changes nothing.

    Raises:
        UpgradeRefusedError: a registered bookie or client does not speak the newest level.
        FormatLevelError: this program is older than the cluster.
        NoSuchNodeError: the store holds no cluster.
        ConflictError: the cluster's record changed meanwhile: call again.

    Cancellation: call again. Until then, programs that speak less cannot join.
    """
    record = await store.get(CLUSTER)
    cluster = Cluster.decode(record.value)
    found = Upgrade(cluster.level, ())
    check_level(cluster.level)
    if found.is_finished:
        return replace(found, members=await read_members(store))
    raising = replace(cluster, raising=found.newest)
    version = await store.put(CLUSTER, raising.encode(), record.version)
    found = replace(found, members=await read_members(store))
    try:
        after = replace(cluster, level=found.finished(), raising=0)
    except UpgradeRefusedError:
        await store.put(CLUSTER, replace(cluster, raising=0).encode(), version)
        raise
    await store.put(CLUSTER, after.encode(), version)
    return replace(found, level=after.level)
