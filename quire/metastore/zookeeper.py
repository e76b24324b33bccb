"""The metadata store on ZooKeeper: the port's calls, and their requests.

Paths live below the URI's root, which is made as needed like any parent. Versions are
joined from ZooKeeper's own, so that they outlive neither a record nor a restore (versions.py).
`put` compares them by a read first: a record that is deleted, created again and changed as often as
before between the read and the change, a matter of milliseconds, would still be taken for the old
one (T2 allows it).

Every session has its own connection, and so its own ZooKeeper session and timeout; the store's
other calls share a connection. `zookeeper_connection.py` describes the ends of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from quire.errors import (
    ConfigurationError,
    ConflictError,
    HandleClosedError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.metastore import versions
from quire.metastore.changes import Absent, Change, Check, Create, Put, check_changes, describe
from quire.metastore.layout import check_path, check_value, parent_of
from quire.metastore.store import Versioned
from quire.metastore.zookeeper_access import Access
from quire.metastore.zookeeper_connection import Request, ZooKeeperConnection
from quire.metastore.zookeeper_requests import (
    acl_of,
    check,
    creation,
    deletion,
    grants_of,
    replacement,
)
from quire.metastore.zookeeper_uri import ZooKeeperUri, parse_credentials, parse_uri

CONNECTION_SECONDS: Final = 10.0
"""ZooKeeper session timeout of the connection that sessions do not use."""

LOOKS_MAX: Final = 1000
"""Requests that `changed` sends at once: each waits a tenth of a millisecond for the one before."""

PARENT_ATTEMPTS_MAX: Final = 4
"""A missing parent is created; it vanishes again only when another client deletes it as empty."""


class ZooKeeperSession:
    """A session of ZooKeeper's, on a connection of its own."""

    def __init__(self, connection: ZooKeeperConnection, target: ZooKeeperUri) -> None:
        self.connection = connection
        self._target = target

    async def create(self, path: str, value: bytes) -> int:
        full = self._target.root + check_path(path)
        check_value(path, value)
        _, stat = await _create(
            self.connection, self._target, full, value, ephemeral=True, include_data=True
        )
        return _version(stat)

    async def create_sequential(self, prefix: str, value: bytes) -> str:
        full = self._target.root + prefix
        check_value(check_path(prefix + "0"), value)
        created: str = await _create(
            self.connection, self._target, full, value, ephemeral=True, sequence=True
        )
        return created.removeprefix(self._target.root)

    @property
    def expired(self) -> bool:
        return self.connection.is_over

    async def wait_expired(self) -> None:
        await self.connection.over.wait()

    async def close(self) -> None:
        await self.connection.close()


