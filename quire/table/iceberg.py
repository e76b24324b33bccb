"""An Iceberg table with the records of one log, by way of pyiceberg. Blocking.

The table says itself what it has: every snapshot of quire names the offset that it ends before, and
the position of its last record. The commit that adds rows writes both. So no second record exists
that a crash could leave behind.

Invariants:
  - A commit holds only if the table is as it was when `reach` looked. pyiceberg itself would repeat
    an append on top of another program's commit: two programs would then add the same rows.
  - No refusal of a commit is believed: it may be the answer to a repetition of a request that was
    served. pyiceberg deletes files of a refused commit, and the table may name them (`_Commits`).
  - A table belongs to one log, by the log's id.

Compaction and expiry by other engines change neither. Compaction makes snapshots that name nothing:
their ancestors do. Where the ancestors expired, the bounds of the data files tell the end.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    NotInstalledError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import LongType

from quire.columns import arrow_schema
from quire.errors import ConfigurationError, QuireError, TableError
from quire.table.values import TableTarget

COLUMNS: Final = (
    "offset", "segment", "entry", "slot", "epoch", "timestamp", "txid", "key", "headers",
    "event_time", "payload",
)  # fmt: skip

LOG: Final = "quire.log"
LOG_ID: Final = "quire.log-id"
"""Properties of the table."""

END: Final = "quire.end-offset"
LAST: Final = "quire.last-position"
"""Properties of a snapshot."""

PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.metrics.column.payload": "none",
    "write.metadata.metrics.column.headers.element.value": "none",
}
"""Of a new table. Bounds of payloads would copy the first bytes of records into the metadata."""


class TableEnd(NamedTuple):
    """A table's end: the offset of the next record, and the position of the last one if known."""

    end: int
    last: str | None


class TableChangedError(Exception):
    """Another program committed: the table has to be looked at again."""


class _Commits:
    """A catalog that looks at the table after each refusal of a commit. Otherwise as the other one.

    A commit has happened if the table is at its snapshot. If it is at another one, the commit may
    still have happened, below a commit of another program. `TableChangedError` has the caller look;
    pyiceberg takes it for an unknown outcome, so it neither deletes a file nor commits again. The
    files of a commit that was really refused stay, named by no snapshot.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except (CommitFailedException, ValidationException) as error:
            now = self._catalog.load_table(table.name())
            added = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
            if not added or now.metadata.current_snapshot_id != added[-1].snapshot_id:
                raise TableChangedError from error
        found = {"metadata": now.metadata, "metadata-location": now.metadata_location}
        return CommitTableResponse.model_validate(found)


class LogTable:
    """The table of one log."""

    def __init__(self, name: str, table: Table) -> None:
        self._name = name
        self._table = table
        table.catalog = cast("Catalog", _Commits(table.catalog))

    @classmethod
    def open(cls, target: TableTarget, log: str, log_id: str) -> LogTable:
        """Open a log's table; create it if it does not exist.

        Raises `ConfigurationError` for a table of another log, and for a catalog that cannot be;
        `TableError` if the catalog does not answer.
        """
        name = target.table
        parts = name.split(".")
        if len(parts) < 2 or not all(parts):
            raise ConfigurationError(
                f"{name!r} is no name of a table: give namespace and name, as in 'sales.orders'"
            )
        with _errors(name):
            catalog = _catalog(target)
            try:
                table = catalog.load_table(name)
            except NoSuchTableError:
                table = _create(catalog, parts, log, log_id)
        owner = table.properties.get(LOG_ID)
        if owner is None:
            raise ConfigurationError(
                f"table {name} was not made by quire: name a table that does not exist yet"
            )
        if owner != log_id:
            raise ConfigurationError(
                f"table {name} has the records of log {table.properties.get(LOG)!r} with id "
                f"{owner}; log {log!r} now has id {log_id}: name another table"
            )
        return cls(name, table)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot seen last."""
        found = self._table.current_snapshot()
        return None if found is None else found.snapshot_id

    def reach(self) -> TableEnd | None:
        """Look at the table, and return its end; None if it never had a record."""
        with _errors(self._name):
            self._table.refresh()
            snapshot = self._table.current_snapshot()
            while snapshot is not None:
                said = snapshot.summary.additional_properties if snapshot.summary else {}
                if END in said:
                    return TableEnd(int(said[END]), said.get(LAST))
                parent = snapshot.parent_snapshot_id
                snapshot = None if parent is None else self._table.snapshot_by_id(parent)
            return self._reach_of_files()

    def _reach_of_files(self) -> TableEnd | None:
        of = self._table.schema().find_field("offset").field_id
        ends: list[Any] = []
        for task in self._table.scan().plan_files():
            bound = (task.file.upper_bounds or {}).get(of)
            if bound is None:
                raise ConfigurationError(
                    f"table {self._name} no longer says how far it came: no snapshot of quire is "
                    f"left, and {task.file.file_path} has no bounds: name another table"
                )
            ends.append(from_bytes(LongType(), bound))
        return TableEnd(max(ends) + 1, None) if ends else None

    def remove_before(self, first: int, reach: TableEnd) -> bool:
        """Remove the rows before an offset, in one commit; return whether there were any.

        Files whose rows all go are only unlisted. A file with other rows is written anew. Raises
        `TableChangedError`.
        """
        early = f"offset < {first}"
        with _errors(self._name):
            if not any(True for _ in self._table.scan(row_filter=early).plan_files()):
                return False
            with self._table.transaction() as change:
                change.delete(early, snapshot_properties=_said(reach))
        return True

    def append(self, rows: pa.Table, reach: TableEnd) -> None:
        """Add rows, after which the table reaches so far. Raises `TableChangedError`."""
        with _errors(self._name), self._table.transaction() as change:
            change.append(rows, snapshot_properties=_said(reach))


def _said(reach: TableEnd) -> dict[str, str]:
    return {END: str(reach.end)} | ({} if reach.last is None else {LAST: reach.last})


def _catalog(target: TableTarget) -> Catalog:
    try:
        return load_catalog(target.catalog, **target.properties)
    except (ValueError, NotInstalledError) as error:
        raise ConfigurationError(
            f"catalog {target.catalog or 'default'!r} cannot be opened: {error}. Give its "
            "properties, or describe it in .pyiceberg.yaml"
        ) from error


def _create(catalog: Catalog, parts: list[str], log: str, log_id: str) -> Table:
    for end in range(1, len(parts)):
        catalog.create_namespace_if_not_exists(tuple(parts[:end]))
    properties = {LOG: log, LOG_ID: log_id, **PROPERTIES}
    try:
        return catalog.create_table(tuple(parts), arrow_schema(COLUMNS), properties=properties)
    except TableAlreadyExistsError:
        return catalog.load_table(tuple(parts))


@contextmanager
def _errors(table: str) -> Iterator[None]:
    """Turn what pyiceberg raises into errors of quire.

    A catalog raises the errors of its library: of SQL, HTTP, Thrift, of file systems. None of them
    is a defect of the caller's.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (QuireError, TableChangedError):
        raise
    except ValidationException as error:  # while it planned; nothing was committed
        raise TableChangedError from error
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise TableError(table, reason) from error
