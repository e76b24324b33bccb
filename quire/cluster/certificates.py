"""The certificates of a local cluster, in its directory: an authority, bookies, and one client.

    DIRECTORY/tls/ca.pem            the authority, and its key beside it (ca-key.pem)
    DIRECTORY/tls/client.pem        a client, and its key; `connect(DIRECTORY)` finds it
    DIRECTORY/tls/bookie-0.pem      bookie 0, and its key

A certificate that ends within a week is issued again at the next start. So is a certificate of
another authority, or of a bookie that was formatted anew since.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from quire.errors import CertificateError
from quire.wire.certificates import (
    LOCAL,
    LOCAL_CLIENT,
    SOON_SECONDS,
    TlsOptions,
    read_credentials,
)
from quire.wire.identity import Identity, bookie_identity, client_identity
from quire.wire.issuing import CA, Authority, Pair

CLIENT_NAME: Final = "local"
"""The client's name in its certificate: `quire://client/local`."""


class LocalCertificates:
    """The files of one cluster.

    Args:
        directory: of the cluster.
        now: seconds since 1970.

    Raises:
        CertificateError: the authority's files cannot be read or written.
    """

    def __init__(self, directory: Path, now: float) -> None:
        self._directory = directory / LOCAL
        self._now = now
        if (self._directory / f"{CA}.pem").is_file():
            self._authority = Authority.load(self._directory)
        else:
            self._authority = Authority.make("quire local cluster")
            self._authority.pair.write(self._directory, CA)
        self.client = self._renewed(
            LOCAL_CLIENT,
            client_identity(CLIENT_NAME),
            lambda: self._authority.client(CLIENT_NAME),
        )
        """The files of the client."""

    def bookie(self, index: int) -> TlsOptions:
        """Return the files of a bookie.

        Args:
            index: its number in the cluster.
        """
        return self._options(f"bookie-{index}")

    def issue(self, index: int, bookie: str) -> TlsOptions:
        """Return the files of a bookie, issued if they are missing, end soon, or are another's.

        Args:
            index: its number in the cluster.
            bookie: its id.
        """
        identity = bookie_identity(bookie)
        return self._renewed(f"bookie-{index}", identity, lambda: self._authority.bookie(bookie))

    def _renewed(self, name: str, identity: Identity, issue: Callable[[], Pair]) -> TlsOptions:
        options = self._options(name)
        if not self._is_usable(options, identity):
            issue().write(self._directory, name)
        return options

    def _is_usable(self, options: TlsOptions, identity: Identity) -> bool:
        try:
            found = read_credentials(options, self._now + SOON_SECONDS)
            return found.identity == identity and self._authority.has_issued(found.certificate)
        except CertificateError:
            return False

    def _options(self, name: str) -> TlsOptions:
        place = self._directory
        return TlsOptions(place / f"{name}.pem", place / f"{name}-key.pem", place / f"{CA}.pem")
