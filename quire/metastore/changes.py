"""Changes of the metadata store as values, for `MetadataStore.commit`, which makes several at once.

A transaction costs a store one round trip and one sync, as a single change does. It is made in
order, so a record may be created below another that the same transaction creates, or deleted after
the records below it. The module is pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from quire.errors import InvalidRequestError
from quire.metastore.layout import VALUE_BYTES_MAX, check_path, check_value

CHANGE_BYTES: Final = 200
"""Bytes of a change besides its path and value: its header and ACL, generously."""

CHANGES_BYTES_MAX: Final = VALUE_BYTES_MAX + 10_000
"""Bytes of one transaction: the largest value, and what is looked at beside it. ZooKeeper takes
requests of 1,048,575 bytes.
"""


@dataclass(frozen=True, slots=True)
class Create:
    """Make a record that does not exist, and its parents as needed."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the value of a record that is at `version`."""

    path: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a record that is at `version`, whatever its version when None."""

    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, and let nothing be changed unless a record is at `version`."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Absent:
    """Change nothing, and let nothing be changed if a record exists at a path."""

    path: str


Change: TypeAlias = Create | Put | Delete | Check | Absent


def check_changes(changes: Sequence[Change]) -> None:
    """Check that every store can make some changes at once.

    Raises `InvalidRequestError` without any change, if a path is unusable or occurs twice, or if a
    value or all of them together are too large.
    """
    if not changes:
        raise InvalidRequestError("a transaction needs at least one change")
    seen: dict[str, Change] = {}
    weight = 0
    for change in changes:
        if check_path(change.path) in seen:
            raise InvalidRequestError(f"{change.path} is changed twice in one transaction")
        seen[change.path] = change
        weight += CHANGE_BYTES + len(change.path)
        if isinstance(change, Create | Put):
            weight += len(check_value(change.path, change.value))
    if weight > CHANGES_BYTES_MAX:
        raise InvalidRequestError(
            f"{len(changes)} changes of {weight} bytes exceed the limit of {CHANGES_BYTES_MAX} "
            "for one transaction: split it"
        )


def describe(changes: Sequence[Change]) -> str:
    """Return what to call a transaction in an error: its first path, and how many more."""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{changes[0].path}{more}"
