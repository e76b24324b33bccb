"""Checksums around a Parquet file: no byte reaches its parser that was not checked.

Parquet can sum up the data of its pages, but neither their headers nor its footer, and the parser
ends the process over some that are damaged. So the writer of a file sums it up a row group
at a time, these sums stand in the footer, and the footer's own sum in the manifest. Pure, but for
the streams that it is given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Final

import google_crc32c

from quire.errors import CorruptStorageError

TRAILER: Final = 8
"""The last bytes of a Parquet file: the footer's length, little-endian, and the magic."""


def footer_start(trailer: bytes, size: int) -> int:
    """Return where the footer of a file begins. Raises ValueError when nothing can begin there."""
    start = size - TRAILER - int.from_bytes(trailer[-TRAILER:-4], "little")
    if len(trailer) < TRAILER or not 0 <= start < size:
        raise ValueError(f"no footer in {size} bytes that end in {trailer[-TRAILER:].hex()}")
    return start


def sum_up(data: bytes) -> int:
    """CRC32C."""
    value: int = google_crc32c.value(data)
    return value


class Summing:
    """A sum that grows."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, data: bytes) -> None:
        """Count in the next bytes."""
        self.value = google_crc32c.extend(self.value, data)


class SummedSink:
    """A stream to write to that knows the sums of what went through it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._position = 0
        self._part: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        piece = bytes(data)
        self._stream.write(piece)
        self._part.append(piece)
        self._position += len(piece)
        return len(piece)

    def cut(self) -> tuple[int, int]:
        """Return where the part ends that is written up to here, and its sum; begin the next."""
        part, self._part = b"".join(self._part), []
        return self._position, sum_up(part)

    def footer(self) -> tuple[int, int]:
        """Return the size of the file, and the sum of its footer, after the last part."""
        part = b"".join(self._part)
        start = footer_start(part, self._position) - self._position
        return self._position, sum_up(part[start:])

    def tell(self) -> int:
        """Bytes so far."""
        return self._position

    def flush(self) -> None:
        """There is nothing to flush."""

    def close(self) -> None:
        """Close the stream."""
        self.closed = True
        self._stream.close()


class CheckedFile:
    """A file to read from that gives only bytes with right sums; a part at a time.

    `read_at` returns so many bytes from a position. Until `parts` are known, from the footer, the
    bytes in front of it read as zeros. Raises `CorruptStorageError` naming `uri`.
    """

    def __init__(
        self, uri: str, read_at: Callable[[int, int], bytes], size: int, checksum: int
    ) -> None:
        self._uri = uri
        self._read_at = read_at
        self._size = size
        self._at = 0
        self._parts: list[tuple[int, int]] = []
        self._loaded: tuple[int, bytes] = (-1, b"")
        self.closed = False
        try:
            self._footer_start = footer_start(read_at(max(0, size - TRAILER), TRAILER), size)
        except ValueError as error:
            raise CorruptStorageError(uri, str(error)) from error
        self._footer = read_at(self._footer_start, size - self._footer_start)
        if sum_up(self._footer) != checksum:
            raise CorruptStorageError(uri, "its footer differs from the footer written")

    def expect(self, parts: Sequence[tuple[int, int]]) -> None:
        """Take in where the parts end, and their sums."""
        self._parts = list(parts)

    def check(self, part: int) -> None:
        """Read a part, by its number, and compare it with its sum."""
        self._part_at(self._parts[part - 1][0] if part else 0)

    def _part_at(self, at: int) -> tuple[int, bytes]:
        """The part that holds a byte: where it begins, and its bytes."""
        if at >= self._footer_start:
            return self._footer_start, self._footer
        index = bisect_right(self._parts, at, key=lambda part: part[0])
        if index == len(self._parts):
            return at, bytes(self._footer_start - at)
        start = self._parts[index - 1][0] if index else 0
        if self._loaded[0] != start:
            end, checksum = self._parts[index]
            data = self._read_at(start, end - start)
            if sum_up(data) != checksum:
                reason = f"bytes {start} to {end} are not what was written"
                raise CorruptStorageError(self._uri, reason)
            self._loaded = start, data
        return self._loaded

    def read(self, count: int = -1) -> bytes:
        """Return the next bytes, checked."""
        end = self._size if count < 0 else min(self._at + count, self._size)
        pieces = []
        while self._at < end:
            start, data = self._part_at(self._at)
            piece = data[self._at - start : end - start]
            pieces.append(piece)
            self._at += len(piece)
        return b"".join(pieces)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position; returns it."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read anywhere."""
        return True

    def close(self) -> None:
        """Let go."""
        self.closed = True