class ZooKeeperStore:
    """One client of a ZooKeeper ensemble. Use `ZooKeeperStore.open`."""

    def __init__(self, uri: str, target: ZooKeeperUri, credentials: tuple[str, str] | None) -> None:
        self._uri = uri
        self._target = target
        self._credentials = credentials
        self._root = target.root
        self._connection = self._connect(CONNECTION_SECONDS, expires=False)
        self._sessions: list[ZooKeeperSession] = []

    @classmethod
    async def open(cls, uri: str, timeout: float | None = None) -> ZooKeeperStore:
        """Connect to the ensemble that a URI names (zookeeper_uri.py says how).

        Raises `ConfigurationError` for another URI, or credentials that cannot be read or are
        refused; `StoreUnavailableError`, with the reason, without a connection within
        `timeout` seconds (15 when None).
        """
        target = parse_uri(uri)
        file = target.options.credentials
        store = cls(uri, target, await asyncio.to_thread(_read_credentials, file) if file else None)
        await store._connection.start(timeout)
        return store

    @property
    def uri(self) -> str:
        return self._uri

    async def get(self, path: str) -> Versioned:
        full = self._full(path)
        value, stat = await self._read(path, lambda client: client.get_async(full))
        return Versioned(value, _version(stat), stat.mtime)

    async def create(self, path: str, value: bytes) -> int:
        full = self._full(path)
        check_value(path, value)
        with _no_session(self._uri):
            _, stat = await _create(self._connection, self._target, full, value, include_data=True)
        return _version(stat)

    async def put(self, path: str, value: bytes, version: int) -> int:
        full = self._full(path)
        check_value(path, value)
        edit = await self._edit_of(path, version)
        stat = await self._change(path, lambda client: client.set_async(full, value, edit), version)
        return _version(stat)

    async def delete(self, path: str, version: int | None = None) -> None:
        full = self._full(path)
        edit = -1 if version is None else await self._edit_of(path, version)
        await self._change(path, lambda client: client.delete_async(full, edit), version or 0)

    async def commit(self, changes: Sequence[Change]) -> dict[str, int]:
        check_changes(changes)
        edits = await asyncio.gather(*(self._edit_before(change) for change in changes))
        parts = [self._parts(change, edit) for change, edit in zip(changes, edits, strict=True)]
        named = [
            (change.path, getattr(change, "version", None) or 0)
            for change, operations in zip(changes, parts, strict=True)
            for _ in operations
        ]

        def operations(_: Any) -> list[Any]:
            return [each for one in parts for each in one]

        for _ in range(PARENT_ATTEMPTS_MAX):
            try:
                with _no_session(self._uri):
                    stats = await self._connection.commit(describe(changes), operations, named)
            except NoSuchNodeError as error:
                # A transaction makes no parents, and this one was refused for the lack of one.
                created = [each.path for each in changes if isinstance(each, Create | Absent)]
                if error.path not in created:
                    raise
                await self._make_parents(created)
            else:
                last = [stats[end - 1] for end in accumulate(map(len, parts))]
                return {
                    change.path: _version(stat)
                    for change, stat in zip(changes, last, strict=True)
                    if isinstance(change, Create | Put)
                }
        raise ConflictError(f"parents of {describe(changes)} were deleted at every attempt")

    async def children(self, path: str) -> list[str]:
        full = self._full(path, root_too=True)
        try:
            names = await self._read(path, lambda client: client.get_children_async(full))
        except NoSuchNodeError:
            return []
        return sorted(names)

    async def changed(self, seen: Mapping[str, int | None]) -> list[str]:
        paths, found = sorted(seen), list[str]()
        for first in range(0, len(paths), LOOKS_MAX):
            part = paths[first : first + LOOKS_MAX]
            calls = [partial(_existence, self._full(path)) for path in part]
            stats = await self._connection.read_all(part[0], calls)
            for path, stat in zip(part, stats, strict=True):
                if (None if stat is None else _version(stat)) != seen[path]:
                    found.append(path)
        return found

    async def wait(self, path: str, version: int | None) -> None:
        full = self._full(path)
        while True:
            with self._connection.watching(full) as changed:
                stat = await self._exists(full, watch=True)
                if (None if stat is None else _version(stat)) != version:
                    return
                await changed.wait()

    async def wait_children(self, path: str, names: list[str]) -> None:
        full = self._full(path, root_too=True)
        while True:
            with self._connection.watching(full) as changed:
                if await self._watched_children(full) != names:
                    return
                await changed.wait()

    async def open_session(self, timeout: float) -> ZooKeeperSession:
        self._connection.check_open()
        session = ZooKeeperSession(self._connect(timeout, expires=True), self._target)
        await session.connection.start()
        try:
            self._connection.check_open()
        except HandleClosedError:  # meanwhile, and `close` did not know of this session yet
            await session.close()
            raise
        self._sessions = [each for each in self._sessions if not each.connection.is_stopped]
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, []
        await asyncio.gather(*(session.close() for session in sessions), self._connection.close())

    def _connect(self, timeout: float, *, expires: bool) -> ZooKeeperConnection:
        return ZooKeeperConnection(
            self._uri, self._target, timeout, expires=expires, credentials=self._credentials
        )

    def _full(self, path: str, *, root_too: bool = False) -> str:
        if root_too and path == "/":
            return self._root or "/"
        return self._root + check_path(path)

    async def _exists(self, full: str, *, watch: bool = False) -> Any:
        on_watch = self._connection.on_watch if watch else None
        return await self._read(full, lambda client: client.exists_async(full, watch=on_watch))

    async def _watched_children(self, full: str) -> list[str]:
        """Return the names below a path, leaving a watch that fires when they change."""
        on_watch = self._connection.on_watch
        while True:
            with suppress(NoSuchNodeError):
                return sorted(
                    await self._read(
                        full, lambda client: client.get_children_async(full, watch=on_watch)
                    )
                )
            if await self._exists(full, watch=True) is None:
                return []

    async def _edit_of(self, path: str, version: int) -> int:
        """Return ZooKeeper's version of the record that is at `version` now."""
        stat = await self._exists(self._full(path))
        if stat is None:
            raise NoSuchNodeError(path)
        if _version(stat) != version:
            raise VersionConflictError(path, version)
        edit: int = stat.version
        return edit

    async def _edit_before(self, change: Change) -> int:
        """Return ZooKeeper's version of the record that a change expects; -1 for any."""
        if isinstance(change, Create | Absent) or change.version is None:
            return -1
        return await self._edit_of(change.path, change.version)

    def _parts(self, change: Change, edit: int) -> list[Any]:
        """Return the operations of a change. ZooKeeper cannot check that a record does not exist:
        one is created, and deleted in the same transaction.
        """
        full = self._full(change.path)
        if isinstance(change, Create | Absent):
            value = change.value if isinstance(change, Create) else b""
            grants = self._target.options.grants(change.path)
            made = creation(full, value, acl_of(grants))
            return [made] if isinstance(change, Create) else [made, deletion(full, -1)]
        if isinstance(change, Put):
            return [replacement(full, change.value, edit)]
        if isinstance(change, Check):
            return [check(full, edit)]
        return [deletion(full, edit)]

    async def _make_parents(self, created: Sequence[str]) -> None:
        """Create missing parents of the records that a transaction creates."""
        for path in {parent_of(each) for each in created} - {"/", *created}:
            await self.make_place(path)

    # Port `Protected` (protection.py).

    @property
    def servers(self) -> Sequence[str]:
        return [
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            for host, port in self._target.addresses
        ]

    @property
    def is_private(self) -> bool:
        return self._target.options.access is not Access.OPEN

    async def is_exposed(self, path: str) -> bool:
        full = self._full(path)
        acl, _ = await self._read(path, lambda client: client.get_acls_async(full))
        return any(each.exposes for each in grants_of(acl))

    async def protect(self, path: str) -> None:
        full, acl = self._full(path), acl_of(self._target.options.grants(path))
        await self._change(path, lambda client: client.set_acls_async(full, acl))

    async def make_place(self, path: str) -> None:
        full = self._full(path)
        if await self._exists(full) is None:
            with suppress(NodeExistsError), _no_session(self._uri):
                await _create(self._connection, self._target, full)

    async def _read(self, path: str, call: Request) -> Any:
        return await self._connection.read(path, call)

    async def _change(self, path: str, call: Request, version: int = 0) -> Any:
        with _no_session(self._uri):
            return await self._connection.change(path, call, version)


