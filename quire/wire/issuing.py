"""Certificates for clusters of one's own: an authority, and its certificates. Made for tests.

Real clusters take theirs from the authority that the machines have already. Their
certificates have the same names: the identity as a URI, and for a bookie the DNS name that clients
compare.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quire.errors import CertificateError
from quire.private_files import FILE_MODE, make_directories
from quire.wire.certificates import (
    day,
    parse_certificates,
    read_file,
    read_key,
    validity_of,
)
from quire.wire.identity import bookie_identity, client_identity, server_name

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAY: Final = 86400.0
AUTHORITY_SECONDS: Final = 3650 * DAY
CERTIFICATE_SECONDS: Final = 90 * DAY

_BACK: Final = timedelta(minutes=5)
"""A certificate begins so long before it is made: the clocks of two machines differ."""

PUBLIC_MODE: Final = 0o644

CA: Final = "ca"
"""Name of the authority's files, without their endings."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write `<name>.pem` and `<name>-key.pem`, each as a whole, the key first.

        Args:
            directory: the directory; it is made if it is missing.
            name: without an ending.

        Returns:
            The paths of certificate and key.

        Raises:
            CertificateError: a file cannot be written.
        """
        certificate, key = directory / f"{name}.pem", directory / f"{name}-key.pem"
        try:
            make_directories(directory)
            for path, contents, mode in (
                (key, self.key, FILE_MODE),
                (certificate, self.certificate, PUBLIC_MODE),
            ):
                whole = path.with_name(f"{path.name}.{os.getpid()}.new")
                whole.unlink(missing_ok=True)
                # Never a file that is there: another user of the directory may have made it.
                with open(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                    file.write(contents)
                whole.replace(path)
        except OSError as error:
            raise CertificateError(
                str(directory / name), f"cannot be written: {os.strerror(error.errno or 0)}"
            ) from error
        return certificate, key


class Authority:
    """What signs certificates. `make` a new one, or `load` one from its files.

    Args:
        pair: the authority's own certificate and key.

    Raises:
        CertificateError: the pair is not an authority's.
    """

    def __init__(self, pair: Pair) -> None:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self.pair = pair
        self._certificate = parse_certificates(Path("the authority"), pair.certificate)[0]
        try:
            self._key = load_pem_private_key(pair.key, password=None)
        except (ValueError, TypeError):
            raise CertificateError("the authority's key", "cannot be read") from None
        if self._key.public_key() != self._certificate.public_key():
            raise CertificateError(
                "the authority's key", "is the key of another certificate: give the pair"
            )
        if not _may_sign(self._certificate):
            raise CertificateError(
                "the authority's certificate",
                "is of a bookie or client, which signs nothing: give the authority's",
            )

    @classmethod
    def make(
        cls, name: str = "quire test authority", seconds: float = AUTHORITY_SECONDS
    ) -> Authority:
        """Make an authority of its own.

        Args:
            name: what its certificate calls it.
            seconds: its life.
        """
        from cryptography import x509

        key = _new_key()
        subject = _subject(name)
        builder = _builder(subject, subject, key, seconds).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(_sign(builder.add_extension(_usage(signs=True), critical=True), key, key))

    @classmethod
    def load(cls, directory: Path) -> Authority:
        """Read the files of an authority that `Pair.write` made under the name `ca`.

        Args:
            directory: where they are.

        Raises:
            CertificateError: they are missing, or not an authority's; other users can read the
                key; or the authority has ended.
        """
        certificate, key = directory / f"{CA}.pem", directory / f"{CA}-key.pem"
        found = cls(Pair(read_file(certificate), read_key(key)))
        if (end := validity_of(found._certificate).end) <= datetime.now(UTC).timestamp():
            raise CertificateError(
                str(certificate),
                f"ended at {day(end)}: move it away, make a new one, and renew its certificates",
            )
        return found

    def has_issued(self, certificate: bytes) -> bool:
        """Return whether this authority signed a certificate.

        Args:
            certificate: in PEM.

        Raises:
            CertificateError: it cannot be read.
        """
        from cryptography.exceptions import InvalidSignature

        leaf = parse_certificates(Path("the certificate"), certificate)[0]
        try:
            leaf.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def bookie(
        self, bookie: str, hosts: Sequence[str] = (), seconds: float = CERTIFICATE_SECONDS
    ) -> Pair:
        """Issue the certificate of a bookie.

        Args:
            bookie: its id.
            hosts: names and addresses to add, for other programs; quire's clients need none.
            seconds: its life.
        """
        return self.issue(
            bookie, bookie_identity(bookie).name, (server_name(bookie), *hosts), seconds
        )

    def client(self, name: str, seconds: float = CERTIFICATE_SECONDS) -> Pair:
        """Issue the certificate of a client.

        Args:
            name: the client's name in tables of rights.
            seconds: its life.
        """
        return self.issue(name, client_identity(name).name, (), seconds)

    def issue(self, subject: str, uri: str | None, hosts: Sequence[str], seconds: float) -> Pair:
        """Issue a certificate for both ends of connections.

        Args:
            subject: its common name, which is for the eye only.
            uri: its identity; None for a certificate that has none.
            hosts: its DNS names and addresses.
            seconds: its life; a certificate of a negative life has ended.

        Raises:
            CertificateError: a name cannot be in a certificate.
        """
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        issuer = self._certificate.subject
        builder = _builder(_subject(subject), issuer, key, seconds)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(signs=False), critical=True)
        ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(ends), critical=False)
        builder = builder.add_extension(_key_of(self._certificate), critical=False)
        try:
            names = [*([x509.UniformResourceIdentifier(uri)] if uri else []), *map(_host, hosts)]
        except ValueError as error:
            raise CertificateError(
                f"a certificate for {subject!r}", f"is not made: {error}"
            ) from None
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _sign(builder, key, self._key)


def _may_sign(certificate: x509.Certificate) -> bool:
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return found.value.ca


def _host(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _subject(name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, seconds: float
) -> x509.CertificateBuilder:
    from cryptography import x509

    end = datetime.now(UTC) + timedelta(seconds=seconds)
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), end) - _BACK)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_of(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    from cryptography import x509

    found = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _sign(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey, signer: object) -> Pair:
    from cryptography.hazmat.primitives import hashes, serialization

    signed = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    return Pair(
        signed.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
