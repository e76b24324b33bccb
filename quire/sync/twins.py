"""What a blocking class takes over from its original: the docstrings, and how it is shown.

The source of a twin says "See `Log.append`."; `help` and the reference show the whole docstring,
without the words of asyncio.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

REFERENCE: Final = "See `"

_ASYNC: Final = (
    (re.compile(r"\basync (for|with)\b"), r"\1"),
    (re.compile(r"\bawait (?=[a-z_.]+\()"), ""),
)


def twin_of(original: type, held: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a blocking class that holds its original as attribute `held`."""

    def take(twin: type[T]) -> type[T]:
        for name, member in vars(twin).items():
            if not name.startswith("_") and _doc(member).startswith(REFERENCE):
                member.__doc__ = blocking_doc(inspect.getattr_static(original, name))
        twin.__doc__ = f"{inspect.cleandoc(twin.__doc__ or '')}\n\n{blocking_doc(original)}"
        if "__repr__" not in vars(twin):
            setattr(twin, "__repr__", _shown(held))  # noqa: B010
        return twin

    return take


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
