"""The identity that a certificate proves (quire/wire/identity.py)."""

from __future__ import annotations

import pytest

from quire.rights.table import identity_named
from quire.wire.identity import (
    ANONYMOUS,
    AmbiguousIdentityError,
    Identity,
    IdentityKind,
    bookie_identity,
    client_identity,
    identity_of,
    owner_of,
    server_name,
)

BOOKIE = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("uris", "names", "expected"),
    [
        (["quire://client/orders"], [], client_identity("orders")),
        ([f"quire://bookie/{BOOKIE}"], [server_name(BOOKIE)], bookie_identity(BOOKIE)),
        (["spiffe://example/app"], ["a", "b"], Identity("spiffe://example/app", IdentityKind.URI)),
        (["quire://client/a"] * 2, [], client_identity("a")),
        ([], ["app.example"], Identity("app.example", IdentityKind.DNS)),
        (
            [],
            ["host7.example", server_name(BOOKIE)],
            Identity(server_name(BOOKIE), IdentityKind.DNS),
        ),
    ],
)
def test_a_certificate_proves_its_only_name(
    uris: list[str], names: list[str], expected: Identity
) -> None:
    assert identity_of(uris, names) == expected


@pytest.mark.parametrize(
    ("uris", "names", "reason"),
    [
        ([], [], "no alternative name"),
        (["quire://client/a", "quire://client/b"], [], "several names"),
        ([], ["a.example", "b.example"], "several names"),
        ([], [server_name("b1"), server_name("b2")], "several names"),
    ],
)
def test_no_identity_is_chosen_among_several(
    uris: list[str], names: list[str], reason: str
) -> None:
    with pytest.raises(AmbiguousIdentityError, match=reason):
        identity_of(uris, names)


@pytest.mark.parametrize("shown", ["app.example", "App.example", "APP.EXAMPLE"])
def test_a_dns_name_is_one_peer_in_every_spelling(shown: str) -> None:
    """Authorities sign the spelling that was asked for, and limits are shared out by peers."""
    found = identity_of([], [shown, "app.example"])
    assert found == Identity("app.example", IdentityKind.DNS) == identity_named(shown)
    assert owner_of(found, "10.0.0.7") == "app.example"


def test_an_id_of_a_bookie_keeps_its_case() -> None:
    assert identity_of([], ["B1.Bookie.QUIRE"]).bookie == "B1"


def test_a_bookie_is_known_by_its_uri_and_by_its_name() -> None:
    assert bookie_identity(BOOKIE).bookie == BOOKIE
    assert identity_of([], [server_name(BOOKIE)]).bookie == BOOKIE


@pytest.mark.parametrize(
    "other",
    [
        ANONYMOUS,
        client_identity("orders"),
        Identity("quire://bookie/", IdentityKind.URI),
        Identity(f"quire://bookie/{BOOKIE}", IdentityKind.DNS),
        Identity(server_name(BOOKIE), IdentityKind.URI),
        Identity("spiffe://example/bookie/b1", IdentityKind.URI),
    ],
)
def test_no_other_identity_is_a_bookie_s(other: Identity) -> None:
    assert other.bookie is None


def test_only_a_peer_without_a_certificate_is_anonymous() -> None:
    assert not ANONYMOUS.is_known
    assert client_identity("anonymous").is_known
    assert client_identity("anonymous") != ANONYMOUS
