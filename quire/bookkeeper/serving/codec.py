"""Requests of both protocols as bytes: a message's first byte says which it is of. Pure."""

from __future__ import annotations

from quire.bookkeeper.serving import codec2, codec3
from quire.bookkeeper.serving.request import SECOND, Reply, Request


def read_request(data: bytes) -> Request:
    """Return a client's message without its size. Raises `MalformedError`."""
    return (codec2 if codec2.is_second(data) else codec3).read_request(data)


def encode_reply(request: Request, reply: Reply) -> bytes:
    """Return the answer to a request, without its size."""
    return (codec2 if request.protocol == SECOND else codec3).encode_reply(request, reply)
