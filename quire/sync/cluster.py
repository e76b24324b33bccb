"""Blocking twin of `LocalCluster`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quire.cluster import LocalCluster
from quire.sync.portal import Portal


@contextmanager
def local_cluster(
    directory: str | Path | None = None,
    bookies: int = 6,
    *,
    store: str | None = None,
    zookeeper: int | None = None,
) -> Iterator[SyncLocalCluster]:
    """Run bookies as processes of this machine: `with local_cluster(bookies=3) as cluster:`.

    See `quire.cluster.LocalCluster` for what the directory keeps and what is raised. Leaving the
    block ends every process.
    """
    portal = Portal.shared()

    async def make() -> LocalCluster:
        return LocalCluster(directory, bookies, store=store, zookeeper=zookeeper)

    with portal.hold(portal.call(make())) as cluster:
        yield SyncLocalCluster(portal, cluster)


class SyncLocalCluster:
    """Bookies of this machine, for blocking programs. Made by `local_cluster`."""

    def __init__(self, portal: Portal, cluster: LocalCluster) -> None:
        self._portal = portal
        self._cluster = cluster

    @property
    def store_uri(self) -> str:
        """The metadata store's URI: what `connect` takes."""
        return self._cluster.store_uri

    @property
    def directory(self) -> Path:
        """Where the cluster keeps its data."""
        return self._cluster.directory

    def kill(self, index: int) -> None:
        """See `LocalCluster.kill`."""
        self._portal.call_plain(lambda: self._cluster.kill(index))

    def pause(self, index: int) -> None:
        """See `LocalCluster.pause`."""
        self._portal.call_plain(lambda: self._cluster.pause(index))

    def resume(self, index: int) -> None:
        """See `LocalCluster.resume`."""
        self._portal.call_plain(lambda: self._cluster.resume(index))

    def restart(self, index: int) -> None:
        """See `LocalCluster.restart`."""
        self._portal.call(self._cluster.restart(index))
