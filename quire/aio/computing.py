"""Work that only computes, in a thread beside the loop.

A computation has arguments and a result, and no effect besides. So a simulation runs it at once, in
virtual time (quire/testing/sim/sealed.py), where other work of threads is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Computation(Generic[T]):
    """A call that only computes."""

    work: Callable[[], T]

    def __call__(self) -> T:
        """Return the result."""
        return self.work()


async def compute(work: Callable[[], T]) -> T:
    """Return the result of a computation. The loop goes on meanwhile.

    Args:
        work: computes, without any effect.

    Raises:
        Exception: whatever `work` raises.

    Cancellation: the thread computes to its end, and nothing takes the result.
    """
    return await asyncio.get_running_loop().run_in_executor(None, Computation(work))
