"""Every golden file is read to the values it was written from, and every format has one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quire.wire import bookie_pb2 as pb
from tests.golden.golden import FILES, Golden
from tests.golden.table import GOLDEN

PACKAGE = Path(__file__).resolve().parents[2] / "quire"
DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text("utf-8")

NO_FORMATS = {
    "Metadata records",  # its kinds are listed one by one
    "State files",
    "Cluster and counter of ids",  # fields of kinds
    "Ledger",
    "Log",
    "Pages of a manifest",
    "Snapshot",
    "States after a crash",
    "Versions",
    "Vectors",
}
"""Sections about formats that other sections name, or that the table lists by kind."""


def sections() -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each section."""
    parts = re.split(r"^##+ (.+)$", DOCUMENT, flags=re.MULTILINE)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def named() -> set[str]:
    """Return every format that docs/formats.md names."""
    texts = dict(sections())

    def rows(section: str, pattern: str) -> list[str]:
        return re.findall(pattern, texts[section], re.MULTILINE)

    found = set(texts) - NO_FORMATS
    found |= {f"Frame: `{kind}`" for kind in rows("Frame", r"^\| `([^`]+)` \| \d")}
    found |= {f"Frame: {name}" for name in rows("Frame", r"^\*\*(.+)\*\*:")}
    found |= {f"Batch: column {kind}" for kind in rows("Batch", r"^\| (\d+) \| ")}
    found |= {*rows("Metadata records", r"^\| `/quire[^|]*\| (`[^`]+`)"), "`restoring`"}
    found |= {f"State files: {kind}" for kind in rows("State files", r"^\| `(.+?)` \| `")}
    found |= {f"Journal: {each}" for each in rows("Journal", r"^\| (\d+ [A-Z]+) \|")}
    return found | {f"Wire: {name}" for name in (*pb.DESCRIPTOR.message_types_by_name, "greeting")}


def test_the_document_is_understood() -> None:
    found = named()
    assert {"Frame", "Run", "`log`", "`part`", "Journal: 4 MARK", "Batch: column 5"} <= found
    assert {"State files: cookie", "State files: repair-unfinished", "Wire: AddRun"} <= found
    assert {"Frame: `none`", "Frame: LAC packet", "Event files"} <= found


def test_every_format_has_a_golden_file() -> None:
    assert named() == {name for each in GOLDEN for name in each.covers}


def test_every_kind_of_record_in_the_program_is_named() -> None:
    """A kind that docs/formats.md forgets would need no golden file."""
    texts = [path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))]
    kinds = {kind for text in texts for kind in re.findall(r'RecordFormat\(\s*"([a-z-]+)"', text)}
    assert {"log", "log-page", "log-jobs", "standing", "moves", "bookie", "ledger"} <= kinds
    covered = {name for each in GOLDEN for name in each.covers}
    missing = {kind for kind in kinds if not {f"`{kind}`", f"State files: {kind}"} & covered}
    assert missing == set()


def test_every_file_is_in_the_table() -> None:
    assert sorted(path.name for path in FILES.iterdir()) == sorted(each.name for each in GOLDEN)


@pytest.mark.parametrize("each", GOLDEN, ids=lambda each: each.name)
def test_it_is_read_to_the_same_values(each: Golden) -> None:
    assert each.read(each.data) == each.value
