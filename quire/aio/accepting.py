"""A port that accepts its connections itself, and so knows of each before its handshake of TLS.

asyncio's servers tell of a connection only after its handshake. A client that makes none would hold
a descriptor uncounted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

ACCEPT_SECONDS: Final = 1.0
"""A port that cannot take a connection, for want of descriptors, tries again after so long."""

_log = logging.getLogger(__name__)


async def accept_connections(
    listening: socket.socket, welcome: Callable[[socket.socket], None], port: str
) -> None:
    """Give the connections of a bound socket to `welcome`, until this is cancelled.

    Args:
        listening: it does not block.
        welcome: owns the connection that it is given, and does not raise.
        port: how the log names the port.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, _ = await loop.sock_accept(listening)
        except ConnectionError:
            continue  # the client has gone already
        except OSError as error:
            _log.warning("%s takes no connection for now: %s", port, error)
            await asyncio.sleep(ACCEPT_SECONDS)
            continue
        welcome(accepted)
        await asyncio.sleep(0)  # others have their turn, however many connections wait
