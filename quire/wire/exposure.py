"""Which addresses a server may listen on without TLS: those of its own machine.

Traffic without TLS tells every entry to the machines on its way, and any process that reaches the
port may read ledgers and fence them. So an address of the network needs the operator's consent, and
the server names it in its log at each start.

A host is judged as it is written. A name other than `localhost` may resolve to another address at
the next start, so it counts as the network. Pure.

Not here: figures and probes (metrics.py), which show no entry and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from quire.errors import ConfigurationError
from quire.wire.transport import split_address

CONSENT: Final = "--insecure-network"
"""The option by which an operator accepts that a port of the network has no TLS."""


def is_loopback(listen: str) -> bool:
    """Return whether only processes of this machine reach host:port.

    Raises `ConfigurationError` for another form of address.
    """
    host, _ = split_address(listen)
    return is_loopback_name(host.strip("[]").lower())


def host_name(host: str) -> str:
    """Return the name in a header `Host`, without its port and the brackets of IPv6."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    return name.strip("[]").lower()


def is_loopback_name(name: str) -> bool:
    """Return whether a host, in small letters and without brackets, is this machine only."""
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def exposed(server: str, listening: Iterable[str], *, accepted: bool) -> list[str]:
    """Return the addresses of the network among those that a server listens on without TLS.

    Args:
        server: the server's kind, for the message.
        listening: host:port of each port that clients use.
        accepted: whether the operator has given `CONSENT`.

    Raises:
        ConfigurationError: there are some and they were not accepted, or an address has another
            form.
    """
    found = [each for each in listening if not is_loopback(each)]
    if found and not accepted:
        raise ConfigurationError(
            f"{' and '.join(found)} can be reached from the network, and the {server} has no TLS: "
            "listen on 127.0.0.1, [::1] or localhost; if you trust all machines of the network, "
            f"pass {CONSENT}"
        )
    return found
