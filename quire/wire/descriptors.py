"""How many connections the ports of a process may have, by the files that it may open."""

from __future__ import annotations

import resource
from typing import Final

DESCRIPTORS_RESERVED: Final = 256
"""For a process's own files and connections. A bookie holds 128 entry logs open, and its journal; a
gateway has four connections to each bookie at most; both have the metadata store.
"""

CONNECTIONS_MIN: Final = 16


def descriptors_max() -> int:
    """Return how many files and connections this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_max(wanted: int, descriptors: int, ports: int = 2) -> int:
    """Return how many connections one of some ports may have, so that files can still be opened.

    Args:
        wanted: the most that the operator allows.
        descriptors: the most that this process may have open.
        ports: the number of the ports.
    """
    return min(wanted, max(CONNECTIONS_MIN, (descriptors - DESCRIPTORS_RESERVED) // ports))
