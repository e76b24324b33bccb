"""TLS, credentials and ACLs, against a real server that asks for them."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import quire
from quire.cli.root import main
from quire.cluster.zookeeper.server import ZooKeeperServer, free_ports
from quire.errors import ConfigurationError, StoreUnavailableError
from quire.metastore import zookeeper_connection
from quire.metastore.changes import Create
from quire.metastore.layout import (
    CLIENTS,
    CLUSTER,
    CURSORS,
    LEDGER_IDS,
    bookie_path,
    ledger_path,
    log_path,
)
from quire.metastore.protection import exposed_records, protect_records
from quire.metastore.zookeeper import ZooKeeperStore
from quire.metastore.zookeeper_uri import parse_uri

DEADLINE_SECONDS = 60.0
NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"
SASL = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
JAAS = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
        user_quire="secret" user_reports="look";
};
"""


@dataclass(frozen=True)
class Place:
    """A server that speaks TLS beside plain text and knows one user."""

    server: ZooKeeperServer
    tls_port: int
    directory: Path

    def uri(self, query: str = "", root: str = "/root") -> str:
        return f"{self.server.uri}{root}?{query}".rstrip("?")

    def tls_uri(self, query: str, host: str = "127.0.0.1") -> str:
        return f"zk://{host}:{self.tls_port}/root?tls=yes&{query}"

    def certified_uri(self, root: str) -> str:
        files = f"certificate={self.directory}/server.pem&key={self.directory}/server.key"
        return self.tls_uri(f"ca={self.directory}/server.pem&{files}").replace("/root", root)

    def file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("zookeeper")
    make_certificate(directory / "server")
    (port,) = free_ports(1)
    jaas = directory / "jaas.conf"
    jaas.write_text(JAAS)
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": NETTY,
        "ssl.keyStore.location": str(directory / "server.both.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(directory / "server.pem"),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "want",
        "authProvider.1": SASL,
    }
    with ZooKeeperServer(
        directory / "server",
        sync=False,
        tls=True,
        settings=settings,
        java_options=[f"-Djava.security.auth.login.config={jaas}"],
    ) as server:
        yield Place(server, port, directory)


def make_certificate(path: Path) -> None:
    """Make NAME.pem, NAME.key and NAME.both.pem: a certificate for 127.0.0.1 that signs itself."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "quire-test")])
    address = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = certificate.public_bytes(pem)
    Path(f"{path}.key").write_bytes(secret)
    Path(f"{path}.pem").write_bytes(public)
    Path(f"{path}.both.pem").write_bytes(secret + public)


def with_stores(*uris: str, body: Callable[..., Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            stores = [await ZooKeeperStore.open(uri) for uri in uris]
            try:
                await body(*stores)
            finally:
                await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(main())


def test_everything_works_over_tls(place: Place) -> None:
    async def body(store: ZooKeeperStore) -> None:
        version = await store.create("/tls/a", b"sealed")
        session = await store.open_session(5.0)
        await session.create("/tls/live", b"")
        waiting = asyncio.ensure_future(store.wait("/tls/a", version))
        await store.put("/tls/a", bytes(300_000), version)
        await waiting
        values = await asyncio.gather(*(store.get("/tls/live") for _ in range(300)))
        assert len(values) == 300
        await store.delete("/tls/a")

    with_stores(place.tls_uri(f"ca={place.directory}/server.pem"), body=body)


def test_a_server_that_nobody_vouches_for_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_connection, "READY_SECONDS", 2.0)

    async def body(*_: ZooKeeperStore) -> None:
        pytest.fail("connected")

    with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        with_stores(place.tls_uri("verify=yes"), body=body)
    # The certificate is for 127.0.0.1, not for this name of the same machine.
    by_name = place.tls_uri(f"ca={place.directory}/server.pem", host="localhost")
    with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        with_stores(by_name, body=body)


@pytest.mark.parametrize(
    ("query", "host", "reason"),
    [
        ("tls=yes", "127.0.0.1", "CERTIFICATE_VERIFY_FAILED"),
        ("tls=yes&ca={ca}", "localhost", "Hostname mismatch"),
        ("tls=yes&ca={ca}&plain", "127.0.0.1", "EOF|WRONG_VERSION"),
        ("", "127.0.0.1", "add tls=yes"),
    ],
    ids=["unknown authority", "another name", "TLS to a plain port", "plain to a TLS port"],
)
def test_who_connects_in_vain_hears_why(place: Place, query: str, host: str, reason: str) -> None:
    """The client's patience ends after the reason is known, whatever the store's own is."""
    to_plain_port = query.endswith("&plain")
    port = place.server.port if to_plain_port else place.tls_port
    query = query.removesuffix("&plain").format(ca=f"{place.directory}/server.pem")

    async def main() -> None:
        async with quire.connect(f"zk://{host}:{port}/root?{query}".rstrip("?"), timeout=1.0):
            pytest.fail("connected")

    with pytest.raises(StoreUnavailableError, match=f"within 1 s.*({reason})"):
        asyncio.run(main())


def test_every_address_that_was_tried_says_why(place: Place) -> None:
    """A name can stand for several addresses: one that refuses must not hide what another said."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    query = f"tls=yes&ca={place.directory}/server.pem"
    hosts = f"localhost:{place.tls_port},127.0.0.1:{nobody}"

    async def main() -> None:
        async with quire.connect(f"zk://{hosts}/root?{query}", timeout=3.0):
            pytest.fail("connected")

    with pytest.raises(StoreUnavailableError) as caught:
        asyncio.run(main())
    assert "Hostname mismatch" in str(caught.value)
    assert "refused" in str(caught.value)


