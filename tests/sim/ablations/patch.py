"""What an ablation is: a safeguard's name, and what replaces it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.sim.faults import FaultMix

Patch = tuple[Any, str, Any]
"""Where, what, and with what it is replaced."""


@dataclass(frozen=True)
class Ablation:
    """A safeguard, and what replaces it."""

    name: str
    workload: str
    patches: Callable[[], list[Patch]]
    note: str = ""
    """Why nothing needs to notice, for a safeguard that others cover."""
    adjust: Callable[[FaultMix], None] | None = None
    """Turns every seed's mix towards what this safeguard is for."""

    @property
    def test(self) -> str:
        """The file of tests that the note names: without the safeguard one of them must fail."""
        found = re.search(r"tests/[\w/]+\.py", self.note)
        return found[0] if found else ""

    @contextmanager
    def removed(self) -> Iterator[None]:
        """Production code without the safeguard."""
        with ExitStack() as stack:
            for target, attribute, value in self.patches():
                stack.enter_context(patch.object(target, attribute, value))
            yield
