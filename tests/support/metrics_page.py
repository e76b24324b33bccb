"""The page of all metrics: `python -m tests.support.metrics_page` renews its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quire.metrics.table import markdown

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
MARK: Final = "<!-- made by `make metrics` from here on -->\n"


def renewed(text: str) -> str:
    """Return the page with the tables as they should be."""
    head, mark, _ = text.partition(MARK)
    assert mark, f"{PAGE} has lost its mark"
    return f"{head}{mark}\n{markdown()}"


def main() -> None:
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
