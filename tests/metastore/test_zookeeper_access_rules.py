"""The ACL of each record, by the options of its creator."""

from __future__ import annotations

import pytest

from quire.errors import ConfigurationError
from quire.metastore import layout
from quire.metastore.zookeeper_access import (
    ANYONE,
    OURSELVES,
    Access,
    Grant,
    Permission,
    ZooKeeperIdentity,
    grants,
    parse_identity,
)

READER = ZooKeeperIdentity("sasl", "reports")
OWNER = ZooKeeperIdentity("x509", "CN=orders,O=shop")
ALL, READ, CREATE = Permission.ALL, Permission.READ, Permission.CREATE


def test_open_records_are_for_every_client() -> None:
    assert grants("/quire/logs/a", Access.OPEN) == [Grant(ANYONE, ALL)]
    assert Grant(ANYONE, ALL).exposes
    assert not Grant(ANYONE, READ).exposes
    assert not Grant(OWNER, ALL).exposes


@pytest.mark.parametrize("access", [Access.PRIVATE, Access.READABLE])
@pytest.mark.parametrize("path", ["", "/quire", layout.RIGHTS, layout.LEDGER_IDS, "/quire/later"])
def test_no_other_record_is_exposed(access: Access, path: str) -> None:
    found = grants(path, access, [OWNER], [READER])
    assert found[:2] == [Grant(OURSELVES, ALL), Grant(OWNER, ALL)]
    assert not any(each.exposes for each in found)
    assert (Grant(ANYONE, READ) in found) is (access is Access.READABLE)


READABLE = [
    "",
    "/quire",
    layout.CLUSTER,
    layout.RIGHTS,
    "/quire/healing",
    layout.HEALING_SUMMARY,
    layout.bookie_path("b1"),
    layout.ledger_path(7),
    layout.log_path("a/log"),
    "/quire/pages/1/00/1",
    "/quire/elections/a/epoch",
    "/quire/clients/1",
]


@pytest.mark.parametrize("path", READABLE)
def test_a_reader_reads(path: str) -> None:
    assert Grant(READER, READ) in grants(path, Access.PRIVATE, (), [READER])


@pytest.mark.parametrize("path", [layout.CLIENTS, layout.CURSORS, f"{layout.CURSORS}/a"])
def test_a_reader_makes_its_own_records(path: str) -> None:
    assert Grant(READER, READ | CREATE) in grants(path, Access.PRIVATE, (), [READER])


@pytest.mark.parametrize(
    "path",
    [
        *(layout.LEDGER_IDS, layout.RESTORING, layout.MOVES, f"{layout.MOVES}/b1"),
        *(f"{layout.PARTS}/a/b/1", "/quire/clientsx", "/quire/later", "/quire/logsx/a"),
    ],
)
def test_a_reader_has_no_more(path: str) -> None:
    assert READER not in [each.client for each in grants(path, Access.PRIVATE, (), [READER])]


def test_identities() -> None:
    assert parse_identity("x509:CN=orders,O=shop") == OWNER
    assert parse_identity("digest:quire:HASH=") == ZooKeeperIdentity("digest", "quire:HASH=")
    assert str(READER) == "sasl:reports"
    for text in ("", "reports", "sasl:", "digest:quire", "world:anyone", "auth:", "SASL:x"):
        with pytest.raises(ConfigurationError, match="x509:SUBJECT"):
            parse_identity(text)
