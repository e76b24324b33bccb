"""Errors of commands: with --json an object on standard error, and the remedy of a command."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pytest

from quire import errors
from quire.cli.remedies import remedy
from quire.cli.root import main


def call(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [*arguments])


@pytest.mark.parametrize("place", ["before", "after"])
def test_an_error_is_an_object_on_standard_error(place: str) -> None:
    command = ["log", "read", "orders", "--store", "nowhere"]
    done = call(*(["--json", *command] if place == "before" else [*command, "--json"]))
    (line,) = done.stderr.splitlines()
    found = json.loads(line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert (found["error"], found["exit_code"]) == ("ConfigurationError", 2)
    assert "nowhere" in found["message"]
    assert found["remedy"] is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("log", "read"), "Missing argument 'NAME'."),
        (("log", "reed", "orders"), "No such command 'reed'."),
        (("log", "read", "orders", "--limit", "many"), "'many' is not a valid integer range."),
        (("ledger", "show", "seven"), "'seven' is not a ledger's id: write a number"),
        (("ledger", "show", "²"), "'²' is not a ledger's id: write a number"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_an_object_too(arguments: tuple[str, ...], text: str) -> None:
    done = call(*arguments, "--json")
    found = json.loads(done.stderr)
    assert (done.exit_code, done.stdout, found["exit_code"]) == (2, "", 2)
    assert text in found["message"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("ledger show", "is not a ledger's id: write a number below 2^63"),
        ("log trim orders", "is not a position: write an offset"),
        ("log cursor reset orders billing --to", "is not a position: write an offset"),
        ("dlog cat /messaging/orders --from", "txid:N begins at a transaction id"),
    ],
)
@pytest.mark.parametrize("digits", ["9" * 23, "9" * 5000], ids=len)
def test_a_number_of_too_many_digits_is_told_as_any_other_text(
    command: str, text: str, digits: str
) -> None:
    given = f"txid:{digits}" if command.startswith("dlog") else digits
    found = json.loads(call(*command.split(), given, "--json", "--store", "memory:").stderr)
    assert found["exit_code"] == 2
    assert text in found["message"]
    assert "99999" in found["message"]
    assert "set_int_max_str_digits" not in found["message"]


def test_a_file_that_cannot_be_made_is_an_object_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = f"sqlite://{tmp_path}/metadata.db"
    done = call("bookie", "format", str(tmp_path / "file" / "disk"), "--store", store, "--json")
    assert done.exit_code != 0
    assert json.loads(done.stderr.splitlines()[-1])["exit_code"] == done.exit_code


@pytest.mark.parametrize("words", [("no-such-command",), ("--no-such-option",), ("log", "read")])
def test_the_variable_asks_for_objects_too(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIRE_JSON", "1")
    done = call(*words)
    assert (done.exit_code, json.loads(done.stderr)["exit_code"]) == (2, 2)
    monkeypatch.setenv("QUIRE_JSON", "0")
    assert call(*words).stderr.startswith("Usage: ")


def test_a_file_that_cannot_be_read_is_named() -> None:
    done = call("dump", "/proc/self/mem")  # it opens, and its first byte cannot be read
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "quire: [Errno 5] Input/output error: '/proc/self/mem'\n"


def test_a_record_that_looks_like_the_option_does_not_ask_for_it() -> None:
    done = call("log", "append", "orders", "--store", "nowhere", "--", "--json")
    assert done.stderr.startswith("quire: ")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.NoSuchLogError("orders"), "quire log list"),
        (errors.NoSuchLedgerError(7), "quire ledger list"),
        (errors.NoSuchCursorError("orders", "billing"), "quire log cursor list"),
        (errors.StoreUnavailableError("zk://zoo", "timeout"), "--store"),
        (errors.BookieUnavailableError("b", "timeout"), "quire bookie list"),
        (errors.EntryLostError(7, 1, "gone"), "quire bookie list"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_the_remedy_of_a_command(error: errors.QuireError, text: str) -> None:
    found = remedy(error)
    assert found is not None
    assert text in found


@pytest.mark.parametrize("error", [errors.LedgerRetiredError(7), OSError("disk full")])
def test_an_error_that_names_its_remedy_gets_no_other(error: Exception) -> None:
    assert remedy(error) is None
