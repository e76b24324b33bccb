"""A bookie's heartbeat: its last account of itself, kept when the bookie is gone.

The registration of a bookie ends with its session, so a dead bookie vanishes from it. The heartbeat
stays, and tells since when the bookie is silent, which machine and program it was, and how much
its directories had. Only the bookie writes it, as a whole and from its own knowledge, so it keeps
no fields of other programs.

Nothing decides by it: it is shown to operators.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from quire.entry import BookieId
from quire.errors import CorruptRecordError
from quire.labels import Labels
from quire.metastore.layout import heartbeat_path
from quire.metastore.record import RecordFormat
from quire.metastore.registration import label_fields, read_labels
from quire.metastore.standing import Wish

FORMAT: Final = RecordFormat(
    "heartbeat",
    frozenset(
        {"at_ms", "address", "labels", "version", "wish"}
        | {"writable", "ledgers", "in_limbo", "disks"}
    ),
)


class Place(NamedTuple):
    """One directory of a bookie."""

    path: str
    holds: str
    """Its purposes: `main`, `journal`, `entries`, joined by `+`."""
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A bookie's account of itself."""

    at_ms: int
    """By the bookie's clock; a store that dates its records knows better."""
    address: str
    labels: Labels
    version: str
    wish: Wish
    """The wish that it obeys."""
    writable: bool
    ledgers: int
    in_limbo: int
    disks: tuple[Place, ...] = ()

    def encode(self) -> bytes:
        """Return the record."""
        return FORMAT.encode(
            {
                "at_ms": self.at_ms,
                "address": self.address,
                "labels": label_fields(self.labels),
                "version": self.version,
                "wish": str(self.wish),
                "writable": self.writable,
                "ledgers": self.ledgers,
                "in_limbo": self.in_limbo,
                "disks": [each._asdict() for each in self.disks],
            }
        )

    @classmethod
    def decode(cls, bookie: BookieId, data: bytes) -> Heartbeat:
        """Return the contents of a bookie's record. Raises `CorruptRecordError`."""
        path = heartbeat_path(bookie)
        body = FORMAT.decode(path, data).body
        try:
            disks = tuple(_place(each) for each in body["disks"])
            labels = read_labels(path, body["labels"])
            found = cls(**{**body, "wish": Wish(body["wish"]), "labels": labels, "disks": disks})
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptRecordError(path, f"{type(error).__name__}: {error}") from error
        for name, kind in _KINDS.items():
            if type(getattr(found, name)) is not kind:
                raise CorruptRecordError(path, f"{name} {getattr(found, name)!r}")
        return found


_KINDS: Final = {
    **dict.fromkeys(("at_ms", "ledgers", "in_limbo"), int),
    **dict.fromkeys(("address", "version"), str),
    "writable": bool,
}


def _place(row: Any) -> Place:
    match row:
        case {"path": str(path), "holds": str(holds), "free_bytes": int(), "total_bytes": int()}:
            return Place(path, holds, row["free_bytes"], row["total_bytes"])
    raise ValueError(f"disk {row!r}")
