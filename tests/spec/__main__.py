"""Check the specification at larger bounds than the tests do: `python -m tests.spec` (a minute)."""

from __future__ import annotations

import time

from tests.spec.bounds import PASSING, THOROUGH
from tests.spec.checker import check
from tests.spec.ledger import LedgerModel


def main() -> int:
    """Check every table of bounds; return how many outcomes differ from it."""
    differing = 0
    for name, (bounds, expected) in {**PASSING, **THOROUGH}.items():
        began = time.monotonic()
        found = check(LedgerModel(bounds))
        seconds = time.monotonic() - began
        differing += found != expected
        verdict = "as expected" if found == expected else f"EXPECTED {expected}"
        print(f"{name}: {found.distinct:,} states, {seconds:.1f} s, {verdict}", flush=True)
    return differing


if __name__ == "__main__":
    raise SystemExit(main())
