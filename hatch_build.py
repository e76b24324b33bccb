"""Builds wheels with compiled modules, when `QUIRE_COMPILED=1`; else all of quire is plain Python.

    QUIRE_COMPILED=1 pip wheel --no-deps .

compiling.py has the modules, and what they must be like.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from compiling import compile_modules

SWITCH: Final = "QUIRE_COMPILED"


class CompiledBuild(BuildHookInterface):
    """Puts the extensions into a wheel; does nothing without the switch, and for editable ones."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the compilation needs."""
        return ["mypy[mypyc]>=2.4,<2.5", "setuptools>=77"] if is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files that the wheel has besides the sources."""
        if not is_wanted():
            return
        if version == "editable":
            raise SystemExit(f"{SWITCH}=1 is for wheels: an editable installation stays plain")
        self._made = tempfile.mkdtemp(prefix="quire-compiled-")
        try:
            extensions = compile_modules(Path(self.root), Path(self._made))
        except BaseException:
            shutil.rmtree(self._made)
            raise
        for extension in extensions:
            inside = extension.relative_to(Path(self._made, "made"))
            build_data["force_include"][str(extension)] = str(inside)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the compiler left."""
        if made := getattr(self, "_made", None):
            shutil.rmtree(made, ignore_errors=True)


def is_wanted() -> bool:
    """Return whether wheels have compiled modules."""
    wish = os.environ.get(SWITCH, "")
    if wish not in ("", "0", "1"):
        raise SystemExit(f"{SWITCH} is {wish!r}: set it to 1, or leave it out")
    return wish == "1"
