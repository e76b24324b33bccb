"""Answers of the protocol that are no success."""

from __future__ import annotations

from collections.abc import Mapping

from quire.gateway.answers import GatewayError


class ProtocolAnswerError(GatewayError):
    """A request that the protocol answers with a status and headers of its own."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers or {}


def no_stream(name: str) -> ProtocolAnswerError:
    """Return the answer for a stream that does not exist."""
    return ProtocolAnswerError(404, "not_found", f"there is no stream {name!r}: create it with PUT")
