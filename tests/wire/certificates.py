"""Certificates for tests: one authority for the whole run, and pairs in a directory."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from quire.wire.certificates import Certificates, TlsMode, TlsOptions
from quire.wire.issuing import DAY, Authority, Pair
from quire.wire.tls import Contexts


@cache
def authority(name: str = "a test authority") -> Authority:
    return Authority.make(name)


class Directory:
    """Pairs of one authority in a directory."""

    def __init__(self, directory: Path, name: str = "a test authority") -> None:
        self.path = directory
        self.authority = authority(name)
        self.ca = self.authority.pair.write(directory, name.replace(" ", "-"))[0]

    def options(self, name: str, pair: Pair, mode: TlsMode = TlsMode.REQUIRED) -> TlsOptions:
        return TlsOptions(*pair.write(self.path, name), self.ca, mode)

    def bookie(self, bookie: str = "b1", seconds: float = DAY) -> TlsOptions:
        return self.options(f"bookie-{bookie}", self.authority.bookie(bookie, seconds=seconds))

    def client(
        self, name: str = "tests", seconds: float = DAY, mode: TlsMode = TlsMode.REQUIRED
    ) -> TlsOptions:
        return self.options(f"client-{name}", self.authority.client(name, seconds=seconds), mode)

    def other(self, uri: str | None, hosts: Sequence[str] = ()) -> TlsOptions:
        return self.options("other", self.authority.issue("other", uri, hosts, DAY))


def contexts(options: TlsOptions, clock: Callable[[], float] = time.time) -> Contexts:
    return Contexts(Certificates(options, clock=clock))


def asking_context(options: TlsOptions) -> ssl.SSLContext:
    """The context of a server that asks its clients for certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    context.load_verify_locations(options.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def locked(options: TlsOptions) -> TlsOptions:
    """Give the key a password, in its file."""
    key = load_pem_private_key(Path(options.key).read_bytes(), None)
    password = BestAvailableEncryption(b"secret")
    Path(options.key).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, password))
    return options
