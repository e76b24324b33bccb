"""What tables do with names that are hard to print."""

from __future__ import annotations

import pytest

from quire.cli.output import print_table


def test_a_row_is_a_line_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("log", "epoch"), [("tab\tline\n\x1b[31m日本 ü", 3)], empty="")
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["log", "epoch"]
    assert row.split() == [r"tab\tline\n\x1b[31m日本", "ü", "3"]
