"""Port 2: a small tree of versioned records with compare-and-set, watches and sessions.

Implemented in memory (the reference, and the simulator's ground truth), on SQLite (the embedded
default: several processes of one machine) and on ZooKeeper. One contract suite runs over all of
them (`tests/contract/metastore`).

Paths look like `/a/b/c`: a leading slash, segments of printable ASCII without slash, no `.` or
`..`. Parents are made as needed and may hold a value (empty unless written).

Law, for every implementation:

  T1  `get` and `changed` are linearizable: they see every change that was confirmed before they
      were called.
  T2  Every change of a record gives it a version greater than any it had before in its life; a
      record that is deleted and created again may start over, and its watchers are woken.
  T3  A call that raises `StoreUnavailableError` changed nothing. A call that raises
      `StoreOutcomeUnknownError` may have; the caller re-reads. There is no other ambiguity. A
      transaction (`commit`) is one change in this, of several records.
  T4  `wait` and `wait_children` are level-triggered: they compare with the caller's view, so no
      change is lost between a read and a wait. They may wake for nothing; callers re-read.
  T5  When a session expires its ephemeral records are removed and `wait_expired` returns, though
      not necessarily in that order nor at once: an expired owner may believe in its lease for a
      while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quire.metastore.changes import Change


@dataclass(frozen=True, slots=True)
class Versioned:
    """A record's value and the version to compare-and-set against."""

    value: bytes
    version: int
    written_ms: int | None = field(default=None, compare=False)
    """When the record got this version, by the store's own clock (Unix milliseconds); None where
    the store has none. It may be wrong like any clock, and decides nothing by itself.
    """


class Session(Protocol):
    """A lease on the store: ephemeral records live as long as it does."""

    async def create(self, path: str, value: bytes) -> int:
        """Create an ephemeral record; returns its version.

        Raises `NodeExistsError`, `SessionExpiredError`, and the store's errors.
        """
        ...

    async def create_sequential(self, prefix: str, value: bytes) -> str:
        """Create an ephemeral record at `prefix` plus ten digits and return its whole path.

        The digits grow with every such call below the same parent, by any client. After
        `StoreOutcomeUnknownError` look for your own value among the children before trying again.
        """
        ...

    @property
    def expired(self) -> bool:
        """True once the session is known to be over; may be asked by any thread."""
        ...

    async def wait_expired(self) -> None:
        """Return when the session is known to be over (expired, or closed by its owner)."""
        ...

    async def close(self) -> None:
        """End the session and remove its ephemeral records. Harmless when called again."""
        ...


class MetadataStore(Protocol):
    """The tree."""

    @property
    def uri(self) -> str:
        """Where the store is, as `open_store` takes it."""
        ...

    async def get(self, path: str) -> Versioned:
        """Return a record. Raises `NoSuchNodeError`."""
        ...

    async def create(self, path: str, value: bytes) -> int:
        """Create a record, and its parents as needed; returns its version.

        Raises `NodeExistsError`; `StoreOutcomeUnknownError` when the answer was lost.
        """
        ...

    async def put(self, path: str, value: bytes, version: int) -> int:
        """Replace a record's value if it is still at `version`; returns the new version.

        Raises `VersionConflictError`, `NoSuchNodeError`, `StoreOutcomeUnknownError`. A store never
        retries a put by itself, so a conflict is never the caller's own lost success.
        """
        ...

    async def delete(self, path: str, version: int | None = None) -> None:
        """Delete a record, at any version if `version` is None.

        Raises `NoSuchNodeError`, `VersionConflictError`, `ConflictError` when it has children,
        `StoreOutcomeUnknownError`.
        """
        ...

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        """Make all of some changes, in order, or none of them; returns the new version of each
        record created or put, by path.

        Raises the error that an impossible change would raise by itself, naming its path:
        `NodeExistsError`, `NoSuchNodeError`, `VersionConflictError`, `ConflictError`. Nothing was
        changed then, but parents may have been made. Raises `StoreOutcomeUnknownError` when the
        answer was lost: all or none of it is done. `InvalidRequestError` for changes that
        `check_changes` refuses.

        For records that are only right together: a ledger and the note of its owner, a log and its
        cursors. If one compare-and-set decides, no transaction is needed.
        """
        ...

    async def children(self, path: str) -> list[str]:
        """Return the sorted names of the records below `path`; empty when it does not exist."""
        ...

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        """Return the paths of the records that are not at the version seen (None: does not exist).

        They come sorted. For a caller that has read many records and looks again: it costs one
        question, or one a path without the values, all sent at once.
        """
        ...

    async def wait(self, path: str, version: int | None) -> None:
        """Return when the record may no longer be at `version` (None: may exist).

        Raises `StoreUnavailableError` when the store gives up; cancelling takes the watch away.
        """
        ...

    async def wait_children(self, path: str, names: list[str]) -> None:
        """Return when the names below `path` may differ from `names` (as `children` gave them)."""
        ...

    async def open_session(self, timeout: float) -> Session:
        """Open a session that expires when this process is not heard of for `timeout` seconds."""
        ...

    async def close(self) -> None:
        """Release connections and threads; sessions opened through this store are closed."""
        ...
