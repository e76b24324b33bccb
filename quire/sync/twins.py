"""Docstrings and `repr` that a blocking class or function takes over from its original.

The source of a twin says "See `Log.append`."; `help` and the reference show the whole docstring,
without the words of asyncio. Further text in the source of the twin stays, before the sections.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

REFERENCE: Final = "See `"

_ASYNC: Final = (
    (re.compile(r"\basync (for|with)\b"), r"\1"),
    (re.compile(r"\bawait (?=[a-z_.]+\()"), ""),
)

_SEE: Final = re.compile(r"See `[^`]+`\.?\s*")
_SECTION: Final = re.compile(
    r"^(Args|Returns|Yields|Raises|Cancellation|Guarantees):", re.MULTILINE
)


def twin_of(original: type, held: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a blocking class that holds its original as attribute `held`."""

    def take(twin: type[T]) -> type[T]:
        for name, member in vars(twin).items():
            if not name.startswith("_") and _doc(member).startswith(REFERENCE):
                member.__doc__ = _merged(member, inspect.getattr_static(original, name))
        twin.__doc__ = f"{inspect.cleandoc(twin.__doc__ or '')}\n\n{blocking_doc(original)}"
        if "__repr__" not in vars(twin):
            setattr(twin, "__repr__", _shown(held))  # noqa: B010
        return twin

    return take


def twin_of_function(original: Callable[..., object]) -> Callable[[F], F]:
    """Return a decorator for a blocking function whose source says "See" its original."""

    def take(twin: F) -> F:
        twin.__doc__ = _merged(twin, original)
        return twin

    return take


def _merged(twin: object, original: object) -> str:
    """Return the original's docstring with the text that the twin adds before its sections."""
    doc, added = blocking_doc(original), _SEE.sub("", inspect.cleandoc(_doc(twin)), count=1)
    if not added:
        return doc
    section = _SECTION.search(doc)
    at = section.start() if section else len(doc)
    return "\n\n".join(filter(None, (doc[:at].rstrip(), added, doc[at:])))


def blocking_doc(member: object) -> str:
    """Return a docstring of the asynchronous API as it holds for its blocking twin."""
    doc = inspect.cleandoc(_doc(member))
    for pattern, text in _ASYNC:
        doc = pattern.sub(text, doc)
    return doc


def _doc(member: object) -> str:
    return getattr(member, "__doc__", None) or ""


def _shown(held: str) -> Callable[[Any], str]:
    def shown(self: Any) -> str:
        return f"<{type(self).__name__}: {getattr(self, held)!r}>"

    return shown
