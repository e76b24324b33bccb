"""Blocks of a disk, and the checksum of every file of a bookie. Pure."""

from __future__ import annotations

from typing import Final

import google_crc32c

BLOCK_BYTES: Final = 4096
"""The kernel writes pages of this size: a write that begins at a multiple of it touches no page
that holds acknowledged bytes."""


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the CRC32C of data, continuing from `crc`. The library takes nothing but bytes."""
    value: int = google_crc32c.extend(crc, data if isinstance(data, bytes) else bytes(data))
    return value


def align(offset: int) -> int:
    """Return the first block boundary at or after an offset."""
    return -(-offset // BLOCK_BYTES) * BLOCK_BYTES
