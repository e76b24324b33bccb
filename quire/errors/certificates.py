"""Errors of certificates: the files of this process, and the certificate of a bookie."""

from __future__ import annotations

from quire.errors.base import BookieUnavailableError, ConfigurationError


class CertificateError(ConfigurationError):
    """A certificate, a key or an authority's certificate cannot be used as it is."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason


class UntrustedBookieError(BookieUnavailableError):
    """The server at a bookie's address does not prove that it is the bookie.

    Another machine may have taken over the address. Nothing was sent to it.
    """
