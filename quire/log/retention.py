"""Removing what a log no longer needs: ledgers that left it, and segments that are too old.

The manifest changes first, ledgers are deleted after. What left the manifest stays on its list of
doomed ledgers until it is deleted, so a crash in between costs nothing: whoever comes next goes
on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

from quire.entry import LedgerId
from quire.errors import NoSuchLedgerError
from quire.ledger.catalog import LedgerCatalog
from quire.log.manifest import LogManifest, retention_point
from quire.log.options import LogOptions
from quire.log.position import Position
from quire.log.retry import TRANSIENT

EditManifest: TypeAlias = Callable[[Callable[[LogManifest], LogManifest]], Awaitable[LogManifest]]
"""Something that applies a change to a log's manifest and returns the manifest as it then is."""


async def delete_doomed(
    catalog: LedgerCatalog, manifest: LogManifest, edit: EditManifest
) -> LogManifest:
    """Delete ledgers that left the log; what cannot be deleted now stays listed."""
    deleted: list[LedgerId] = []
    for ledger in manifest.doomed:
        with suppress(*TRANSIENT):
            with suppress(NoSuchLedgerError):
                await catalog.delete(ledger)
            deleted.append(ledger)
    if not deleted:
        return manifest
    return await edit(lambda now: now.forget_ledgers(deleted))


async def apply_retention(
    catalog: LedgerCatalog,
    options: LogOptions,
    now_ms: int,
    edit: EditManifest,
    slowest: Callable[[], Awaitable[Position | None]],
) -> LogManifest:
    """Trim what the options, with the manifest's settings over them, do not want kept.

    With `retention_cursors` nothing goes that is not behind the position which `slowest` returns.
    Cursors are looked at before the change, and they only move forward.
    """
    limit = await slowest()

    def change(manifest: LogManifest) -> LogManifest:
        wanted = options.with_settings(manifest.settings)
        point = retention_point(manifest, now_ms, wanted.retention_seconds, wanted.retention_bytes)
        if wanted.retention_cursors and limit is not None and point is not None:
            point = min(point, limit)
        return manifest if point is None else manifest.trim(point)

    return await delete_doomed(catalog, await edit(change), edit)
