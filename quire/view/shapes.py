"""Views as JSON: plain dictionaries, lists, numbers and text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum
from typing import Any

from quire.view.values import ClusterView


def shape(value: Any) -> Any:
    """Return a value of this package as JSON has it.

    A record becomes an object with the names of its fields, a sequence a list, an enumeration its
    text. Other values that JSON lacks become their text.
    """
    if isinstance(value, StrEnum | IntEnum):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): shape(each) for key, each in value.items()}
    if is_dataclass(value):
        return {each.name: shape(getattr(value, each.name)) for each in fields(value)}
    if hasattr(value, "_asdict"):
        return shape(value._asdict())
    if isinstance(value, Sequence):
        return [shape(each) for each in value]
    return str(value)


def shape_cluster(view: ClusterView) -> dict[str, Any]:
    """Return a cluster as JSON: its health, bookies, logs and clients."""
    verdict, summary = view.verdict, view.facts.summary
    return {
        "at_ms": view.at_ms,
        "store": view.store,
        "health": str(verdict.severity),
        "reasons": shape(verdict.findings),
        "states": shape(view.facts.states()),
        "healing": None if summary is None else summary.fields(),
        "bookies": shape(view.bookies),
        "logs": [{**shape(each), "records": each.records} for each in view.logs],
        "log_count": len(view.log_names),
        "clients": shape(view.clients),
        "users": shape(view.users.users),
    }
