"""How a client reaches a bookie: the protocol is in the bookie's address.

    host:port          a server process, over gRPC and plain frames (remote.py), with TLS if the
                       bookie and the client have it
    memory://name/n    a bookie of this process, offered under that address (quire.testing)

A bookie that is offered belongs to one event loop, as every link does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from quire.bookie import QUIRE, QUIRE_TLS, BookieAddress
from quire.errors import BookieUnavailableError, TlsMismatchError
from quire.ledger.read_keys import ReadKeys
from quire.ledger.remote import REQUEST_SECONDS, RemoteBookie
from quire.ledger.roster import LinkedBookie
from quire.requests import SLOW_SECONDS
from quire.wire.tls import Contexts

MEMORY: Final = "memory://"

_offered: dict[str, LinkedBookie] = {}


def offer_bookie(address: str, bookie: LinkedBookie) -> None:
    """Let the clients of this process reach a bookie under an address that begins `memory://`."""
    assert address.startswith(MEMORY), address
    _offered[address] = bookie


def withdraw_bookie(address: str) -> None:
    """Take an offer back. Harmless without an offer."""
    _offered.pop(address, None)


def choose_ports(address: BookieAddress, tls: Contexts | None) -> tuple[BookieAddress, bool]:
    """Return the ports of a bookie that a process uses, and whether they have TLS.

    Args:
        address: as the bookie registered it.
        tls: the certificates of this process; None for a process without TLS.

    Raises:
        TlsMismatchError: no port suits.
    """
    if address.protocol == QUIRE_TLS:
        if tls is None:
            raise TlsMismatchError(
                address.bookie,
                "takes TLS connections only, and this program has no certificate: give "
                "connect(tls=…), or --tls-cert, --tls-key and --tls-ca",
            )
        return address, True
    if tls is None:
        return address, False
    if address.tls is not None:
        ports = address.tls
        is_framed = ports.runs is not None
        return replace(address, address=ports.address, runs=ports.runs, says_hello=is_framed), True
    if tls.certificates.options.is_required:
        raise TlsMismatchError(
            address.bookie,
            "takes no TLS connections, and this program makes no others: give the bookie a "
            "certificate, or use TLS mode 'optional' until then",
        )
    return address, False


def link_bookie(
    address: BookieAddress,
    *,
    request_timeout: float = REQUEST_SECONDS,
    slow_seconds: float = SLOW_SECONDS,
    tls: Contexts | None = None,
    keys: ReadKeys | None = None,
) -> LinkedBookie:
    """Return a link to the bookie at an address.

    Args:
        address: as the bookie registered it.
        request_timeout: seconds after which a request without an answer fails.
        slow_seconds: a request that takes longer is written to the log.
        tls: the certificates of this process; None for a process without TLS.
        keys: those of ledgers whose reads need them.

    Raises:
        BookieUnavailableError: the bookie speaks another protocol, or the address is of a bookie
            in memory, and this process offers none under it.
        TlsMismatchError: the bookie takes TLS connections only, and this process has none; or the
            other way round.
    """
    if address.protocol not in (QUIRE, QUIRE_TLS):
        raise BookieUnavailableError(
            address.bookie,
            f"it speaks the protocol {address.protocol!r}, and this program {QUIRE!r} only",
        )
    if not address.address.startswith(MEMORY):
        reached, has_tls = choose_ports(address, tls)
        times = {"request_timeout": request_timeout, "slow_seconds": slow_seconds}
        return RemoteBookie(reached, tls=tls if has_tls else None, keys=keys, **times)
    try:
        return _offered[address.address]
    except KeyError:
        raise BookieUnavailableError(
            address.bookie, f"{address.address} is not a bookie of this process"
        ) from None
