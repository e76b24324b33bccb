"""Requests of both protocols as bytes: a message's first byte says which it is of. Pure."""

from __future__ import annotations

from quire.bookkeeper.serving import codec2, codec3
from quire.bookkeeper.serving.request import SECOND, ClientRequest, Reply


def read_request(data: bytes) -> ClientRequest:
    """Return a client's message without its size. Raises `MalformedError`."""
    return codec2.read_request(data) if codec2.is_second(data) else codec3.read_request(data)


def encode_reply(request: ClientRequest, reply: Reply) -> bytes:
    """Return the answer to a request, without its size."""
    if request.protocol == SECOND:
        return codec2.encode_reply(request, reply)
    return codec3.encode_reply(request, reply)
