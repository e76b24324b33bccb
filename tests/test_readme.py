"""The README names targets of make that exist. tests/docs runs its programs and commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    make (\w+)", README, re.MULTILINE)


@pytest.mark.parametrize("target", COMMANDS)
def test_every_make_target_it_names_exists(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target
