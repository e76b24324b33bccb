"""Examples of a property: many in `make test`, a few in the quick tests."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(count: int, **more: Any) -> settings:
    """Return settings with `count` examples, or as many as any property has in the quick tests."""
    default = settings().max_examples
    is_quick = default < settings.get_profile("quire").max_examples
    return settings(max_examples=min(count, default) if is_quick else count, **more)
