"""What `quire ledger inventory` prints, and when it is no success."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from quire.cli.root import main
from quire.client import Client
from quire.entry import BookieId, DigestKind, LedgerId
from quire.errors import BookieUnavailableError, NoSuchLedgerError, QuireError
from quire.ledger.inventory import Inventory, compare
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.ranges import Ranges

ANSWERS: dict[BookieId, Ranges | QuireError] = {
    "b0": [(0, 99)],
    "b1": [(0, 9), (20, 20)],
    "b2": BookieUnavailableError("b2", "connection refused"),
}


def shown(
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[BookieId, Ranges | QuireError],
    *options: str,
    is_closed: bool = True,
) -> Result:
    metadata = LedgerMetadata(
        ledger=7,
        replication=Replication(3, 3, 2),
        digest=DigestKind.CRC32C,
        key_check="k",
        fragments=(Fragment(0, ("b0", "b1", "b2")),),
        state=LedgerState.CLOSED if is_closed else LedgerState.OPEN,
        last_entry=99 if is_closed else None,
        length=0 if is_closed else None,
    )

    async def answer(_: Client, ledger: LedgerId) -> Inventory:
        assert ledger == 7
        return compare(metadata, answers)

    monkeypatch.setattr(Client, "ledger_inventory", answer)
    command = ["ledger", "inventory", "7", "--store", "memory:", *options]
    return CliRunner().invoke(main, command)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_table_by_bookie_and_one_of_entries_with_too_few_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = shown(monkeypatch, ANSWERS)
    assert result.exit_code == 0
    assert rows(result.stdout) == [
        ["bookie", "holds", "lacks"],
        ["b0", "0-99", "-"],
        ["b1", "0-9,", "20", "10-19,", "21-99"],
        ["b2", "no", "answer", "unknown"],
        [],
        ["entries", "copies", "unknown"],
        ["0-9", "2", "of", "3", "1"],
        ["10-19", "1", "of", "3", "1"],
        ["20", "2", "of", "3", "1"],
        ["21-99", "1", "of", "3", "1"],
    ]
    assert result.stderr == "bookie b2 is unavailable: connection refused\n"


def test_json_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    result = shown(monkeypatch, ANSWERS, "--json")
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert (said["ledger"], said["state"], said["compared_to"]) == (7, "closed", 99)
    assert said["bookies"][1] == {
        "bookie": "b1",
        "held": [[0, 9], [20, 20]],
        "missing": [[10, 19], [21, 99]],
        "error": None,
    }
    assert said["bookies"][2]["error"] == "bookie b2 is unavailable: connection refused"
    assert said["shortages"][0] == {"first": 0, "last": 9, "copies": 2, "unknown": 1}


def test_entries_that_nobody_holds_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {name: [(0, 49), (60, 99)] for name in ("b0", "b1", "b2")}
    result = shown(monkeypatch, {**answers})
    assert result.exit_code == 9
    assert ["50-59", "0", "of", "3", "0"] in rows(result.stdout)
    assert "no bookie that answered holds 50-59" in result.stderr


def test_a_silent_bookie_is_no_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {**{name: [(0, 49)] for name in ("b0", "b1")}, "b2": ANSWERS["b2"]}
    result = shown(monkeypatch, {**answers})
    assert result.exit_code == 9
    assert "no bookie that answered holds 50-99; no answer from b2" in result.stderr


def test_a_whole_ledger_is_said_to_be_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {name: [(0, 99)] for name in ("b0", "b1", "b2")}
    result = shown(monkeypatch, {**answers})
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("Entries 0 to 99 have all 3 copies.\n")


def test_of_an_open_ledger_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = shown(monkeypatch, ANSWERS, is_closed=False)
    assert result.exit_code == 0
    assert result.stdout.endswith("There is nothing to compare.\n")
    assert "is not closed" in result.stderr


def test_of_many_ranges_the_first_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[BookieId, Ranges | QuireError] = {
        "b0": [(0, 99)],
        "b1": [(entry, entry) for entry in range(0, 100, 2)],
        "b2": [(0, 99)],
    }
    result = shown(monkeypatch, answers)
    assert "0, 2, 4, 6, 8, 10, 12, 14 and 42 ranges more" in result.stdout
    assert result.stdout.endswith("and 30 ranges more; --json gives them all\n")
    assert len(json.loads(shown(monkeypatch, answers, "--json").stdout)["shortages"]) == 50


def shown_all(monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    """Ledger 7 is whole, 8 is short, 9 was deleted meanwhile."""
    whole: dict[BookieId, Ranges | QuireError] = {name: [(0, 99)] for name in ("b0", "b1", "b2")}

    async def listed(_: Client) -> list[LedgerId]:
        return [7, 8, 9]

    async def answer(_: Client, ledger: LedgerId) -> Inventory:
        if ledger == 9:
            raise NoSuchLedgerError(9)
        metadata = LedgerMetadata(
            *(ledger, Replication(3, 3, 2), DigestKind.CRC32C, "k"),
            *((Fragment(0, ("b0", "b1", "b2")),), LedgerState.CLOSED, 99, 0),
        )
        return compare(metadata, whole if ledger == 7 else ANSWERS)

    async def whole_ledgers(_: Client, ledgers: list[LedgerId], up: object) -> set[LedgerId]:
        assert (ledgers, up) == ([7, 8, 9], None)
        return {7}

    monkeypatch.setattr(Client, "list_ledgers", listed)
    monkeypatch.setattr(Client, "whole_ledgers", whole_ledgers)
    monkeypatch.setattr(Client, "ledger_inventory", answer)
    command = ["ledger", "inventory", "--store", "memory:", *options]
    return CliRunner().invoke(main, command)


def test_all_ledgers_are_compared_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    result = shown_all(monkeypatch, "--all")
    assert result.exit_code == 0
    assert rows(result.stdout)[1:] == [
        ["7", "closed", "100", "0", "all", "3"],
        ["8", "closed", "100", "100", "1", "of", "3"],
    ]
    assert "1 of 2 ledgers are short" in result.stderr


def test_only_short_ones_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    result = shown_all(monkeypatch, "--all", "--short", "--json")
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["ledger"] == 8


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "of --all"), (["7", "--all"], "of --all"), (["7", "--short"], "give --all")],
)
def test_one_ledger_or_all(monkeypatch: pytest.MonkeyPatch, options: list[str], said: str) -> None:
    result = shown_all(monkeypatch, *options)
    assert (result.exit_code, said in result.stderr) == (2, True)
