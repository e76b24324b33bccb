"""The public names: pinned, documented, and nothing but re-exports."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import quire

PUBLIC = {
    "BEGINNING",
    "LATEST",
    "NO_ENTRY",
    "Application",
    "Applied",
    "AtCursor",
    "AtTxid",
    "BookieAddress",
    "BookieInfo",
    "Client",
    "Compression",
    "Cursor",
    "CursorState",
    "DigestKind",
    "Election",
    "Entry",
    "Fragment",
    "Gap",
    "Keyring",
    "Leader",
    "Leadership",
    "LedgerMetadata",
    "LedgerOptions",
    "LedgerReader",
    "LedgerState",
    "LedgerWriter",
    "Log",
    "LogCursors",
    "LogManifest",
    "LogOptions",
    "LogReader",
    "NumberedWriter",
    "Position",
    "QuireError",
    "Record",
    "Replication",
    "Role",
    "Segment",
    "Service",
    "ServiceOptions",
    "Span",
    "ProducerSequence",
    "LogEnd",
    "connect",
}
"""Taking a name off this list breaks somebody's program: say so in the changelog."""


def test_the_public_names_are_these() -> None:
    assert set(quire.__all__) == PUBLIC
    assert len(quire.__all__) == len(PUBLIC)


def test_the_package_only_re_exports() -> None:
    tree = ast.parse(Path(inspect.getfile(quire)).read_text(encoding="utf-8"))
    kinds = {type(node).__name__ for node in tree.body}
    assert kinds == {"Expr", "ImportFrom", "Assign"}


@pytest.mark.parametrize("name", sorted(PUBLIC - {"BEGINNING", "LATEST", "NO_ENTRY"}))
def test_a_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(quire, name)), name


CLASSES = [quire.Client, quire.LedgerWriter, quire.LedgerReader, quire.Log, quire.LogReader]


def methods() -> list[tuple[type, str]]:
    return [
        (owner, name)
        for owner in [*CLASSES, quire.Election, quire.Leadership]
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]


@pytest.mark.parametrize(("owner", "name"), methods(), ids=str)
def test_a_public_method_is_documented(owner: type, name: str) -> None:
    assert getattr(owner, name).__doc__, f"{owner.__name__}.{name}"
