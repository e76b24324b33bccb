"""What is said of logs and ledgers: of those that others delete meanwhile, and of trimmed ones."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from click.testing import CliRunner

from quire.cli.root import main
from quire.client import Client
from quire.entry import DigestKind
from quire.errors import CorruptRecordError, NoSuchCursorError
from quire.ledger.info import LedgerInfo, info_of
from quire.ledger.metadata import Fragment, LedgerMetadata
from quire.ledger.quorum import Replication
from quire.log.directory import LogDirectory
from quire.log.maintenance.cursors import LogCursors
from quire.log.manifest.manifest import LogManifest, SegmentEnd
from quire.view.users import UsersView


def returning(value: object) -> Any:
    async def answer(*_: object) -> object:
        return value

    return answer


@pytest.mark.parametrize(
    ("command", "listing", "gone"),
    [(("log", "list"), "list_logs", "gone"), (("ledger", "list"), "list_ledgers", 7)],
)
def test_what_is_deleted_meanwhile_is_left_out(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], listing: str, gone: str | int
) -> None:
    monkeypatch.setattr(Client, listing, returning([gone]))
    result = CliRunner().invoke(main, [*command, "--json", "--store", "memory:"])
    assert (result.exit_code, result.output) == (0, "")


def test_a_cursor_that_is_deleted_meanwhile_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: LogCursors, name: str) -> None:
        raise NoSuchCursorError("orders", name)

    gone = Mock()
    gone.name = "gone"
    monkeypatch.setattr(LogCursors, "list", returning([gone]))
    monkeypatch.setattr(LogCursors, "find", find)
    command = ["log", "cursor", "list", "orders", "--store", "memory:"]
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.output) == (0, "It has no cursors.\n")


def test_a_log_that_is_rebuilt_has_the_records_that_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = LogManifest("orders", "id", 5, next_segment=2, first_offset=5)
    begun = empty.take_over({}, 7, 6).append_segment(8, 7)
    one = begun.seal_segment(2, SegmentEnd(0, 1, 1, 10, 0))
    manifest = one.seal_segment(3, SegmentEnd(0, 2, 2, 20, 0))
    monkeypatch.setattr(LogDirectory, "rebuild", AsyncMock(return_value=manifest))
    command = ["log", "rebuild", "orders", "--json", "--store", "memory:"]
    said = json.loads(CliRunner().invoke(main, command).output)
    assert said == {"log": "orders", "segments": 2, "records": 3, "first_position": "2.0.0"}


SOUND = LedgerMetadata(2, Replication(1, 1, 1), DigestKind.CRC32C, "", (Fragment(0, ("b",)),))


@pytest.mark.parametrize("command", [["list"], ["show", "2"]])
def test_a_ledger_may_have_a_time_that_no_calendar_has(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    strange = info_of(replace(SOUND, created_ms=2**62))
    monkeypatch.setattr(Client, "list_ledgers", returning([2]))
    monkeypatch.setattr(Client, "ledger_info", returning(strange))
    monkeypatch.setattr("quire.cli.ledger.users_of_ledger", AsyncMock(return_value=UsersView()))
    result = CliRunner().invoke(main, ["ledger", *command, "--json", "--store", "memory:"])
    assert (result.exit_code, result.stderr) == (0, "")
    said = json.loads(result.stdout)
    assert (said["ledger"], said["created"]) == (2, None)


def test_a_ledger_whose_record_is_damaged_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def info(_: Client, ledger: int) -> LedgerInfo:
        if ledger == 1:
            raise CorruptRecordError("/ledgers/1", "checksum does not match")
        return info_of(SOUND)

    monkeypatch.setattr(Client, "list_ledgers", returning([1, 2]))
    monkeypatch.setattr(Client, "ledger_info", info)
    result = CliRunner().invoke(main, ["ledger", "list", "--json", "--store", "memory:"])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["ledger"], row["state"]) for row in rows] == [(1, "unreadable"), (2, "open")]
    assert result.exit_code == 9
    assert "checksum does not match" in result.stderr
    table = CliRunner().invoke(main, ["ledger", "list", "--store", "memory:"])
    assert "unreadable" in table.stdout
    assert table.exit_code == 9
