"""The identity of a peer: the name that its certificate proves.

A certificate names its owner by a URI (`quire://bookie/<id>`, `quire://client/<name>`, SPIFFE), or
by a DNS name. Its common name counts for nothing: no authority checks it. A URI comes first, since
a certificate has DNS names for other purposes too. Two names that could both be meant are an error:
a rule that denies one of them must not depend on a choice made here.

Pure. Not here: how a certificate is verified (tls.py), and what an identity may do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
from typing import Final

from quire.entry import BookieId

BOOKIE_URI: Final = "quire://bookie/"
"""Before the id of a bookie: the URI in its certificate."""

CLIENT_URI: Final = "quire://client/"
"""Before the name of a client, in certificates that quire issues."""

BOOKIE_DOMAIN: Final = ".bookie.quire"
"""After the id of a bookie: the DNS name in its certificate. Both of a client's TLS stacks verify
it by themselves, whatever address the bookie has today."""


class IdentityKind(StrEnum):
    """The kind of a name."""

    NONE = "none"
    """The peer has shown no certificate."""
    URI = "uri"
    DNS = "dns"


@dataclass(frozen=True, slots=True)
class Identity:
    """The name that rights are given to."""

    name: str
    kind: IdentityKind

    @property
    def is_known(self) -> bool:
        """Whether a certificate proves the name."""
        return self.kind is not IdentityKind.NONE

    @property
    def bookie(self) -> BookieId | None:
        """The id of the bookie that this identity is of; None for any other peer."""
        if self.kind is IdentityKind.URI and self.name.startswith(BOOKIE_URI):
            return self.name.removeprefix(BOOKIE_URI) or None
        if self.kind is IdentityKind.DNS and self.name.endswith(BOOKIE_DOMAIN):
            return self.name.removesuffix(BOOKIE_DOMAIN) or None
        return None

    def __str__(self) -> str:
        return self.name


ANONYMOUS: Final = Identity("anonymous", IdentityKind.NONE)
"""A peer without a certificate: each peer of a port without TLS."""


class AmbiguousIdentityError(ValueError):
    """A certificate names no peer, or several."""


def bookie_identity(bookie: BookieId) -> Identity:
    """Return the identity in the certificate that quire issues to a bookie."""
    return Identity(BOOKIE_URI + bookie, IdentityKind.URI)


def client_identity(name: str) -> Identity:
    """Return the identity in the certificate that quire issues to a client."""
    return Identity(CLIENT_URI + name, IdentityKind.URI)


def dns_identity(name: str) -> Identity:
    """Return the identity of a DNS name.

    Authorities compare DNS names without case, and sign the spelling that was asked for. So the
    spelling makes no other peer, with limits of its own. Ids of bookies keep theirs.
    """
    folded = name.lower()
    if folded.endswith(BOOKIE_DOMAIN):
        folded = name[: -len(BOOKIE_DOMAIN)] + BOOKIE_DOMAIN
    return Identity(folded, IdentityKind.DNS)


def server_name(bookie: BookieId) -> str:
    """Return the DNS name that the certificate of a bookie must have."""
    return bookie + BOOKIE_DOMAIN


def identity_of(uris: Sequence[str], names: Sequence[str]) -> Identity:
    """Return the identity that a verified certificate proves.

    Args:
        uris: its alternative names that are URIs.
        names: its alternative names that are DNS names.

    Returns:
        The only URI; without a URI, the only DNS name that is a bookie's; else the only DNS name.
        Names that differ in case alone are one (`dns_identity`).

    Raises:
        AmbiguousIdentityError: there are several that could be meant, or none.
    """
    hosts = [dns_identity(name) for name in names]
    for found in (
        [Identity(uri, IdentityKind.URI) for uri in uris],
        [each for each in hosts if each.bookie],
        hosts,
    ):
        distinct = sorted(set(found), key=str)
        if len(distinct) == 1:
            return distinct[0]
        if distinct:
            raise AmbiguousIdentityError(
                f"its certificate has several names ({', '.join(map(str, distinct))}): give it one "
                f"URI, such as {CLIENT_URI}orders"
            )
    raise AmbiguousIdentityError(
        f"its certificate has no alternative name: give it a URI, such as {CLIENT_URI}orders"
    )


def owner_of(identity: Identity, host: str) -> str:
    """Return the name under which the connections of a peer share limits.

    Args:
        identity: the identity of the peer.
        host: the address of the other end, without its port. A peer without a certificate is known
            by it alone; in IPv6 by the network of it, since a host has as many addresses as it
            wants.
    """
    return identity.name if identity.is_known else _network_of(host)


@lru_cache(maxsize=4096)
def _network_of(host: str) -> str:
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False))
