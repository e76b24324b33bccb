"""Paths of ledgers in four layouts, registrations old and new, cookies, and parts of URIs."""

from __future__ import annotations

import pytest

from quire.bookie import BookieAddress
from quire.bookkeeper.layouts import SHORT_MAX, Form, Layout, read_layout
from quire.bookkeeper.registration import (
    decode_cookie,
    decode_registration,
    encode_registration,
    is_bookie,
)
from quire.bookkeeper.uri import ApacheLedgers, BookieTls, split_uri
from quire.entry import DigestKind
from quire.errors import (
    ConfigurationError,
    CorruptRecordError,
    InvalidRequestError,
    UnsupportedError,
)

HIERARCHICAL = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"


@pytest.mark.parametrize(
    ("form", "ledger", "path"),
    [
        (Form.HIERARCHICAL, 0, "/l/00/0000/L0000"),
        (Form.HIERARCHICAL, 12345678, "/l/00/1234/L5678"),
        (Form.HIERARCHICAL, SHORT_MAX - 1, "/l/21/4748/L3646"),
        (Form.HIERARCHICAL, SHORT_MAX, "/l/000/0000/0021/4748/L3647"),
        (Form.LEGACY, 12345678, "/l/00/1234/L5678"),
        (Form.FLAT, 12345678, "/l/L0012345678"),
        (Form.LONG, 5, "/l/000/0000/0000/0000/L0005"),
        (Form.LONG, 2**63 - 1, "/l/922/3372/0368/5477/L5807"),
    ],
)
def test_the_path_of_a_ledger(form: Form, ledger: int, path: str) -> None:
    assert Layout("/l", form).path(ledger) == path


@pytest.mark.parametrize(
    ("form", "ledger"),
    [(Form.FLAT, SHORT_MAX), (Form.LEGACY, SHORT_MAX), (Form.LONG, 2**63), (Form.LONG, -1)],
)
def test_an_id_without_path_is_refused(form: Form, ledger: int) -> None:
    with pytest.raises(InvalidRequestError, match="ledger id"):
        Layout("/l", form).path(ledger)


def test_the_record_that_names_the_layout() -> None:
    assert read_layout("/p", f"2\n{HIERARCHICAL}:1".encode()) is Form.HIERARCHICAL
    for form in Form:
        assert read_layout("/p", f"2\norg.x.{form.value}:1".encode()) is form
    with pytest.raises(UnsupportedError, match="EtcdLedgerManagerFactory"):
        read_layout("/p", b"2\norg.x.EtcdLedgerManagerFactory:1")
    for data in (b"", b"3\na.B:1", b"2", b"2\na.B"):
        with pytest.raises(CorruptRecordError, match="/p"):
            read_layout("/p", data)


def test_a_registration_names_its_endpoint() -> None:
    data = bytes.fromhex("32230a06") + b"bookie" + bytes.fromhex("109584021a09") + b"127.0.0.1"
    data += bytes.fromhex("220a") + b"bookie-rpc"
    found = decode_registration("/p", "bk0", data, writable=True)
    assert found == BookieAddress("bk0", "127.0.0.1:33301", True, protocol="bookkeeper")
    assert encode_registration(found) == data
    six = BookieAddress("bk0", "[::1]:3181", False, protocol="bookkeeper")
    assert decode_registration("/p", "bk0", encode_registration(six), writable=False) == six


def test_an_old_registration_is_empty_and_the_id_is_the_address() -> None:
    found = decode_registration("/p", "10.0.0.1:3181", b"", writable=True)
    assert found.address == "10.0.0.1:3181"
    for bookie, data in (("bk0", b""), ("10.0.0.1:3181", b"\xff"), ("bk0", b"\x3a\x00")):
        with pytest.raises(CorruptRecordError, match="/p"):
            decode_registration("/p", bookie, data, writable=True)


def test_ids_of_bookies() -> None:
    assert is_bookie("10.0.0.1:3181")
    assert is_bookie("bk_0.x-y")
    assert not is_bookie("readonly")
    assert not is_bookie("a/b")


def test_a_cookie() -> None:
    text = '5\nbookieHost: "bk0"\njournalDir: "/j"\nledgerDirs: "2\\t/a\\t/b"\ninstanceId: "i"\n'
    found = decode_cookie("/p", text.encode())
    assert (found.host, found.instance, found.ledgers) == ("bk0", "i", ("/a", "/b"))
    for data in (b"", b"3\nbookieHost", b'5\nbookieHost: 3\njournalDir: "x"'):
        with pytest.raises(CorruptRecordError, match="/p"):
            decode_cookie("/p", data)


def test_the_part_of_a_uri_that_names_ledgers() -> None:
    assert split_uri("zk://h/?acl=open") == ("zk://h/?acl=open", None)
    assert split_uri("zk://h/?ledgers=bookkeeper:/ledgers") == (
        "zk://h/",
        ApacheLedgers("/ledgers"),
    )
    store, found = split_uri(
        "zk://h/r?ledgers=bookkeeper:/bk/ledgers/&tls=yes&write=true&digest=hmac-sha1"
        "&bookie-tls=yes&bookie-ca=/ca.pem&bookie-names=no"
    )
    assert store == "zk://h/r?tls=yes"
    tls = BookieTls("/ca.pem", names=False)
    assert found == ApacheLedgers("/bk/ledgers", True, DigestKind.HMAC_SHA1, tls)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("ledgers=/ledgers", "ledgers=bookkeeper:/ledgers"),
        ("write=true", "ledgers=bookkeeper:/ledgers"),
        ("ledgers=bookkeeper:", "names no path"),
        ("ledgers=bookkeeper:/l&write=maybe", "yes or no"),
        ("ledgers=bookkeeper:/l&write=yes&write=no", "given once"),
        ("ledgers=bookkeeper:/l&digest=hmac-sha256", "one of crc32c"),
        ("ledgers=bookkeeper:/l&bookie-ca=/x", "bookie-tls=yes"),
        ("ledgers=bookkeeper:/l&bookie-tls=yes&bookie-key=/x", "go together"),
    ],
)
def test_a_uri_that_cannot_be_meant_is_refused_with_the_remedy(query: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        split_uri(f"zk://h/?{query}")
