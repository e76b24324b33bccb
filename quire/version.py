"""The version of the program, as its package was installed, and the formats that it speaks."""

from __future__ import annotations

from importlib import metadata
from typing import Final, NamedTuple

try:
    __version__ = metadata.version("quire")
except metadata.PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "unknown (not installed)"


class Speaks(NamedTuple):
    """The feature levels that a program speaks (quire/metastore/levels.py)."""

    lowest: int
    highest: int


SPEAKS: Final = Speaks(1, 2)
"""The levels of this program."""
