"""The certificate, key and authorities of one process: files that are checked, and read again.

Each file is checked when it is read, so that a wrong file is named by a sentence at the start, and
not by an alert on some connection later. While a process runs, `Certificates` looks at the files
again for each new connection. A file that was replaced by an unusable one changes nothing: the
process keeps the files it has read, and says so once. It tries the unusable file again now and
then: a certificate that begins later becomes usable without a change of its file.

Not here: contexts and handshakes (tls.py), and how test certificates are made (issuing.py).
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from quire.errors import CertificateError, ConfigurationError
from quire.tls_files import RenewedFiles, Stamp, stamp_of
from quire.wire.identity import AmbiguousIdentityError, Identity, identity_of

if TYPE_CHECKING:
    from cryptography import x509

_log = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 1024 * 1024
"""A bundle of all public authorities has a quarter of it."""

SOON_SECONDS: Final = 7 * 86400.0
"""A certificate that ends within this time is worth a warning at the start."""


class TlsMode(StrEnum):
    """Which connections a process makes or takes."""

    REQUIRED = "required"
    """With TLS only."""
    OPTIONAL = "optional"
    """With TLS where the other side has it; for the time of a roll-out."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The files that prove a process to others, and let it judge them. Mutual TLS.

    Args:
        certificate: file with the certificate in PEM, and those between it and the authority.
        key: file with its private key in PEM, without a password, for its owner's eyes.
        ca: file with the certificates of the authorities that are trusted, in PEM.
        mode: `required` or `optional`.

    Raises:
        ConfigurationError: a file is not a path, or `mode` is another word.
    """

    certificate: str | Path
    key: str | Path
    ca: str | Path
    mode: TlsMode = TlsMode.REQUIRED

    def __post_init__(self) -> None:
        for name in ("certificate", "key", "ca"):
            given = getattr(self, name)
            if not isinstance(given, str | Path) or "\0" in str(given):
                raise ConfigurationError(f"{name} must be the path of a file, not {given!r}")
            try:
                object.__setattr__(self, name, Path(given).expanduser())
            except RuntimeError as error:  # no such home
                raise ConfigurationError(f"{name} cannot be {given!r}: {error}") from error
        try:
            object.__setattr__(self, "mode", TlsMode(self.mode))
        except ValueError:
            raise ConfigurationError(
                f"TLS mode {str(self.mode)!r} is not one of 'required', 'optional'"
            ) from None

    @property
    def is_required(self) -> bool:
        """Whether connections without TLS are refused."""
        return self.mode is TlsMode.REQUIRED

    @property
    def files(self) -> tuple[Path, Path, Path]:
        """Certificate, key and authorities."""
        return Path(self.certificate), Path(self.key), Path(self.ca)


LOCAL: Final = "tls"
"""In the directory of a local cluster: its authority and certificates."""

LOCAL_CLIENT: Final = "client"
"""The name of the client's pair there."""


def local_tls(store: str) -> TlsOptions | None:
    """Return the files of the client of a local cluster.

    Args:
        store: the URI of a metadata store, or the directory of a local cluster.

    Returns:
        The files in that directory; None if it has none, and for a URI.
    """
    if "://" in store or store == "memory:":
        return None
    try:
        place = Path(store).expanduser() / LOCAL
        options = TlsOptions(
            place / f"{LOCAL_CLIENT}.pem", place / f"{LOCAL_CLIENT}-key.pem", place / "ca.pem"
        )
        return options if Path(options.certificate).is_file() else None
    except (OSError, RuntimeError, ConfigurationError):  # no access, no home, no name of a file
        return None


