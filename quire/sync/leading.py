"""Blocking twin of a leadership of a log."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from quire.leading import LeadingLog
from quire.sync.logs import SyncLog
from quire.sync.portal import Portal


class SyncLeadingLog(AbstractContextManager[SyncLog]):
    """Blocking twin of `LeadingLog`: its block is not interrupted. Use it once."""

    def __init__(self, portal: Portal, leading: LeadingLog) -> None:
        self._portal = portal
        self._block = portal.hold(leading._turn)

    def __enter__(self) -> SyncLog:
        return SyncLog(self._portal, self._block.__enter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return bool(self._block.__exit__(kind, error, traceback))
