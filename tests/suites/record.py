"""What a suite of another project says of quire: counts, and each refusal with its reason. Pure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a suite: the names of its tests by what became of them."""

    passed: frozenset[str]
    failed: frozenset[str]
    skipped: int


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of a suite."""

    suite: str
    version: str
    passed: int
    skipped: int
    refused: dict[str, str]
    """Tests that quire refuses, and why: a key of `reasons`."""
    reasons: dict[str, str]

    def surprises(self, outcome: Outcome) -> list[str]:
        """Return what a run has that the record has not."""
        known = self.refused.keys()
        found = [f"it failed: {each}" for each in sorted(outcome.failed - known)]
        found += [f"it passed: {each}" for each in sorted(outcome.passed & known)]
        seen = outcome.passed | outcome.failed
        return found + [f"it was not there: {each}" for each in sorted(known - seen)]

    def table(self) -> str:
        """Return the refusals for docs/gateway.md."""
        counts = Counter(self.refused.values())
        lines = [
            f"{self.suite} {self.version}: {self.passed} of "
            f"{self.passed + len(self.refused)} tests pass, {self.skipped} are skipped.",
            "",
            "| tests refused | reason |",
            "|---|---|",
        ]
        lines += [f"| {counts[key]} | {self.reasons[key]} |" for key in sorted(self.reasons)]
        return "\n".join(lines)


def load(name: str) -> Record:
    """Return the record of a suite."""
    fields: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    return Record(**fields)
