"""The version of the program, as its package was installed, and the formats that it speaks."""

from __future__ import annotations

from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final, NamedTuple

try:
    __version__ = metadata.version("quire")
except metadata.PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "unknown (not installed)"


def is_compiled() -> bool:
    """Return whether the modules of an append are extensions.

    docs/decisions/0068-compiled-wheels.md.
    """
    found = find_spec("quire.run")
    origin = None if found is None else found.origin
    return origin is not None and origin.endswith(tuple(EXTENSION_SUFFIXES))


class Speaks(NamedTuple):
    """The feature levels that a program speaks (quire/metastore/levels.py)."""

    lowest: int
    highest: int


SPEAKS: Final = Speaks(1, 2)
"""The levels of this program."""
