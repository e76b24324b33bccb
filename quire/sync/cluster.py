"""Blocking twin of `LocalCluster`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quire.cluster import LocalCluster, ProcessState, Ready, ServerDeath
from quire.sync.portal import Portal
from quire.sync.twins import twin_of
from quire.wire.certificates import TlsOptions


@twin_of(LocalCluster, "_cluster")
class SyncLocalCluster:
    """Blocking twin of `LocalCluster`, made with the same arguments.

    Leaving the block ends every process.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._portal = Portal.shared()
        self._cluster = self._portal.call_plain(lambda: LocalCluster(*args, **options))

    @property
    def store_uri(self) -> str:
        """The metadata store's URI: what `connect` takes."""
        return self._cluster.store_uri

    @property
    def tls(self) -> TlsOptions | None:
        """See `LocalCluster.tls`."""
        return self._cluster.tls

    def start(self, on_ready: Callable[[int], None] | None = None) -> None:
        """See `LocalCluster.start`. `on_ready` is called on the loop's thread."""
        self._portal.call(self._cluster.start(on_ready))

    def stop(self) -> None:
        """See `LocalCluster.stop`."""
        self._portal.call(self._cluster.stop())

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

    def next_death(self) -> ServerDeath:
        """See `LocalCluster.next_death`."""
        return self._portal.call(self._cluster.next_death())

    def state(self, index: int) -> ProcessState:
        """See `LocalCluster.state`."""
        return self._portal.call_plain(lambda: self._cluster.state(index))

    def ready(self, index: int) -> Ready | None:
        """See `LocalCluster.ready`."""
        return self._portal.call_plain(lambda: self._cluster.ready(index))

    def index_of(self, bookie: str) -> int:
        """See `LocalCluster.index_of`."""
        return self._portal.call_plain(lambda: self._cluster.index_of(bookie))

    def pid(self, index: int) -> int:
        """See `LocalCluster.pid`."""
        return self._portal.call_plain(lambda: self._cluster.pid(index))

    def bookie_directory(self, index: int) -> Path:
        """See `LocalCluster.bookie_directory`."""
        return self._cluster.bookie_directory(index)

    def bookie_tls(self, index: int) -> TlsOptions | None:
        """See `LocalCluster.bookie_tls`."""
        return self._cluster.bookie_tls(index)

    def bookie_log(self, index: int) -> Path:
        """See `LocalCluster.bookie_log`."""
        return self._cluster.bookie_log(index)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
