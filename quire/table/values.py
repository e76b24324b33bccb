"""The place of a table, and the result of a run. Pure; needs no pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table: its name with its namespace, and the catalog as pyiceberg knows it.

    `properties` complete what pyiceberg's configuration says of the catalog. None as the catalog is
    pyiceberg's default.
    """

    table: str
    catalog: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class TableUpdate:
    """A table after a run: it has the records `first` ≤ offset < `end`, `appended` of them newly.

    `snapshot_id` is None while the table never had a record.
    """

    table: str
    log: str
    log_id: str
    first: int
    end: int
    appended: int
    snapshot_id: int | None
