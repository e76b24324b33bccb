"""A client of TLS that ends its handshake and then takes no part in the connection."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest


async def shake_hands(theirs: socket.socket, trusted: ssl.SSLContext, host: str) -> None:
    """Make a handshake whose last message is sent as this returns: the server has yet to read it.

    Args:
        theirs: the client's side of a connection that the server has accepted; it never blocks.
        trusted: the authorities that the client trusts.
        host: the name that the server's certificate must have.
    """
    loop = asyncio.get_running_loop()
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusted.wrap_bio(received, to_send, server_hostname=host)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    await loop.sock_sendall(theirs, to_send.read())
    received.write(await loop.sock_recv(theirs, 65_536))
    client.do_handshake()
    theirs.send(to_send.read())
