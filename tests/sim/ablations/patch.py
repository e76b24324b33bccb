"""What an ablation is: a safeguard's name, and what replaces it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from tests.sim.ablations.misfit import watched
from tests.sim.faults import FaultMix
from tests.sim.history import ENDS

Patch = tuple[Any, str, Any]
"""Where, what, and with what it is replaced."""


WITHOUT_END: Final = (ENDS, "SimDeadlock", "SimLivelock")
"""Names for a run that does not end: it waits, or it is busy without a result."""


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
    shows: Collection[str] = ()
    """Ends or errors by which the loss shows, where it breaks no invariant of its own."""

    @property
    def test(self) -> str:
        """The file of tests that the note names: without the safeguard one of them must fail."""
        found = re.search(r"tests/[\w/]+\.py", self.note)
        return found[0] if found else ""

    @contextmanager
    def removed(self) -> Iterator[list[Exception]]:
        """Production code without the safeguard.

        Yields the errors so far that say that a patch does not fit the code any more.
        """
        misfits: list[Exception] = []
        with ExitStack() as stack:
            for target, attribute, value in self.patches():
                new = watched(value, misfits)
                stack.enter_context(patch.object(target, attribute, new))
            yield misfits
