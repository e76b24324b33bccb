"""The version of the program, as its package was installed."""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("quire")
except metadata.PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "unknown (not installed)"
