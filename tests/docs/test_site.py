"""The site's navigation names every page, and its links out of `docs` lead to pages of the site.

`make docs` builds the site itself; this needs no mkdocs.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from docs import hooks

ROOT = Path(__file__).resolve().parents[2]
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
KINDS = ["Tutorial", "How-to", "Reference", "Explanation"]
GENERATED = re.compile(r"^::: (quire[\w.]*)$", re.MULTILINE)


def named(entry: Any) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from named(each)


NAMED = list(named(SITE["nav"]))


def test_the_navigation_has_four_kinds_of_pages() -> None:
    assert [key for entry in SITE["nav"] if isinstance(entry, dict) for key in entry] == KINDS


def test_the_navigation_names_every_page_once() -> None:
    inside = [page for page in NAMED if not page.startswith(hooks.OUTSIDE)]
    written = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    decisions = {str(path) for path in written if path.parts[0] == "decisions"}
    assert sorted(inside) == sorted({str(path) for path in written} - decisions | {INDEX})


INDEX = "decisions/README.md"


def test_the_navigation_names_no_page_that_is_missing() -> None:
    for page in NAMED:
        assert (ROOT / hooks.repository_path(page)).is_file(), page


@pytest.mark.parametrize(
    ("site", "path"),
    [
        ("cli.md", "docs/cli.md"),
        ("repository/tutorial/README.md", "tutorial/README.md"),
        ("repository/quire/observer.py.code.md", "quire/observer.py"),
    ],
)
def test_a_file_and_its_page_name_each_other(site: str, path: str) -> None:
    assert hooks.repository_path(site) == path
    assert hooks.site_path(path) == site


@pytest.mark.parametrize(
    ("site", "link", "moved"),
    [
        ("index.md", "(../README.md#use-it)", "(repository/README.md#use-it)"),
        ("how-to/wal.md", "(../cli.md)", "(../cli.md)"),
        ("index.md", "(../tutorial/dice.py)", "(repository/tutorial/dice.py.code.md)"),
        ("repository/README.md", "(docs/cli.md)", "(../cli.md)"),
        ("repository/README.md", "(docs/decisions)", "(../decisions/README.md)"),
        ("index.md", "(nowhere.md)", "(nowhere.md)"),
        ("index.md", "(https://example.org/a.md)", "(https://example.org/a.md)"),
    ],
)
def test_a_link_leads_to_a_page_of_the_site(site: str, link: str, moved: str) -> None:
    assert hooks.rewrite(f"see [it]{link}", site) == f"see [it]{moved}"


def test_pages_outside_docs_are_found_through_each_other() -> None:
    found = hooks.outside(["docs/index.md"])
    assert "README.md" in found
    assert "STYLE.md" in found, "the README names it"


def references() -> list[str]:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    return sorted(name for page in pages for name in GENERATED.findall(page.read_text()))


def test_every_public_module_has_a_reference_page() -> None:
    from tests.docs.test_docstrings import MODULES

    assert references() == sorted(module.__name__ for module in MODULES)


def test_the_page_of_options_names_a_command_of_click() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    (module,), (name,) = (re.findall(rf":{key}: (\S+)", text) for key in ("module", "command"))
    assert isinstance(getattr(importlib.import_module(module), name), click.Command)
