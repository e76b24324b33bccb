"""What a `zk://` URI may say."""

from __future__ import annotations

import pytest

from quire.errors import ConfigurationError
from quire.metastore.zookeeper_access import Access, ZooKeeperIdentity
from quire.metastore.zookeeper_uri import (
    Auth,
    ZooKeeperOptions,
    parse_credentials,
    parse_uri,
)


def test_hosts_and_root() -> None:
    parsed = parse_uri("zk://zoo1,zoo2:2182,[::1]:2183/quire/test/")
    assert parsed.hosts == "zoo1,zoo2:2182,[::1]:2183"
    assert parsed.addresses == [("zoo1", 2181), ("zoo2", 2182), ("::1", 2183)]
    assert parsed.root == "/quire/test"
    assert parsed.options == ZooKeeperOptions()
    assert parse_uri("zk://zoo1").root == parse_uri("zk://zoo1/").root == ""


def test_every_option() -> None:
    options = parse_uri(
        "zk://zoo1/quire?tls=yes&verify=no&ca=/ca.pem&certificate=/c.pem&key=/k.pem"
        "&auth=sasl&credentials=/etc/quire/secret%20file&acl=readable"
    ).options
    assert options == ZooKeeperOptions(
        tls=True,
        verify=False,
        ca="/ca.pem",
        certificate="/c.pem",
        key="/k.pem",
        auth=Auth.SASL,
        credentials="/etc/quire/secret file",
        acl=Access.READABLE,
    )


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("tls", "name=value"),
        ("tls=perhaps", "yes, no"),
        ("tls=", "tls="),
        ("tls=yes&tls=yes", "once"),
        ("password=secret", "credentials"),
        ("ca=/ca.pem", "tls=yes"),
        ("verify=no", "tls=yes"),
        ("tls=yes&certificate=/c.pem", "go together"),
        ("auth=digest", "go together"),
        ("credentials=/file", "go together"),
        ("auth=kerberos&credentials=/file", "digest, sasl"),
        ("acl=private", "needs auth"),
        ("tls=yes&acl=readable", "needs auth"),
        ("auth=digest&credentials=/file&acl=open&readers=sasl:a", "every client can do"),
        ("owners=sasl:a", "every client can do"),
        ("auth=digest&credentials=/file&readers=a", "x509:SUBJECT"),
        ("auth=digest&credentials=/file&readers=", "several times"),
    ],
)
def test_what_makes_no_sense_is_refused(query: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        parse_uri(f"zk://zoo1/quire?{query}")


def test_a_certificate_is_an_identity_as_well() -> None:
    query = "tls=yes&certificate=/c.pem&key=/k.pem&acl=private"
    assert parse_uri(f"zk://zoo1/quire?{query}").options.acl is Access.PRIVATE


def test_records_are_private_by_default_where_there_is_an_identity() -> None:
    options = parse_uri(
        "zk://zoo1/quire?auth=sasl&credentials=/file&readers=sasl:a&readers=x509:CN=b,O=c"
        "&owners=sasl:d"
    ).options
    assert options.access is Access.PRIVATE
    assert options.readers == (
        ZooKeeperIdentity("sasl", "a"),
        ZooKeeperIdentity("x509", "CN=b,O=c"),
    )
    assert options.owners == (ZooKeeperIdentity("sasl", "d"),)
    certificate = "tls=yes&certificate=/c.pem&key=/k.pem"
    assert parse_uri(f"zk://zoo1/quire?{certificate}").options.access is Access.PRIVATE
    assert parse_uri(f"zk://zoo1/quire?{certificate}&acl=open").options.access is Access.OPEN
    assert parse_uri("zk://zoo1/quire").options.access is Access.OPEN


def test_credentials_are_one_line_and_never_shown() -> None:
    assert parse_credentials("/file", "quire:a:b\n") == ("quire", "a:b")
    for text in ("", "secret", ":secret", "quire:", "quire:secret\nquire:secret"):
        with pytest.raises(ConfigurationError, match="/file") as raised:
            parse_credentials("/file", text)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("host", ["zoo:0", "zoo:70000", "[::::]", "[1.2]:2181", "zoo:2181,other:0"])
def test_a_server_that_cannot_be_is_refused_before_anybody_looks_for_it(host: str) -> None:
    with pytest.raises(ConfigurationError, match="ports from 1 to 65535"):
        parse_uri(f"zk://{host}/quire")
