"""The record of a cursor in the metadata store, and what applications see of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quire.errors import CorruptRecordError
from quire.fields import NOTHING, Unknown
from quire.log.records.position import Position, stored_position
from quire.metastore.record import RecordFormat

FORMAT: Final = RecordFormat("cursor", frozenset({"name", "log_id", "position", "updated_ms"}))


@dataclass(frozen=True, slots=True)
class CursorInfo:
    """A cursor at one moment: the next position to read, and when it moved last (Unix ms)."""

    name: str
    position: Position
    updated_ms: int


@dataclass(frozen=True, slots=True)
class CursorRecord:
    """The content of a cursor's record: the next position to read, and the time of writing (Unix
    ms).
    """

    name: str
    log_id: str
    position: Position
    updated_ms: int
    unknown: Unknown = NOTHING

    def encode(self) -> bytes:
        """Return the metadata record."""
        body = {
            "name": self.name,
            "log_id": self.log_id,
            "position": str(self.position),
            "updated_ms": self.updated_ms,
        }
        return FORMAT.encode(body, self.unknown)

    @classmethod
    def decode(cls, path: str, data: bytes) -> CursorRecord:
        """Return the state of a record. Raises `CorruptRecordError`, naming the path."""
        _, body, unknown = FORMAT.decode(path, data)
        match body:
            case {
                "name": str(name),
                "log_id": str(log_id),
                "position": str(position),
                "updated_ms": int(updated_ms),
            }:
                return cls(name, log_id, stored_position(path, position), updated_ms, unknown)
        raise CorruptRecordError(path, f"not a cursor: {body}")

    @property
    def info(self) -> CursorInfo:
        """What applications see."""
        return CursorInfo(self.name, self.position, self.updated_ms)
