"""The record of a namespace: where its logs and ledgers are. Pure.

1
BKDL
{"1":{"str":"zoo1:2181"},"2":{"str":"/ledgers"}, …}        Thrift's JSON, fields by number

1, 5   ZooKeeper servers of BookKeeper, for writers and for readers
2      path of the ledgers
6, 7   ZooKeeper servers of DistributedLog, for writers and for readers
10     whether the logs are spread over several namespaces ("federated")
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from quire.bookkeeper.dlog.names import servers_of
from quire.errors import CorruptRecordError, UnreadableContentError

_VERSION: Final = "1"
_TYPE: Final = "BKDL"


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, as far as a reader needs it."""

    path: str
    ledgers: str
    """The path of its ledgers, from the root of ZooKeeper."""
    ledger_servers: frozenset[str]
    log_servers: frozenset[str]
    """Empty if the record leaves them to the URI."""
    is_federated: bool = False


def decode_namespace(path: str, data: bytes) -> Namespace:
    """Return a namespace from its record.

    Raises:
        CorruptRecordError: the record is damaged, or lacks a field.
        UnreadableContentError: it has another version or type.
    """
    lines = data.decode(errors="replace").split("\n", 2)
    if len(lines) < 3 or not lines[0].isdigit():
        raise CorruptRecordError(path, f"{data[:40]!r} binds no namespace of DistributedLog")
    if lines[:2] != [_VERSION, _TYPE]:
        raise UnreadableContentError(
            f"namespace {path}",
            f"has a record of version {lines[0]!r} and type {lines[1]!r}",
            f"quire reads version {_VERSION} of {_TYPE!r}: read it with DistributedLog's library",
        )
    try:
        fields = json.loads(lines[2])
        writers, ledgers = _text(fields, "1"), _text(fields, "2")
        servers = _text(fields, "6", "")
        ledger_servers, root, chroot = _text(fields, "5", writers).partition("/")
        log_servers, _, _ = _text(fields, "7", servers).partition("/")
        return Namespace(
            path,
            f"{root}{chroot}".rstrip("/") + "/" + ledgers.strip("/"),
            servers_of(ledger_servers),
            servers_of(log_servers) if log_servers else frozenset(),
            is_federated=bool(fields.get("10", {}).get("tf", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptRecordError(path, f"{error!r} in {lines[2][:200]!r}") from error


def _text(fields: dict[str, dict[str, object]], number: str, otherwise: str | None = None) -> str:
    if number not in fields and otherwise is not None:
        return otherwise
    value = fields[number]["str"]
    if not isinstance(value, str) or not value:
        raise ValueError(f"field {number} is {value!r}")
    return value
