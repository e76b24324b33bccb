"""kazoo's lines in the log: they name requests and answers, and show nothing of them."""

from __future__ import annotations

import logging

import pytest
from kazoo.protocol.serialization import SASL, Auth, Create2, Exists

from quire.metastore.zookeeper_client import LOG, Listening, make_client
from quire.metastore.zookeeper_uri import Auth as Identification
from quire.metastore.zookeeper_uri import ZooKeeperOptions

OPTIONS = ZooKeeperOptions(auth=Identification.DIGEST, credentials="/a/file")
SECRET = "a-password"


def logger() -> Listening:
    return Listening(lambda _: None)


@pytest.mark.parametrize(
    ("request_", "shown"),
    [
        (Auth(0, "digest", f"quire:{SECRET}"), "Sending request(xid=7): Auth"),
        (SASL(SECRET.encode()), "Sending request(xid=7): SASL"),
        (Create2("/a/b", SECRET.encode(), [], 0), "Sending request(xid=7): Create2 /a/b"),
        (Exists("/a/b", None), "Sending request(xid=7): Exists /a/b"),
    ],
)
def test_no_password_and_no_value_is_logged(
    request_: object, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = make_client("127.0.0.1:1", 1.0, OPTIONS, ("quire", SECRET), logger())
    client._connection._write = lambda *_: None
    with caplog.at_level(logging.DEBUG, logger=LOG.name):
        client._connection._submit(request_, 1.0, 7)
    assert caplog.messages == [shown]


def test_answers_are_named_only(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(1, logger=LOG.name):
        logger().debug("Received response(xid=%s): %r", 7, (SECRET.encode(), None))
        logger().log(5, "session_passwd: %s", SECRET.encode().hex().encode())
        logger().warning("Connection dropped: %s", ConnectionError("reset"))
    assert caplog.messages == [
        "Received response(xid=7): 'tuple'",
        "session_passwd: bytes",
        "Connection dropped: reset",
    ]
