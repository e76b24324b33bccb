"""An extension of griffe: the sections that quire's docstrings have beside Google's.

griffe takes `Guarantees: first line` for a box with that line as its title. The text belongs
inside the box, so it moves to the line after the heading.
"""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

SECTION: Final = re.compile(r"^(Cancellation|Guarantees): +(?=\S)", re.MULTILINE)


def moved(text: str) -> str:
    """Return a docstring whose own sections begin on the line after their headings."""
    return SECTION.sub(r"\1:\n    ", text)


class Sections(griffe.Extension):
    """Has griffe read the own sections of each docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = moved(obj.docstring.value)
