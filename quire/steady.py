"""A clock that only goes forward, and its name: readings of one name can be compared.

On Linux the name joins the machine's start (`boot_id`) and the namespace of time, so that processes
which follow each other on a machine share one clock. Elsewhere each process has its own clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE: Final = Path("/proc/self/ns/time")


class SteadyClock(NamedTuple):
    """Seconds of a clock that is never put back or forward, and the clock's name."""

    name: str
    seconds: Callable[[], float]


def own_clock(rng: Random) -> SteadyClock:
    """Return a clock that no other process has in common with this one."""
    return SteadyClock(f"process {rng.getrandbits(128):032x}", time.monotonic)


def machine_clock(rng: Random) -> SteadyClock:
    """Return the machine's clock, or a clock of this process where a machine does not say which
    start of it this is.
    """
    with suppress(OSError):
        boot = BOOT_ID.read_text(encoding="ascii").strip()
        namespace = os.readlink(NAMESPACE) if NAMESPACE.is_symlink() else ""
        if boot:
            return SteadyClock(f"boot {boot} {namespace}".strip(), time.monotonic)
    return own_clock(rng)
