"""The version of a record in ZooKeeper, joined from what ZooKeeper says of it.

    id of the change that created the record | its edits since | time of the last change, in ms

The first two order the versions of a record's life and tell one life from the next. They start
anew with ZooKeeper's data: after an older copy was put back, a record that was changed as often as
before has both again. Only the time differs then. It is compared for equality.
"""

from __future__ import annotations

from typing import Final

EDIT_BITS: Final = 32
TIME_BITS: Final = 48
"""Milliseconds of 9,000 years."""


def join_version(created: int, edits: int, changed_ms: int) -> int:
    """Return the version of a record that is at `edits` edits since the change `created`."""
    return (created << EDIT_BITS | edits) << TIME_BITS | changed_ms % (1 << TIME_BITS)
