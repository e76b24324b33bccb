"""Requests to ZooKeeper that kazoo lacks, and the meaning of ZooKeeper's refusals.

* a request that takes a watch back. ZooKeeper has it since 3.5; without it a watch without a
  waiting caller stays on the server, and here, until the record changes.
* a transaction that returns the versions of the records it creates.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol import serialization
from kazoo.security import ACL, Id

from quire.errors import (
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    NodeExistsError,
    NoSuchNodeError,
    QuireError,
    SessionExpiredError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.metastore.zookeeper_access import Grant, Permission, ZooKeeperIdentity

_ANY_WATCHER: Final = 3
_ERROR: Final = -1
_NUMBER: Final = struct.Struct(">i")
_STAT: Final = serialization.stat_struct


_NEWER_CODES: Final = {
    -121: "NoWatcherError",
    -122: "RequestTimeoutError",
    -123: "ReconfigDisabledError",
    -124: "SessionClosedRequireSaslError",
    -125: "QuotaExceededError",
    -127: "ThrottledOpError",
}
for _code, _name in _NEWER_CODES.items():
    # kazoo takes its connection down over a code it does not know.
    kazoo_errors.EXCEPTIONS.setdefault(
        _code, type(_name, (kazoo_errors.ZookeeperError,), {"code": _code})
    )

_NOTHING_DONE: Final = frozenset((-5, -6, -8, -119, -120, -123, -124, -125, -127))
"""Codes of a server that rejects a request unread, unknown, unwanted here or too much now."""


class RemoveWatches(NamedTuple):
    """The request that takes back all watches of this session on a path."""

    path: str
    client: KazooClient
    type: int = 18

    def serialize(self) -> bytes:
        """Return the request's body: the path, and which kind of watch."""
        path = self.path.encode()
        return len(path).to_bytes(4, "big") + path + _ANY_WATCHER.to_bytes(4, "big")

    def deserialize(self, data: bytes, offset: int) -> bool:
        """Take the answer, which is empty. kazoo calls this in the thread that owns its watches."""
        self.client._data_watchers.pop(self.path, None)
        self.client._child_watchers.pop(self.path, None)
        return True


class Transaction(NamedTuple):
    """The request that makes several changes or none.

    kazoo has one too; its creations do not tell their stat, and so no version.
    """

    operations: tuple[Any, ...]
    type: int = serialization.Transaction.type

    def serialize(self) -> bytes:
        """Return the request's body."""
        body: bytes = serialization.Transaction(self.operations).serialize()
        return body

    def deserialize(self, data: bytes, offset: int) -> list[Any]:
        """Return for each change True, its stat, or the error that stands in its place."""
        results: list[Any] = []
        header, offset = serialization.MultiHeader.deserialize(data, offset)
        while not header.done:
            result: Any = True
            if header.type == serialization.Create2.type:
                _, result = serialization.Create2.deserialize(data, offset)
                offset += _NUMBER.size + _NUMBER.unpack_from(data, offset)[0] + _STAT.size
            elif header.type == serialization.SetData.type:
                result = serialization.SetData.deserialize(data, offset)
                offset += _STAT.size
            elif header.type == _ERROR:
                result = kazoo_errors.EXCEPTIONS[_NUMBER.unpack_from(data, offset)[0]]()
                offset += _NUMBER.size
            results.append(result)
            header, offset = serialization.MultiHeader.deserialize(data, offset)
        return results


def acl_of(grants: Iterable[Grant]) -> list[ACL]:
    """Return an ACL as kazoo has it."""
    return [ACL(int(each.permissions), Id(*each.client)) for each in grants]


def grants_of(acl: Iterable[ACL]) -> list[Grant]:
    """Return an ACL of kazoo's as values."""
    return [
        Grant(ZooKeeperIdentity(each.id.scheme, each.id.id), Permission(each.perms)) for each in acl
    ]


def creation(path: str, value: bytes, acl: Sequence[ACL]) -> Any:
    """Return the part of a transaction that creates a record."""
    return serialization.Create2(path, value, acl, 0)


def replacement(path: str, value: bytes, edit: int) -> Any:
    """Return the part of a transaction that replaces a value at ZooKeeper's version `edit`."""
    return serialization.SetData(path, value, edit)


def deletion(path: str, edit: int) -> Any:
    """Return the part of a transaction that deletes a record; -1 stands for any version."""
    return serialization.Delete(path, edit)


def check(path: str, edit: int) -> Any:
    """Return the part of a transaction that is refused unless a record is at `edit`."""
    return serialization.CheckVersion(path, edit)


def commit_async(client: KazooClient, operations: Iterable[Any]) -> Any:
    """Send a transaction; returns the result of `Transaction.deserialize`."""
    answer = client.handler.async_result()
    client._call(Transaction(tuple(operations)), answer)
    return answer


def first_refused(results: Sequence[Any]) -> tuple[int, Exception] | None:
    """Return which part of a transaction was refused, and why; None when all were carried out."""
    for index, result in enumerate(results):
        # Changes before it were rolled back, changes after it were not tried.
        rest = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
        if isinstance(result, Exception) and not isinstance(result, rest):
            return index, result
    return None


def remove_watches(client: KazooClient, path: str) -> None:
    """Ask the server to forget this session's watches on a path; the answer is of no interest."""
    client._call(RemoveWatches(path, client), client.handler.async_result())


def refusal_of(uri: str, path: str, error: BaseException, version: int) -> QuireError | None:
    """Return the meaning of a server's refusal; None for any other error: all is possible."""
    if getattr(error, "code", None) in _NOTHING_DONE:
        return StoreUnavailableError(uri, f"{reason_of(error)} for {path}")
    match error:
        case kazoo_errors.ConnectionClosedError():
            return None  # a kind of SessionExpiredError to kazoo, which may hold the request yet
        case kazoo_errors.NoNodeError():
            return NoSuchNodeError(path)
        case kazoo_errors.NodeExistsError():
            return NodeExistsError(path)
        case kazoo_errors.BadVersionError():
            return VersionConflictError(path, version)
        case kazoo_errors.NotEmptyError():
            return ConflictError(f"{path} has records below it")
        case kazoo_errors.NoChildrenForEphemeralsError():
            return InvalidRequestError(f"{path} would be below an ephemeral record")
        case kazoo_errors.NoAuthError():
            return ConfigurationError(
                f"ZooKeeper allows no access to {path}: its ACL was made for other identities; "
                "an identity that may change it gives others access with `quire metadata protect` "
                "and owners= or readers= in the store's URI"
            )
        case kazoo_errors.InvalidACLError():
            return ConfigurationError(
                f"ZooKeeper cannot give {path} this ACL: the server did not take our identity; "
                "check its authentication providers, or give acl=open in the store's URI"
            )
        case kazoo_errors.AuthFailedError():
            return ConfigurationError("ZooKeeper refuses our credentials")
        case kazoo_errors.SessionExpiredError():
            return SessionExpiredError("ZooKeeper was not heard of in time")
    return None


def reason_of(error: BaseException) -> str:
    """Return what to say of an error of kazoo's; many have no text."""
    return f"{type(error).__name__} {error}".strip()
