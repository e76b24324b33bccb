"""Check the specification at larger bounds than the tests do: `python -m tests.spec` (a minute)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.spec import bounds, log_bounds, page_bounds
from tests.spec.checker import Model, Outcome, check
from tests.spec.ledger import LedgerModel
from tests.spec.log import LogModel
from tests.spec.pages import PageModel


def _rows() -> Iterator[tuple[str, Model[Any], Outcome]]:
    for name, row in {**bounds.PASSING, **bounds.THOROUGH}.items():
        yield name, LedgerModel(row.bounds), row.outcome
    for name, each in {**log_bounds.PASSING, **log_bounds.THOROUGH}.items():
        yield f"log: {name}", LogModel(each.bounds), each.outcome
    for name, paged in {**page_bounds.PASSING, **page_bounds.THOROUGH}.items():
        yield f"pages: {name}", PageModel(paged.bounds), paged.outcome


def main() -> int:
    """Check every table of bounds; return how many outcomes differ from it."""
    differing = 0
    for name, model, expected in _rows():
        began = time.monotonic()
        found = check(model)
        seconds = time.monotonic() - began
        differing += found != expected
        verdict = "as expected" if found == expected else f"EXPECTED {expected}"
        print(f"{name}: {found.distinct:,} states, {seconds:.1f} s, {verdict}", flush=True)
    return differing


if __name__ == "__main__":
    raise SystemExit(main())
