"""The commands that change what healing does: a dry run says the same, and changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from quire.cli.root import main
from quire.healing.switch import read_switch
from quire.ledger.metadata import Replica
from quire.metastore import create_store, open_store
from quire.metastore.layout import standing_path
from quire.metastore.standing import SERVING
from quire.metastore.store import MetadataStore
from quire.repair.assignments import Assignment
from quire.repair.orders import stored_orders

T = TypeVar("T")
SILENT, TARGET = "b0", "b1"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store that knows a bookie which is not registered, and a request to another one."""
    uri = f"sqlite://{tmp_path}/metadata.db"

    async def fill() -> None:
        made = await create_store(uri)
        await made.create(standing_path(SILENT), SERVING.encode())
        wanted = Assignment(7, (Replica(0, 0, SILENT, TARGET),))
        await stored_orders(made, TARGET).add([wanted, Assignment(8)])
        await made.close()

    asyncio.run(fill())
    return uri


def read(uri: str, look: Callable[[MetadataStore], Awaitable[T]]) -> T:
    async def main() -> T:
        opened = await open_store(uri)
        try:
            return await look(opened)
        finally:
            await opened.close()

    return asyncio.run(main())


def said(store: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    with pytest.raises(SystemExit) as ended:
        main(["healing", *arguments, "--store", store, "--json"])
    assert ended.value.code == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_dry_pause_and_a_dry_resume(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    pause = ("pause", "--reason", "work", "--until", "1h")
    (dry,) = said(store, capsys, *pause, "--dry-run")
    assert (dry["pause"]["reason"], dry["dry_run"]) == ("work", True)
    assert read(store, read_switch).pause is None
    said(store, capsys, *pause)
    assert said(store, capsys, "resume", "--dry-run") == [{"pause": None, "dry_run": True}]
    assert read(store, read_switch).pause is not None
    said(store, capsys, "resume")
    assert read(store, read_switch).pause is None


def test_a_dry_go_names_the_bookies(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    dry = said(store, capsys, "go", "--dry-run")
    assert dry == [{"bookies": [SILENT], "dry_run": True}]
    assert read(store, read_switch).go is None
    said(store, capsys, "go")
    given = read(store, read_switch).go
    assert given is not None
    assert given.bookies == (SILENT,)


def test_requests_are_listed_by_reason_and_cancelled(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lost, hole = said(store, capsys, "list")
    assert (lost["ledger"], lost["reason"], lost["places"]) == (7, "lost", [[0, 0, SILENT]])
    assert (hole["ledger"], hole["reason"], hole["places"]) == (8, "holes", [])
    assert said(store, capsys, "list", "--reason", "holes") == [hole]
    assert said(store, capsys, "list", "--reason", "drain") == []
    assert said(store, capsys, "cancel", "--dry-run") == [{"cancelled": 2, "dry_run": True}]
    assert said(store, capsys, "list") == [lost, hole]
    assert said(store, capsys, "cancel") == [{"cancelled": 2, "dry_run": False}]
    assert said(store, capsys, "list") == []
