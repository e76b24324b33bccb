"""Every link of every page leads somewhere: to a file, and to a heading of it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOBS = (
    "*.md",
    "docs/**/*.md",
    "tutorial/**/*.md",
    "examples/**/*.md",
    "spec/*.md",
    "changes/*.md",
)
PAGES = sorted({path for glob in GLOBS for path in ROOT.glob(glob)})

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def prose(path: Path) -> str:
    return FENCED.sub("", path.read_text(encoding="utf-8"))


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as a code host makes them."""
    titles = (title.replace("`", "").lower() for title in HEADING.findall(prose(path)))
    return {re.sub(r"[^\w\s-]", "", title).strip().replace(" ", "-") for title in titles}


def links(path: Path) -> list[str]:
    found = LINK.findall(SPAN.sub("", prose(path)))
    return [link for link in found if not link.startswith(("http://", "https://", "mailto:"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    fragment = page.parent.name == "changes" and page.name != "README.md"
    folder = ROOT if fragment else page.parent  # its text goes into CHANGELOG.md
    for link in links(page):
        target, _, anchor = link.partition("#")
        path = (folder / target).resolve() if target else page
        assert path.exists(), f"{link}: there is nothing there"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{link}: the page has no such heading"


def test_links_are_found() -> None:
    assert len(links(ROOT / "README.md")) > 20
    assert "exit-codes" in anchors(ROOT / "docs" / "cli.md")
