"""TLS without I/O: contexts, one end of a connection, and the reasons of failures in words.

This is the one module that imports ssl, but for kazoo's own connections. A `TlsSession` turns bytes
of the network into bytes of the program, and back; tls_layer.py joins it to a connection. Being
without I/O it sends the alert that says why a handshake failed, which asyncio's own layer drops: a
refused client hears the reason.

Only TLS 1.3, where a client has ended its handshake before the server has judged the certificate of
the client. So the first bytes that come back decide, on both sides, and never the handshake alone.

No session is resumed: a resumed session would skip the judgement.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from quire.entry import BookieId
from quire.errors import CertificateError, ConfigurationError
from quire.tls_files import refuse_password, stamp_of
from quire.wire.certificates import Certificates, Credentials, day
from quire.wire.identity import (
    ANONYMOUS,
    AmbiguousIdentityError,
    Identity,
    identity_of,
    server_name,
)

_log = logging.getLogger(__name__)

ServingContext: TypeAlias = ssl.SSLContext
"""Makes the ends of a server's connections."""

HANDSHAKE_BYTE: Final = 0x16
"""The first byte of a connection with TLS. No greeting of plain frames begins with it."""

HTTP2: Final = "h2"
"""The name of HTTP/2 within TLS; a server of gRPC takes nothing else."""

_READ_BYTES: Final = 256 * 1024
_JOINED_BYTES_MAX: Final = 64 * 1024
"""Parts of a message are joined up to this size: a record of their own costs more than a copy."""


class Blame(Enum):
    """Which side a failure is about."""

    OURS = "ours"
    """The other side refuses this side's certificate, or wants one."""
    THEIRS = "theirs"
    """This side refuses the certificate of the other side."""
    NEITHER = "neither"
    """The other side speaks no TLS, or not as it should."""


