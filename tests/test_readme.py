"""The README names targets of make that exist. tests/docs runs its programs and commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    make (\w+)", README, re.MULTILINE)


def test_its_picture_is_there_small_and_as_wide_as_it_was_drawn() -> None:
    """`make picture` draws it from the planted cluster of the console's tests."""
    assert "](docs/console.png)" in README
    data = (ROOT / "docs" / "console.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 1280
    assert len(data) < 150_000


@pytest.mark.parametrize("target", COMMANDS)
def test_every_make_target_it_names_exists(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target
