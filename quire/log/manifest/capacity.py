"""Capacity: the largest manifest of a log, and the space kept for calls that must always work.

A store takes values up to `VALUE_BYTES_MAX`. Without pages (page_tree.py) the manifest has a row
for each segment, so a log that rolls and never trims comes to that limit. Growth is refused before,
in this order:

    WARNING_BYTES          the leader warns: from half of the limit on
    GROWTH_BYTES_MAX       rolls, ingests, offloads are refused; a leader stays in its segment
    TAKEOVER_BYTES_MAX     takeovers are refused, before the present leader is fenced
    VALUE_BYTES_MAX        sealing, settings, trimming and deletion have the rest

Between the second and the third fit some 1,000 takeovers. A trim makes the manifest smaller at any
size, and needs no leader. Source: docs/protocol.md, "Logs".

Pure: no clock and no I/O.
"""

from __future__ import annotations

from typing import Final

from quire.errors import LogFullError
from quire.log.manifest.manifest import LogManifest
from quire.metastore.layout import VALUE_BYTES_MAX

WARNING_BYTES: Final = VALUE_BYTES_MAX // 2
GROWTH_BYTES_MAX: Final = VALUE_BYTES_MAX * 90 // 100
TAKEOVER_BYTES_MAX: Final = VALUE_BYTES_MAX * 97 // 100

PART_BYTES: Final = 160
"""Bytes of the row of one ingested segment, at most. In a paged manifest it goes into a page."""


def manifest_bytes(manifest: LogManifest) -> int:
    """Return the size of a manifest's record in bytes."""
    return len(manifest.encode())


def check_growth(manifest: LogManifest, more: int = 0) -> int:
    """Return the size that a manifest has in bytes, if it may grow by `more` bytes.

    Raises `LogFullError`.
    """
    size = manifest_bytes(manifest)
    if manifest.is_paged:
        more = 0
    if size + more > GROWTH_BYTES_MAX and not manifest.will_page:
        raise LogFullError(manifest.name, size, GROWTH_BYTES_MAX, manifest.segment_count)
    return size


def check_takeover(manifest: LogManifest) -> int:
    """Return the size of a manifest in bytes, if it has space for one more leader.

    Raises `LogFullError`.
    """
    size = manifest_bytes(manifest)
    if size > TAKEOVER_BYTES_MAX and not manifest.will_page:
        raise LogFullError(manifest.name, size, TAKEOVER_BYTES_MAX, manifest.segment_count)
    return size


def has_much_space(manifest: LogManifest) -> bool:
    """Return whether a manifest is below all limits, with one look at its size."""
    return manifest_bytes(manifest) < min(WARNING_BYTES, GROWTH_BYTES_MAX)


def warning(manifest: LogManifest) -> str | None:
    """Return what to warn of; None while the manifest is below half of the limit."""
    size = manifest_bytes(manifest)
    if size < WARNING_BYTES or manifest.will_page:
        return None
    return (
        f"manifest of log {manifest.name!r} has {size} of {VALUE_BYTES_MAX} bytes with "
        f"{manifest.segment_count} segments, and stops growing at {GROWTH_BYTES_MAX}: trim the "
        "log, set retention, or make segments larger (roll_bytes, roll_entries, roll_seconds)"
    )
