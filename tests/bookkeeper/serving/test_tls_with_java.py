"""Apache's own client on bookies of quire with TLS: by START_TLS, over both protocols.

It has its certificate from PEM files, or from key stores; its rights are those of its certificate.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

import quire
from quire.entry import DigestKind
from quire.ledger.options import LedgerOptions
from quire.wire.certificates import TlsOptions
from quire.wire.issuing import DAY
from tests.interop.jars import install
from tests.interop.quire_servers import QuireServers
from tests.interop.runs import (
    COUNT,
    Scene,
    all_writable,
    java_fences_quire,
    java_writes_quire_follows,
    payloads,
    quire_fences_java,
    quire_writes_java_reads,
)
from tests.interop.servers import JavaClient, JavaError
from tests.wire.certificates import Directory

RUN_SECONDS = 300.0
REQUEST_SECONDS = 30
RUNS = (
    java_writes_quire_follows,
    quire_fences_java,
    quire_writes_java_reads,
    java_fences_quire,
)
RIGHTS = {
    "rules": [
        {"identity": "quire://client/root", "role": "admin"},
        {"identity": "quire://bookie/*", "role": "bookie"},
        {"identity": "quire://client/java", "role": "writer"},
        {"identity": "quire://client/python", "role": "writer"},
        {"identity": "quire://client/reader", "role": "reader"},
    ]
}
FACTORY = {
    "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
    "tlsClientAuthentication": "true",
    "tlsHostnameVerificationEnabled": "true",
}
SECRET = "changeit"


def pem(options: TlsOptions) -> dict[str, str]:
    """The settings of a client of Java with PEM files."""
    return {
        **FACTORY,
        "clientKeyStoreType": "PEM",
        "clientKeyStore": str(options.key),
        "tlsCertificatePath": str(options.certificate),
        **trust(options.ca),
    }


def trust(ca: str | Path) -> dict[str, str]:
    return {**FACTORY, "clientTrustStoreType": "PEM", "clientTrustStore": str(ca)}


def stores(options: TlsOptions, directory: Path) -> dict[str, str]:
    """The same with key stores of PKCS12, made from the files."""
    certificate = load_pem_x509_certificate(Path(options.certificate).read_bytes())
    ca = load_pem_x509_certificate(Path(options.ca).read_bytes())
    key = load_pem_private_key(Path(options.key).read_bytes(), None)
    secret = BestAvailableEncryption(SECRET.encode())
    own, trusted, word = (directory / each for each in ("own.p12", "trusted.p12", "word"))
    own.write_bytes(
        pkcs12.serialize_key_and_certificates(b"own", key, certificate, [ca], secret)  # type: ignore[arg-type]
    )
    held = [pkcs12.PKCS12Certificate(ca, b"ca")]
    trusted.write_bytes(pkcs12.serialize_java_truststore(held, secret))
    word.write_text(SECRET)
    return {
        **FACTORY,
        "clientKeyStoreType": "PKCS12",
        "clientKeyStore": str(own),
        "clientKeyStorePasswordPath": str(word),
        "clientTrustStoreType": "PKCS12",
        "clientTrustStore": str(trusted),
        "clientTrustStorePasswordPath": str(word),
    }


@contextmanager
def java(
    servers: QuireServers, protocol: str, settings: Mapping[str, str], seconds: int
) -> Iterator[JavaClient]:
    file = servers.directory / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    made = JavaClient(servers, protocol, seconds, more=(seconds, file))
    try:
        yield made
    finally:
        made.close()


def uri(servers: QuireServers, options: TlsOptions) -> str:
    more = {
        "bookie-tls": "yes",
        "bookie-ca": str(options.ca),
        "bookie-certificate": str(options.certificate),
        "bookie-key": str(options.key),
    }
    return f"{servers.writable_uri}&{urlencode(more)}"


async def _both_use_ledgers(servers: QuireServers, files: Directory) -> tuple[int, int]:
    """Each writes, reads, fences and recovers ledgers of the other; return a closed ledger and an
    open one.
    """
    options, rng = LedgerOptions(request_timeout=REQUEST_SECONDS), random.Random(0)
    where = uri(servers, files.client("python"))
    settings = {
        "v3": pem(files.client("java")),
        "v2": stores(files.client("java"), servers.directory),
    }
    async with quire.connect(where, options=options, timeout=30) as client:
        await all_writable(servers, client)
        for protocol, given in settings.items():
            with java(servers, protocol, given, REQUEST_SECONDS) as made:
                scene = Scene(servers, client, made, DigestKind.CRC32C, "pw", rng, protocol)
                for run in RUNS:
                    async with asyncio.timeout(RUN_SECONDS):
                        await run(scene)
        writer = await client.create_ledger(password=b"pw")
        await writer.append_many(payloads("quire", COUNT))
        await writer.close()
        left = await client.create_ledger(password=b"pw")
        await left.append(b"one")
        left.abandon()
        return writer.ledger, left.ledger


def _without_a_right(servers: QuireServers, files: Directory, ledger: int, left: int) -> None:
    """A reader reads, and may neither append nor fence."""
    with java(servers, "v3", pem(files.client("reader")), REQUEST_SECONDS) as made:
        assert made.ask("read", ledger, "CRC32C", "pw").split()[0] == str(COUNT)
        with pytest.raises(JavaError):
            made.ask("recover", left, "CRC32C", "pw")
        made.ask("create", "CRC32C", "pw")
        with pytest.raises(JavaError):
            made.ask("add", 1)


def _without_a_certificate(servers: QuireServers, files: Directory, ledger: int) -> None:
    """Without one, with one of another authority, and without TLS: nothing is served."""
    strangers = Directory(files.path / "strangers", "another authority")
    evil = pem(strangers.client("java")) | trust(files.ca)
    for settings, wanted in (
        ({}, "BKUnauthorizedAccessException"),
        (trust(files.ca), "^BK"),
        (evil, "^BK"),
    ):
        with java(servers, "v3", settings, 3) as made:
            made.ask("create", "CRC32C", "pw")
            for words in (("add", 1), ("read", ledger, "CRC32C", "pw")):
                with pytest.raises(JavaError, match=wanted):
                    made.ask(*words)


@pytest.mark.timeout(900)  # the first time the jars are downloaded
def test_clients_of_java_use_bookies_of_quire_by_tls(tmp_path: Path) -> None:
    files = Directory(tmp_path / "certificates")

    def bookie(name: str) -> TlsOptions:
        pair = files.authority.bookie(name, ["127.0.0.1"], DAY)
        return files.options(f"bookie-{name}", pair)

    with QuireServers(tmp_path / "servers", install(), tls=bookie) as servers:
        table = tmp_path / "rights.json"
        table.write_text(json.dumps(RIGHTS))
        servers.quire("rights", "apply", table, store=servers.own_uri)
        ledger, left = asyncio.run(_both_use_ledgers(servers, files))
        _without_a_right(servers, files, ledger, left)
        _without_a_certificate(servers, files, ledger)
