"""An event loop with no way out, and the errors with which a simulated run ends.

Every method of asyncio's abstract loop raises `SimEscape` until a subclass gives it a meaning
inside the simulation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn


class SimError(Exception):
    """The run cannot go on: the simulated program, or the simulation itself, is wrong."""


class SimDeadlock(SimError):  # noqa: N818
    """Tasks are waiting and nothing will ever wake them."""


class SimLivelock(SimError):  # noqa: N818
    """Too many steps, in one instant of virtual time or in all."""


class SimEscape(SimError):  # noqa: N818
    """The program tried to leave the simulation: a thread, a socket, an executor."""


class SimUnhandled(SimError):  # noqa: N818
    """An exception reached nobody."""


class SealedLoop(asyncio.AbstractEventLoop):
    """Refuses sockets, threads, signals, executors: everything."""


def _escape(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise SimEscape(f"{name} leaves the simulation")

    return refuse


for _name in asyncio.AbstractEventLoop.__dict__:
    if not _name.startswith("_"):
        setattr(SealedLoop, _name, _escape(_name))
