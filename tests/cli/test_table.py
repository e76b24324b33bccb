"""What `quire log table` asks for, and what it prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

import quire.admin
from quire.admin import TableUpdate
from quire.cli.root import main


def run(monkeypatch: pytest.MonkeyPatch, *options: str, appended: int = 3) -> Result:
    async def update(client: Any, name: str, table: str, **given: Any) -> TableUpdate:
        given["on_progress"](appended, appended)
        assert given["catalog"] == "lake"
        assert given["properties"] == {"type": "sql", "uri": "sqlite:///a=b"}
        return TableUpdate(table, name, "id", 2, 2 + appended, appended, 7)

    monkeypatch.setattr(quire.admin, "update_table", update)
    call = ["log", "table", "orders", "--to", "sales.orders", "--store", "memory:"]
    catalog = ["--catalog", "lake", "--property", "type=sql", "--property", "uri=sqlite:///a=b"]
    return CliRunner().invoke(main, [*call, *catalog, *options])


def test_an_update_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(monkeypatch)
    text = "Table sales.orders has the records 2 to 4 of log orders; 3 were added now."
    assert (found.exit_code, found.stderr.strip()) == (0, text)
    empty = run(monkeypatch, appended=0)
    assert empty.stderr.strip() == "Table sales.orders has no record: log orders has none."
    assert json.loads(run(monkeypatch, "--json").stdout) == {
        "table": "sales.orders",
        "log": "orders",
        "log_id": "id",
        "first": 2,
        "end": 5,
        "appended": 3,
        "snapshot_id": 7,
    }


@pytest.mark.parametrize("given", ["secret", "=secret"])
def test_a_property_has_a_name_and_errors_do_not_repeat_it(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    found = run(monkeypatch, "--property", given)
    assert found.exit_code == 2
    assert "expected NAME=VALUE" in found.output
    assert "secret" not in found.output