def test_unusable_certificates_are_named(place: Place) -> None:
    async def body(*_: ZooKeeperStore) -> None:
        pytest.fail("connected")

    for query in ("ca=/nowhere.pem", f"certificate=/nowhere.pem&key={place.directory}/server.key"):
        with pytest.raises(ConfigurationError, match="nowhere"):
            with_stores(place.tls_uri(query), body=body)


def test_a_client_may_show_a_certificate(place: Place) -> None:
    files = f"certificate={place.directory}/server.pem&key={place.directory}/server.key"

    async def body(store: ZooKeeperStore) -> None:
        await store.create("/shown/a", b"")
        await store.delete("/shown/a")

    with_stores(place.tls_uri(f"ca={place.directory}/server.pem&{files}"), body=body)


def test_verification_can_be_turned_off(place: Place) -> None:
    async def body(store: ZooKeeperStore) -> None:
        assert await store.children("/nothing") == []

    with_stores(place.tls_uri("verify=no", host="localhost"), body=body)


@pytest.mark.parametrize("auth", ["digest", "sasl", "certificate"])
def test_the_records_of_an_identity_are_for_it_only(place: Place, auth: str) -> None:
    credentials = place.file("credentials", "quire:secret\n")
    query = f"auth={auth}&credentials={credentials}"

    async def body(owner: ZooKeeperStore, same: ZooKeeperStore, other: ZooKeeperStore) -> None:
        version = await owner.create("/private/a", b"mine")
        session = await owner.open_session(5.0)
        await session.create("/private/live", b"")
        await same.put("/private/a", b"still mine", version)
        for call in (other.get("/private/a"), other.children("/private"), other.delete("/private")):
            with pytest.raises(ConfigurationError, match="ACL"):
                await call
        assert (await owner.get("/private/a")).value == b"still mine"

    root = f"/private-{auth}"
    owner = place.certified_uri(root) if auth == "certificate" else place.uri(query, root)
    with_stores(owner, owner, place.uri(root=root), body=body)


