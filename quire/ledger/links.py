"""How a client reaches a bookie: the protocol is in the bookie's address.

    host:port          a server process, over gRPC and plain frames (remote.py)
    memory://name/n    a bookie of this process, offered under that address (quire.testing)

A bookie that is offered belongs to one event loop, as every link does.
"""

from __future__ import annotations

from typing import Final

from quire.bookie import QUIRE, BookieAddress
from quire.errors import BookieUnavailableError
from quire.ledger.remote import RemoteBookie
from quire.ledger.roster import LinkedBookie

MEMORY: Final = "memory://"

_offered: dict[str, LinkedBookie] = {}


def offer_bookie(address: str, bookie: LinkedBookie) -> None:
    """Let the clients of this process reach a bookie under an address that begins `memory://`."""
    assert address.startswith(MEMORY), address
    _offered[address] = bookie


def withdraw_bookie(address: str) -> None:
    """Take an offer back. Harmless without an offer."""
    _offered.pop(address, None)


def link_bookie(address: BookieAddress, *, request_timeout: float) -> LinkedBookie:
    """Return a link to the bookie at an address.

    Args:
        address: as the bookie registered it.
        request_timeout: seconds after which a request without an answer fails.

    Raises:
        BookieUnavailableError: the bookie speaks another protocol, or the address is of a bookie
            in memory, and this process offers none under it.
    """
    if address.protocol != QUIRE:
        raise BookieUnavailableError(
            address.bookie,
            f"it speaks the protocol {address.protocol!r}, and this program {QUIRE!r} only",
        )
    if not address.address.startswith(MEMORY):
        return RemoteBookie(address, request_timeout=request_timeout)
    try:
        return _offered[address.address]
    except KeyError:
        raise BookieUnavailableError(
            address.bookie, f"{address.address} is not a bookie of this process"
        ) from None