class Validity(NamedTuple):
    """The life of a certificate, in seconds since 1970."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Credentials:
    """The contents of the files, found usable."""

    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes
    identity: Identity
    names: tuple[str, ...]
    """All DNS names of the certificate."""
    validity: Validity
    ca_end: float
    """When the first authority ends."""
    stamp: Stamp = field(compare=False, repr=False)
    """The stamp of the files, from before they were read. While they have it, these are their
    contents.
    """


class Certificates:
    """The credentials of one process, as the files have them now.

    Any thread may ask: gRPC does from its own.

    Args:
        options: the files.
        clock: wall-clock seconds.

    Raises:
        CertificateError: a file cannot be used; the error names it and the remedy.
    """

    def __init__(self, options: TlsOptions, *, clock: Callable[[], float]) -> None:
        self.options = options
        self.clock = clock
        self._files = RenewedFiles(
            options.files, lambda: read_credentials(options, clock()), _log, clock=clock
        )
        self._held: tuple[int, Credentials] = 1, self._files.newest()

    def current(self) -> tuple[int, Credentials]:
        """Return the credentials and their version, which grows with each change of the files."""
        version, held = self._held
        found = self._files.newest()
        if found != held:
            version += 1
            _log.info("certificates of %s were read again", found.identity)
        self._held = version, found
        return version, found

    @property
    def credentials(self) -> Credentials:
        """The credentials as the files have them now."""
        return self.current()[1]


def read_credentials(options: TlsOptions, now: float) -> Credentials:
    """Read and check the files.

    Args:
        options: the files.
        now: seconds since 1970.

    Raises:
        CertificateError: a file is missing, cannot be read, is not PEM, or other users can read the
            key; key and certificate do not belong together; a certificate has ended, has not begun,
            or names no identity.
    """
    certificate, key, ca = options.files
    stamp = stamp_of(options.files)
    chain_pem, key_pem, ca_pem = read_file(certificate), read_key(key), read_file(ca)
    leaf = parse_certificates(certificate, chain_pem)[0]
    _check_key(certificate, key, leaf, key_pem)
    validity = _check_life(certificate, leaf, now)
    authorities = [each for each in parse_certificates(ca, ca_pem) if validity_of(each).end > now]
    if not authorities:
        raise CertificateError(
            str(ca),
            "has only authorities that have ended: renew the authority and its certificates",
        )
    uris, names = alternative_names(leaf)
    try:
        identity = identity_of(uris, names)
    except AmbiguousIdentityError as error:
        raise CertificateError(str(certificate), f"cannot be used: {error}") from None
    first = min(validity_of(each).end for each in authorities)
    return Credentials(chain_pem, key_pem, ca_pem, identity, tuple(names), validity, first, stamp)


def read_file(path: Path) -> bytes:
    """Return the contents of a file. Raises `CertificateError`."""
    try:
        with path.open("rb") as file:
            found = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise CertificateError(
            str(path), "does not exist: `quire certificates issue` makes one for a test cluster"
        ) from None
    except OSError as error:
        raise CertificateError(
            str(path), f"cannot be read: {os.strerror(error.errno or 0)}"
        ) from error
    if len(found) > FILE_BYTES_MAX:
        raise CertificateError(
            str(path), f"is larger than {FILE_BYTES_MAX} bytes: it is another file"
        )
    return found


def read_key(path: Path) -> bytes:
    """Return the contents of a file with a private key.

    Raises `CertificateError`, also for a file that other users may read or its group may change.
    """
    key = read_file(path)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise CertificateError(
            str(path), f"cannot be looked at: {os.strerror(error.errno or 0)}"
        ) from error
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise CertificateError(
            str(path),
            f"is open to other users (mode {mode:04o}): run `chmod 0600 {path}`",
        )
    return key


def parse_certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    """Return the certificates of a file, at least one. Raises `CertificateError`."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise CertificateError(
            str(path), "has no certificate in PEM (-----BEGIN CERTIFICATE-----)"
        ) from None


def validity_of(certificate: x509.Certificate) -> Validity:
    """Return the life of a certificate."""
    return Validity(
        certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    )


def alternative_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """Return the URIs and the DNS names of a certificate."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return [], []
    return (
        found.get_values_for_type(x509.UniformResourceIdentifier),
        found.get_values_for_type(x509.DNSName),
    )


def _check_key(path: Path, key_path: Path, leaf: x509.Certificate, key_pem: bytes) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(key_pem, password=None)
    except TypeError:
        raise CertificateError(
            str(key_path), "has a password: `openssl pkey` writes the key without it"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(
            str(key_path), "has no private key in PEM (-----BEGIN PRIVATE KEY-----)"
        ) from None
    if key.public_key() != leaf.public_key():
        raise CertificateError(
            str(key_path), f"is the key of another certificate than {path}: give the pair"
        )


def _check_life(path: Path, leaf: x509.Certificate, now: float) -> Validity:
    life = validity_of(leaf)
    if life.end <= now:
        raise CertificateError(str(path), f"ended at {day(life.end)}: renew it")
    if life.begin > now:
        raise CertificateError(
            str(path), f"is not valid before {day(life.begin)}: set this machine's clock"
        )
    return life


def day(seconds: float) -> str:
    """Return a time as text, in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