class TlsError(Exception):
    """A connection that fails for its TLS, with the reason in words."""

    def __init__(self, blame: Blame, reason: str) -> None:
        super().__init__(reason)
        self.blame = blame


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side, as its certificate tells."""

    identity: Identity = ANONYMOUS
    end: float | None = None
    """When the certificate ends, in seconds since 1970."""
    complaint: str | None = None
    """Why it proves no identity."""


class Contexts:
    """Makes the sessions of one process, each with the certificates that the files have now.

    Args:
        certificates: the files.

    Raises:
        CertificateError: OpenSSL does not take them.
    """

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        self._version = self._refused = 0
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # until `_renew`
        self._clients: dict[str | None, ssl.SSLContext] = {}
        self._renew()

    @property
    def version(self) -> int:
        """Grows when the files have changed."""
        self._renew()
        return self._version

    def accept(self) -> TlsSession:
        """Return the server's end of a new connection."""
        self._renew()
        return self._session(self._server, None)

    def open(self, bookie: BookieId, protocol: str | None = None) -> TlsSession:
        """Return the client's end of a new connection to a bookie.

        Args:
            bookie: the other side must show the certificate of this bookie.
            protocol: the protocol inside: None for frames, or `HTTP2`.
        """
        self._renew()
        return self._session(self._clients[protocol], bookie)

    def _session(self, context: ssl.SSLContext, bookie: BookieId | None) -> TlsSession:
        return TlsSession(context, bookie, self.certificates.clock)

    def _renew(self) -> None:
        version, judged = self.certificates.current()
        if version == self._version:
            return
        try:
            # OpenSSL reads the files itself: what it has read counts if they are the judged ones.
            self._compare(judged)
            server = self._context(ssl.PROTOCOL_TLS_SERVER)
            frames, http2 = (self._context(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
            self._compare(judged)
        except CertificateError as error:
            if not self._version:
                raise
            # The files change just now, or descriptors are short: the next connection tries again.
            if version != self._refused:
                _log.warning("certificates are not used yet: %s", error)
            self._refused = version
        else:
            http2.set_alpn_protocols([HTTP2])
            self._server, self._clients = server, {None: frames, HTTP2: http2}
            self._version = version

    def _compare(self, judged: Credentials) -> None:
        """Raise `CertificateError` unless the files are those that were judged."""
        files = self.certificates.options.files
        if stamp_of(files) != judged.stamp:
            raise CertificateError(
                str(files[0]), "or its key or authorities were replaced after they were checked"
            )

    def _context(self, protocol: int) -> ssl.SSLContext:
        certificate, key, ca = self.certificates.options.files
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # `_judge` compares the name that clients want
        context.verify_mode = ssl.CERT_REQUIRED
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0
        try:
            context.load_cert_chain(certificate, key, partial(refuse_password, key))
            context.load_verify_locations(ca)
        except (OSError, ConfigurationError) as error:  # an SSLError is an OSError
            raise CertificateError(
                str(certificate), f"is not taken by {ssl.OPENSSL_VERSION}: {error}"
            ) from error
        return context


class TlsSession:
    """One end of a connection. After an error only `outgoing` is of use: it has the alert."""

    def __init__(
        self, context: ssl.SSLContext, bookie: BookieId | None, clock: Callable[[], float]
    ) -> None:
        self.clock = clock
        """Wall-clock seconds."""
        self._incoming, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._bookie = bookie
        self._object = context.wrap_bio(
            self._incoming,
            self._out,
            server_side=bookie is None,
            server_hostname=None if bookie is None else server_name(bookie),
        )
        self.is_open = False
        """Whether bytes of the program can be sent."""
        self.has_ended = False
        """Whether the other side has said that it sends no more."""
        self.peer = Peer()

    def begin(self) -> None:
        """Begin the handshake; `outgoing` has its first bytes."""
        self._shake()

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Take bytes of the network in, and yield bytes of the program.

        Args:
            data: the bytes.

        Raises:
            TlsError: the connection is over. Send what `outgoing` returns: it says why.
        """
        self._incoming.write(data)
        if not self.is_open and not self._shake():
            return
        while True:
            try:
                chunk = self._object.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                chunk = b""
            except ssl.SSLError as error:
                raise self._explained(error) from error
            if not chunk:
                self.has_ended = True
                return
            yield chunk

    def write(self, *parts: bytes) -> None:
        """Take bytes of the program; `outgoing` has them for the network."""
        if len(parts) > 1 and sum(map(len, parts)) <= _JOINED_BYTES_MAX:
            parts = (b"".join(parts),)
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[self._object.write(view) :]

    def end(self) -> None:
        """Say that no more is sent."""
        try:
            self._object.unwrap()
        except ssl.SSLError:
            return  # the other side has not said so yet, and need not

    def outgoing(self) -> bytes:
        """Return the bytes to send now."""
        return self._out.read() if self._out.pending else b""

    def _shake(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise self._explained(error) from error
        self.is_open = True
        self._judge()
        return True

    def _judge(self) -> None:
        """Take the other side's names in; a client looks for the name of its bookie there."""
        found = self._object.getpeercert() or {}
        alternatives: Any = found.get("subjectAltName", ())
        uris = [str(name) for kind, name in alternatives if kind == "URI"]
        names = [str(name) for kind, name in alternatives if kind == "DNS"]
        end = float(ssl.cert_time_to_seconds(str(found["notAfter"])))
        try:
            self.peer = Peer(identity_of(uris, names), end)
        except AmbiguousIdentityError as error:
            self.peer = Peer(end=end, complaint=str(error))
        if self._bookie is not None and server_name(self._bookie) not in names:
            of = ", ".join([*uris, *names]) or "nobody"
            raise TlsError(
                Blame.THEIRS,
                f"the certificate shown at its address is of {of}, not of bookie {self._bookie}",
            )

    def _explained(self, error: ssl.SSLError) -> TlsError:
        if isinstance(error, ssl.SSLCertVerificationError):
            what = "the certificate that the bookie shows" if self._bookie else "the certificate"
            return TlsError(Blame.THEIRS, f"{what} is not accepted: {error.verify_message}")
        reason = str(error.reason or error)
        us = "this bookie" if self._bookie is None else "this client"
        for sign, (blame, text) in _MEANINGS.items():
            if sign in reason:
                return TlsError(blame, text.format(us=us))
        words = reason.lower().replace("_", " ")
        return TlsError(Blame.NEITHER, f"TLS failed: {words}")


_MEANINGS: Final = {
    "ALERT_UNKNOWN_CA": (
        Blame.OURS,
        "it does not trust the authority of {us}'s certificate",
    ),
    "ALERT_CERTIFICATE_EXPIRED": (Blame.OURS, "{us}'s certificate has ended: renew it"),
    "ALERT_CERTIFICATE_REQUIRED": (Blame.OURS, "it wants a certificate, and {us} has none"),
    "ALERT_BAD_CERTIFICATE": (Blame.OURS, "it does not accept {us}'s certificate"),
    "ALERT_UNSUPPORTED_CERTIFICATE": (
        Blame.OURS,
        "{us}'s certificate is for another purpose (its extended key usage)",
    ),
    "ALERT_CERTIFICATE_REVOKED": (Blame.OURS, "{us}'s certificate was revoked"),
    "ALERT_CERTIFICATE_UNKNOWN": (Blame.OURS, "it does not accept {us}'s certificate"),
    "ALERT_ACCESS_DENIED": (Blame.OURS, "it does not accept {us}'s certificate"),
    "ALERT_DECRYPT_ERROR": (Blame.OURS, "{us}'s key does not prove its certificate"),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (Blame.THEIRS, "the client shows no certificate"),
    "WRONG_VERSION_NUMBER": (Blame.NEITHER, "its port speaks no TLS"),
    "HTTP_REQUEST": (Blame.NEITHER, "the client speaks HTTP, and no TLS"),
    "UNSUPPORTED_PROTOCOL": (Blame.NEITHER, "it speaks an older TLS than 1.3"),
    "ALERT_PROTOCOL_VERSION": (Blame.NEITHER, "it speaks an older TLS than 1.3"),
}
"""The meaning of OpenSSL's reasons, by a part of their name. Alerts are sent by the other side."""


def describe_end(end: float) -> str:
    """Say that a connection is over because a certificate is."""
    return f"the certificate ended at {day(end)}"


def serving_context(certificate: Path, key: Path) -> ServingContext:
    """Return the context of a server that asks its clients for no certificate, such as one for
    programs of other protocols. Raises `ConfigurationError` for files that cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, partial(refuse_password, key))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"certificate {certificate} with key {key} cannot be used: {error}"
        ) from error
    return context
