"""Bookies of quire for clients of Apache BookKeeper: their store and their port, as given."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from quire.bookkeeper.serving.port import takes_tls_only
from quire.bookkeeper.serving.system import bookkeeper_system, own_store, writable
from quire.bookkeeper.uri import split_uri
from quire.errors import ConfigurationError
from quire.storage.ledger_system import OpenSystem
from quire.wire.exposure import exposed
from quire.wire.tls import Contexts


class BookKeeperPlace(NamedTuple):
    """Where such a bookie keeps its own records, and the opener of the system of its ledgers."""

    own: str
    open_system: OpenSystem


def is_apache(uri: str) -> bool:
    """Whether a store's URI names ledgers of Apache BookKeeper."""
    return split_uri(uri)[1] is not None


def bookkeeper_place(
    uri: str, listen: str | None, advertise: str | None, insecure: bool, tls: Contexts | None
) -> BookKeeperPlace:
    """Return the place of a bookie with a store and a port.

    Raises `ConfigurationError` when one is given without the other, and for an address that other
    machines reach without TLS unless that is accepted.
    """
    found = writable(uri)
    if found is None:
        raise ConfigurationError(
            f"--listen-bookkeeper needs a store with the cluster's ledgers, and {uri!r} names "
            "none: give --store 'zk://host:2181/?ledgers=bookkeeper:/ledgers&write=true'"
        )
    if listen is None:
        raise ConfigurationError(
            f"{uri!r} names ledgers of Apache BookKeeper: give --listen-bookkeeper HOST:PORT"
        )
    if not takes_tls_only(tls):
        exposed("bookie", [listen], accepted=insecure)
    base, ledgers = found
    opening = partial(
        bookkeeper_system,
        base=base,
        ledgers=ledgers,
        listen=listen,
        advertise=advertise,
        tls=tls,
    )
    return BookKeeperPlace(own_store(base, ledgers), opening)