async def _create(
    connection: ZooKeeperConnection,
    target: ZooKeeperUri,
    full: str,
    value: bytes = b"",
    **how: bool,
) -> Any:
    """Create a record and its missing parents; return kazoo's result.

    One request after another is sent from here, not by kazoo's own `makepath`: its later requests,
    sent after the outcome was called unknown, could be applied after another client re-read the
    record.
    """
    path = full.removeprefix(target.root)
    acl = acl_of(target.options.grants(path))
    for _ in range(PARENT_ATTEMPTS_MAX):
        try:
            return await connection.change(path, partial(_creation_of, full, value, acl, how))
        except NoSuchNodeError:
            with suppress(NodeExistsError):
                await _create(connection, target, parent_of(full))
    raise ConflictError(f"parents of {path} were deleted at every attempt")


def _creation_of(
    full: str, value: bytes, acl: Sequence[Any], how: Mapping[str, bool], client: Any
) -> Any:
    return client.create_async(full, value, acl, **how)


def _existence(full: str, client: Any) -> Any:
    return client.exists_async(full)


def _version(stat: Any) -> int:
    return versions.join_version(stat.czxid, stat.version, stat.mtime)


@contextmanager
def _no_session(uri: str) -> Iterator[None]:
    """Report the end of a session that the caller does not own, and that will be replaced."""
    try:
        yield
    except SessionExpiredError as error:
        raise StoreUnavailableError(uri, "the connection's session expired") from error


def _read_credentials(path: str) -> tuple[str, str]:
    try:
        return parse_credentials(path, Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the credentials in {path} cannot be read: {error}") from error
