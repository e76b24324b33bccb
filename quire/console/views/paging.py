"""Rows in pages of 100, so that the work for a page has a bound. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

ROWS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page of how many this is. Pages count from 1."""

    page: int
    pages: int
    total: int

    @property
    def is_first(self) -> bool:
        """Whether no page is before it."""
        return self.page <= 1

    @property
    def is_last(self) -> bool:
        """Whether no page is after it."""
        return self.page >= self.pages


def page_of(rows: Sequence[T], page: int) -> tuple[Paging, Sequence[T]]:
    """Return a page of rows. A number outside is the nearest page that exists."""
    pages = max(1, -(-len(rows) // ROWS_MAX))
    number = min(max(1, page), pages)
    first = (number - 1) * ROWS_MAX
    return Paging(number, pages, len(rows)), rows[first : first + ROWS_MAX]
