"""Which clients may do what with which records of ZooKeeper. Pure.

A record is given its ACL when it is made, by the options of its creator's URI:

    acl=open       every client may do everything
    acl=private    the creator and `owners` may do everything, `readers` may read
    acl=readable   as private, and every client may read

`readers` may read what reading and observing need (`READABLE_PLACES`), and no more. A reader of
logs changes nothing but its own registration and its cursors: it may make records in `CLIENTS` and
below `CURSORS`. Such a record belongs to its creator.

Identities are ZooKeeper's: `sasl:orders`, `x509:CN=orders`, `digest:orders:HASH`, `ip:10.0.0.7`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag, StrEnum
from typing import Final, NamedTuple

from quire.errors import ConfigurationError
from quire.metastore.layout import (
    BOOKIES,
    CLIENTS,
    CLUSTER,
    COOKIES,
    CURSORS,
    ELECTIONS,
    HEALING_SUMMARY,
    HEARTBEATS,
    LEDGERS,
    LOG_JOBS,
    LOGS,
    PAGES,
    RIGHTS,
    SERVICES,
    STANDINGS,
    parent_of,
)

HEALING: Final = parent_of(HEALING_SUMMARY)

SCHEMES: Final = ("sasl", "x509", "digest", "ip")


class Access(StrEnum):
    """The clients that may read and change the records we create."""

    OPEN = "open"
    PRIVATE = "private"
    READABLE = "readable"


class Permission(IntFlag):
    """ZooKeeper's bits."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class ZooKeeperIdentity(NamedTuple):
    """An identity, in ZooKeeper's terms."""

    scheme: str
    name: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.name}"


ANYONE: Final = ZooKeeperIdentity("world", "anyone")
OURSELVES: Final = ZooKeeperIdentity("auth", "")
"""The server puts in the identities of the client that sends it."""


READABLE_PLACES: Final = (
    *(CLUSTER, LEDGERS, BOOKIES, CLIENTS, COOKIES, STANDINGS, HEARTBEATS, HEALING, RIGHTS),
    *(LOGS, PAGES, LOG_JOBS, CURSORS, SERVICES, ELECTIONS),
)
"""Not the counter of ids, not the work of bookies, not the parts of a log to be, and nothing that
this program does not know."""


class Grant(NamedTuple):
    """What an identity may do with one record."""

    client: ZooKeeperIdentity
    permissions: Permission

    @property
    def exposes(self) -> bool:
        """Whether any client may change the record, or records below it."""
        return self.client == ANYONE and bool(self.permissions & ~Permission.READ)


def parse_identity(text: str) -> ZooKeeperIdentity:
    """Return the identity of scheme:name. Raises `ConfigurationError` for another form."""
    scheme, _, name = text.partition(":")
    if scheme not in SCHEMES or not name or (scheme == "digest" and not name.partition(":")[2]):
        raise ConfigurationError(
            f"{text!r} does not name an identity of ZooKeeper: give sasl:NAME, x509:SUBJECT, "
            "digest:NAME:HASH or ip:ADDRESS"
        )
    return ZooKeeperIdentity(scheme, name)


def grants(
    path: str,
    access: Access,
    owners: Iterable[ZooKeeperIdentity] = (),
    readers: Iterable[ZooKeeperIdentity] = (),
) -> list[Grant]:
    """Return the ACL of a record.

    Args:
        path: the record's path, as the store's callers name it.
        access: the clients that are let in.
        owners: identities beside ours that may do everything.
        readers: identities that may read.
    """
    if access is Access.OPEN:
        return [Grant(ANYONE, Permission.ALL)]
    found = [Grant(each, Permission.ALL) for each in (OURSELVES, *owners)]
    if theirs := _of_readers(path):
        found += [Grant(each, theirs) for each in readers]
    if access is Access.READABLE:
        found.append(Grant(ANYONE, Permission.READ))
    return found


def _of_readers(path: str) -> Permission:
    if path == CLIENTS or _is_in(path, CURSORS):
        return Permission.READ | Permission.CREATE
    is_theirs = any(_is_in(path, each) or _is_in(each, path) for each in READABLE_PLACES)
    return Permission.READ if is_theirs else Permission(0)


def _is_in(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")
