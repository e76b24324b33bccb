"""TLS of gRPC: credentials of both ends from the same files, and the identity of a caller.

gRPC has its own TLS. Its server asks for the files at each new connection. A channel keeps its
first files; its owner makes another when the files have changed (ledger/remote.py).

gRPC cannot end one connection of a server. So each call looks at the caller's certificate, and a
call that lasts longer than the certificate is broken off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from quire.aio.timing import time_limit
from quire.errors import CertificateError
from quire.wire.certificates import (
    Certificates,
    Credentials,
    alternative_names,
    parse_certificates,
    validity_of,
)
from quire.wire.identity import ANONYMOUS, AmbiguousIdentityError, Identity, identity_of
from quire.wire.tls import Peer, describe_end

T = TypeVar("T")

UNAUTHENTICATED: Final = grpc.StatusCode.UNAUTHENTICATED
"""The status of a call that a certificate does not allow."""

PEERS_MAX: Final = 4096
"""Certificates of callers that are kept taken apart: one for each client, or a few."""


def channel_credentials(credentials: Credentials) -> grpc.ChannelCredentials:
    """Return the credentials to open a channel with."""
    return grpc.ssl_channel_credentials(credentials.ca, credentials.key, credentials.certificate)


def server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Return the credentials of a port. It asks for the files at each new connection."""
    given = 0

    def configuration(found: Credentials) -> grpc.ServerCertificateConfiguration:
        pair = [(found.key, found.certificate)]
        return grpc.ssl_server_certificate_configuration(pair, found.ca)

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal given
        version, found = certificates.current()
        if version == given:
            return None
        given = version
        return configuration(found)

    given, first = certificates.current()
    return grpc.dynamic_ssl_server_credentials(
        configuration(first),
        fetch,  # type: ignore[arg-type]  # None says that nothing has changed
        require_client_authentication=True,
    )


def peer_of(context: Any) -> Peer:
    """Return the caller as its certificate tells; on a plain port, a peer without one."""
    pems = context.auth_context().get("x509_pem_cert")
    return _peer(bytes(next(iter(pems)))) if pems else Peer()


def peer_identity(context: Any) -> Identity:
    """Return the identity of a caller; `ANONYMOUS` on a plain port.

    A guarded handler runs only if the certificate proves an identity.
    """
    peer = peer_of(context)
    return ANONYMOUS if peer.complaint else peer.identity


@lru_cache(maxsize=PEERS_MAX)
def _peer(pem: bytes) -> Peer:
    try:
        certificate = parse_certificates(Path("the client's certificate"), pem)[0]
    except CertificateError as error:
        return Peer(end=0.0, complaint=str(error))
    end = validity_of(certificate).end
    try:
        return Peer(identity_of(*alternative_names(certificate)), end)
    except AmbiguousIdentityError as error:
        return Peer(end=end, complaint=str(error))


def guarded(
    handler: Callable[[Any, Any], Awaitable[T]], clock: Callable[[], float]
) -> Callable[[Any, Any], Awaitable[T]]:
    """Return a handler that serves a caller as long as the certificate lives.

    Args:
        handler: takes a request, or the stream of them, and the context of the call.
        clock: wall-clock seconds.
    """

    @wraps(handler)
    async def serve(request: Any, context: Any) -> T:
        peer = peer_of(context)
        if peer.complaint is not None:
            raise await _refusal(context, peer.complaint)
        if peer.end is None:
            return await handler(request, context)
        left = peer.end - clock()
        if left <= 0:
            raise await _refusal(context, describe_end(peer.end))
        life = None
        try:
            async with time_limit(left) as life:
                return await handler(request, context)
        except TimeoutError:
            if life is None or not life.expired():
                raise
        raise await _refusal(context, describe_end(peer.end))

    return serve


async def _refusal(context: Any, reason: str) -> Exception:
    """Abort a call, which raises; the return value is for the eye of a type checker."""
    await context.abort(UNAUTHENTICATED, reason)
    return AssertionError("a call that was aborted goes on")
