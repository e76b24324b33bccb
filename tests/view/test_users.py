"""Users of ledgers, put together from what several bookies know."""

from __future__ import annotations

import pytest

from quire.bookie import BookieInfo, LedgerUse, LedgerUses, UseKind
from quire.view.users import split_peer, users_of


def info(bookie: str, *uses: LedgerUse, left_out: int = 0) -> BookieInfo:
    return BookieInfo(bookie, True, 1, 2, 3, in_use=LedgerUses(uses, left_out))


@pytest.mark.parametrize(
    ("peer", "user", "address"),
    [
        ("10.0.0.1:4711", "10.0.0.1", "10.0.0.1:4711"),
        ("ipv4:10.0.0.1:4711", "10.0.0.1", "10.0.0.1:4711"),
        ("ipv6:%5B::1%5D:4711", "[::1]", "[::1]:4711"),
        ("writer at 10.0.0.1:4711", "writer", "10.0.0.1:4711"),
        ("spiffe://a at b at ipv4:10.0.0.1:1", "spiffe://a at b", "10.0.0.1:1"),
        ("", "", ""),
    ],
)
def test_a_peer_is_an_identity_or_a_host(peer: str, user: str, address: str) -> None:
    assert split_peer(peer) == (user, address)


def test_one_process_is_one_user_at_all_bookies() -> None:
    found = users_of(
        [
            info("b1", LedgerUse(7, UseKind.WRITES, "10.0.0.1:1", 4.0)),
            info("b2", LedgerUse(7, UseKind.WRITES, "10.0.0.1:2", 2.0), left_out=3),
            info("b3", LedgerUse(7, UseKind.FOLLOWS, "10.0.0.2:9", 0.0)),
        ]
    )
    writer, follower = found.users
    assert (writer.user, writer.kind, writer.idle_seconds) == ("10.0.0.1", "writes", 2.0)
    assert writer.peers == ("10.0.0.1:1", "10.0.0.1:2")
    assert writer.bookies == ("b1", "b2")
    assert (follower.user, follower.kind) == ("10.0.0.2", "follows")
    assert (found.left_out, found.writers, found.readers) == (3, 1, 1)
    assert found.of(8) == ()
