"""The list of edits does not rot: each applies to the code of today, and its tests are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.__main__ import BEGIN, END, PAGE, ROOT, renew, row
from tests.mutations.catalog import EDITS
from tests.mutations.edit import Edit


@pytest.mark.parametrize("edit", EDITS, ids=lambda each: each.name)
def test_an_edit_applies_once_and_is_a_program(edit: Edit) -> None:
    text = edit.edited(ROOT)
    assert text != (ROOT / edit.file).read_text()
    compile(text, edit.file, "exec")
    files = [each for each in edit.tests if each.startswith("tests/")]
    assert files
    assert all((ROOT / each.partition("::")[0]).exists() for each in files)


@pytest.mark.parametrize("old", ["a = 1\n", "c = 3\n"], ids=["twice", "never"])
def test_an_edit_that_fits_no_single_place_is_refused(tmp_path: Path, old: str) -> None:
    (tmp_path / "code.py").write_text("a = 1\na = 1\nb = 2\n")
    with pytest.raises(ValueError, match="the old text occurs"):
        Edit("it", "code.py", old, "", ()).edited(tmp_path)
    assert Edit("it", "code.py", "b = 2\n", "", ()).edited(tmp_path) == "a = 1\na = 1\n"


def test_the_names_differ_and_the_page_has_the_list(tmp_path: Path) -> None:
    assert len({edit.name for edit in EDITS}) == len(EDITS)
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    renew(page, map(row, EDITS))
    assert page.read_text() == PAGE.read_text()
    assert BEGIN in PAGE.read_text()
    assert END in PAGE.read_text()
