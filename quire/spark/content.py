"""Distinguishes a batch of a stream from another batch with the same number.

Spark repeats a batch with the same records, but not with the same tasks or order. So records are
summed up in any order: the digest is equal for equal records, each as often as in the other.
With a key of the log the digest says nothing about the records to a reader of the metadata.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

_SUM_BYTES: Final = 16
_DIGEST_BYTES: Final = 8
_MASK: Final = 2 ** (8 * _SUM_BYTES) - 1


class Content(NamedTuple):
    """How many records there are, and the sum of their digests."""

    records: int = 0
    sum: int = 0

    def with_records(self, payloads: Iterable[bytes], key: bytes = b"") -> Content:
        """Return the content with more records, each digested with the key."""
        records, total = self
        for payload in payloads:
            records += 1
            total += int.from_bytes(blake2b(payload, digest_size=_SUM_BYTES, key=key).digest())
        return Content(records, total & _MASK)

    def joined(self, other: Content) -> Content:
        """Return the content of both."""
        return Content(self.records + other.records, self.sum + other.sum & _MASK)

    @property
    def digest(self) -> str:
        """The digest that a log remembers: 16 hexadecimal digits."""
        data = f"{self.records} {self.sum:x}".encode()
        return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