def test_a_reader_has_what_it_needs_and_no_more(place: Place) -> None:
    mine = f"auth=sasl&credentials={place.file('credentials', 'quire:secret')}"
    theirs = f"auth=sasl&credentials={place.file('reports', 'reports:look')}"

    async def body(owner: ZooKeeperStore, reader: ZooKeeperStore) -> None:
        for path in (ledger_path(7), log_path("a"), bookie_path("b1"), CLUSTER, LEDGER_IDS):
            await owner.create(path, b"x")
        await protect_records(owner)
        for path in (ledger_path(7), log_path("a"), bookie_path("b1"), CLUSTER):
            found = await reader.get(path)
            assert found.value == b"x"
            for call in (reader.put(path, b"y", found.version), reader.delete(path)):
                with pytest.raises(ConfigurationError, match="owners= or readers="):
                    await call
        for denied in (
            reader.get(LEDGER_IDS),
            reader.create(log_path("b"), b""),
            reader.commit([Create(ledger_path(8), b"")]),
        ):
            with pytest.raises(ConfigurationError, match="readers="):
                await denied
        session = await reader.open_session(5.0)
        await session.create(f"{CLIENTS}/reader", b"")
        version = await reader.create(f"{CURSORS}/a/reports", b"1")
        await reader.put(f"{CURSORS}/a/reports", b"2", version)
        assert (await owner.get(f"{CURSORS}/a/reports")).value == b"2"
        await owner.delete(f"{CURSORS}/a/reports")

    root = "/readers"
    mine = f"{mine}&readers=sasl:reports&owners=x509:CN=quire-test"
    with_stores(place.uri(mine, root), place.uri(f"{theirs}&owners=sasl:quire", root), body=body)

    async def look(other_owner: ZooKeeperStore) -> None:
        await other_owner.delete(log_path("a"))

    with_stores(place.certified_uri(root), body=look)


def test_an_open_tree_is_found_and_protected(place: Place) -> None:
    """Made without an identity, then given one."""
    root, mine = "/moving", f"auth=digest&credentials={place.file('credentials', 'quire:secret')}"

    async def make(other: ZooKeeperStore) -> None:
        for ledger in range(70):
            await other.create(ledger_path(ledger), b"x")
        await other.create(CLUSTER, b"x")
        assert await exposed_records(other) == ["/quire", "/quire/cluster", "/quire/ledgers"]

    with_stores(place.uri(root=root), body=make)

    def protect(*options: str) -> dict[str, int]:
        arguments = ["metadata", "protect", *options, "--json", "--store", place.uri(mine, root)]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.stderr
        found: dict[str, int] = json.loads(done.stdout)
        return found

    everything = 70 + len(["/quire", "cluster", "ledgers", "a shard"])
    assert protect("--dry-run") == {"records": everything, "exposed": everything, "dry_run": True}
    assert protect()["exposed"] == everything
    assert protect("--dry-run")["exposed"] == 0

    async def look(owner: ZooKeeperStore, other: ZooKeeperStore) -> None:
        assert await exposed_records(owner) == []
        assert (await owner.get(ledger_path(69))).value == b"x"
        for call in (other.get(ledger_path(0)), other.delete(ledger_path(69))):
            with pytest.raises(ConfigurationError, match="quire metadata protect"):
                await call

    with_stores(place.uri(mine, root), place.uri(root=root), body=look)


def test_an_identity_that_the_server_does_not_take_is_said(place: Place) -> None:
    """A certificate says nothing on a port without TLS: so with a server that asks for none."""

    async def body(store: ZooKeeperStore) -> None:
        store._target = parse_uri(place.certified_uri("/unknown"))
        with pytest.raises(ConfigurationError, match="acl=open"):
            await store.create("/a", b"")

    with_stores(place.uri(root="/unknown"), body=body)


def test_readable_records_are_changed_by_their_owner_only(place: Place) -> None:
    query = f"auth=digest&credentials={place.file('credentials', 'quire:secret')}&acl=readable"

    async def body(owner: ZooKeeperStore, other: ZooKeeperStore) -> None:
        version = await owner.create("/a", b"look")
        assert (await other.get("/a")).value == b"look"
        with pytest.raises(ConfigurationError, match="ACL"):
            await other.put("/a", b"touched", version)
        with pytest.raises(ConfigurationError, match="ACL"):
            await other.create("/b", b"")

    with_stores(place.uri(query, "/readable"), place.uri(root="/readable"), body=body)


def test_a_wrong_password_is_said_to_be_wrong(place: Place) -> None:
    file = place.file("wrong", "quire:guess\n")

    async def body(store: ZooKeeperStore) -> None:
        await store.children("/")
        pytest.fail("let in")

    with pytest.raises(ConfigurationError, match="credentials") as raised:
        with_stores(place.uri(f"auth=sasl&credentials={file}"), body=body)
    assert "guess" not in str(raised.value)


def test_credentials_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    async def body(*_: ZooKeeperStore) -> None:
        pytest.fail("connected")

    with pytest.raises(ConfigurationError, match="nowhere"):
        with_stores(f"zk://127.0.0.1:1/?auth=digest&credentials={tmp_path}/nowhere", body=body)
