"""`quire rights`: what it prints, what it changes, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from quire.cli.root import main
from quire.metastore import create_store
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, RIGHTS, ledger_path
from quire.metastore.store import MetadataStore
from quire.rights.roles import Action
from tests.golden.metadata import LEDGER

ROOT = "quire://client/root"
ORDERS = "quire://client/orders"


class Terminal:
    """Commands on one store."""

    def __init__(self, directory: Path) -> None:
        self.store = f"sqlite://{directory}/metadata.db"

    def write(self, change: Callable[[MetadataStore], Awaitable[object]]) -> None:
        async def work() -> None:
            store = await create_store(self.store)
            await change(store)
            await store.close()

        asyncio.run(work())

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["rights", *arguments, "--store", self.store])

    def json(self, *arguments: str) -> Any:
        done = self(*arguments, "--json")
        assert done.exit_code in (0, 12), done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def rights(tmp_path: Path) -> Terminal:
    terminal = Terminal(tmp_path)
    terminal.write(lambda store: store.create(CLUSTER, Cluster("c", level=2).encode()))
    return terminal


def begin(rights: Terminal) -> None:
    assert rights("grant", "admin", ROOT).exit_code == 0


def test_without_a_table_everything_is_permitted(rights: Terminal) -> None:
    assert "each peer may do everything" in rights("show").stdout
    assert rights.json("show") == {"rules": None}
    assert rights.json("check", ORDERS, "append")["allowed"] is True


def test_rules_are_granted_shown_and_revoked(rights: Terminal) -> None:
    begin(rights)
    granted = rights("grant", "writer", ORDERS, "app.example", "--log", "orders")
    assert granted.stdout.splitlines() == [
        f"+ {ORDERS} may act as writer on log 'orders'",
        "+ app.example may act as writer on log 'orders'",
    ]
    assert "quire rights grant bookie" in granted.stderr, "nothing would heal"
    assert "Nothing changes" in rights("grant", "writer", ORDERS, "--log", "orders").stderr
    shown = rights.json("show")["rules"]
    assert [each["identity"] for each in shown] == [ROOT, ORDERS, "app.example"]
    assert shown[1]["log"] == "orders"
    assert "@" in shown[1]["by"]
    assert "log 'orders'" in rights("show").stdout
    revoked = rights.json("revoke", "writer", ORDERS, "--log", "orders")
    assert [each["identity"] for each in revoked["removed"]] == [ORDERS]
    assert len(rights.json("show")["rules"]) == 2


def test_a_rule_that_is_not_there_cannot_be_revoked(rights: Terminal) -> None:
    for _ in range(2):
        done = rights("revoke", "reader", ORDERS)
        assert done.exit_code == 2
        assert f"no rule says that {ORDERS} may act as reader on the cluster" in done.stderr
        begin(rights)


def test_the_last_administrator_is_not_locked_out(rights: Terminal) -> None:
    first = rights("grant", "writer", ORDERS)
    assert (first.exit_code, rights.json("show")["rules"]) == (7, None)
    assert "quire rights grant admin IDENTITY" in first.stderr
    begin(rights)
    for refused in (
        rights("revoke", "admin", ROOT),
        rights("grant", "admin", "*", "--deny"),
        rights("revoke", "admin", ROOT, "--dry-run"),
    ):
        assert refused.exit_code == 7, refused.stdout
        assert "--anyway" in refused.stderr
    assert len(rights.json("show")["rules"]) == 1
    assert rights("revoke", "admin", ROOT, "--anyway").exit_code == 0
    assert rights.json("show") == {"rules": []}
    assert rights.json("check", ROOT, "read")["allowed"] is False


def test_a_dry_run_changes_nothing(rights: Terminal) -> None:
    begin(rights)
    done = rights.json("grant", "reader", "*", "--dry-run")
    assert done["dry_run"] is True
    assert [each["identity"] for each in done["added"]] == ["*"]
    assert len(rights.json("show")["rules"]) == 1


def test_a_table_is_applied_in_one_step(rights: Terminal, tmp_path: Path) -> None:
    begin(rights)
    before = rights.json("show")
    file = tmp_path / "rights.json"
    rows = [*before["rules"], {"identity": ORDERS, "role": "writer", "logs": "orders-"}]
    file.write_text(json.dumps({"rules": rows}))
    applied = rights.json("apply", str(file))
    assert [each["identity"] for each in applied["added"]] == [ORDERS]
    assert applied["removed"] == []
    after = rights.json("show")
    assert after["rules"][0] == before["rules"][0], "a rule that stays keeps its author and time"
    file.write_text(json.dumps(rights.json("show")))
    assert "Nothing changes" in rights("apply", str(file)).stderr
    file.write_text(json.dumps({"rules": rows[1:]}))
    assert rights("apply", str(file)).exit_code == 7
    assert rights.json("show") == after


def test_a_lost_table_is_put_back_as_a_whole(rights: Terminal, tmp_path: Path) -> None:
    begin(rights)
    file = tmp_path / "rights.json"
    file.write_text(json.dumps(rights.json("show")))
    rights.write(lambda store: store.delete(RIGHTS))
    for arguments in (
        ["show"],
        ["check", ROOT, "read"],
        ["grant", "admin", ORDERS],
        ["grant", "admin", ORDERS, "--anyway"],
        ["revoke", "admin", ROOT, "--dry-run"],
    ):
        done = rights(*arguments)
        assert done.exit_code == 9, done.stdout
        assert "quire rights apply FILE" in done.stderr
    assert rights.json("apply", str(file), "--dry-run")["added"][0]["identity"] == ROOT
    assert rights("show").exit_code == 9
    assert rights("apply", str(file)).exit_code == 0
    assert rights.json("show")["rules"][0]["identity"] == ROOT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "{}",
        "[{}]",
        '{"rules": [{"identity": "a", "role": "x"}]}',
        '{"rules": 7}',
        "\xff",
    ],
)
def test_a_file_without_rules_is_an_error_that_names_it(
    rights: Terminal, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "rights.json"
    file.write_bytes(text.encode("latin-1"))
    done = rights("apply", str(file))
    assert done.exit_code == 2
    assert str(file) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_is_gone_is_an_error_that_names_it(rights: Terminal) -> None:
    done = rights("apply", "/nowhere/rights.json")
    assert (done.exit_code, "/nowhere/rights.json" in done.stderr) == (2, True)


def test_check_says_which_rule_decides(rights: Terminal) -> None:
    begin(rights)
    rights("grant", "writer", "quire://client/*", "--logs", "ord")
    rights("grant", "writer", ORDERS, "--log", "orders-secret", "--deny")
    allowed = rights("check", ORDERS, "append", "--log", "orders")
    assert allowed.exit_code == 0
    assert allowed.stdout == f"{ORDERS} may append on log 'orders'\n"
    assert "quire://client/* may act as writer on logs 'ord'" in allowed.stderr
    denied = rights("check", ORDERS, "append", "--log", "orders-secret")
    assert denied.exit_code == 12
    assert "may never act as writer" in denied.stderr
    nowhere = rights("check", ORDERS, "operate")
    assert nowhere.exit_code == 12
    assert "operator or admin" in nowhere.stderr
    assert rights.json("check", ORDERS, "append", "--log", "orders")["rule"]["logs"] == "ord"


def test_check_finds_the_log_of_a_ledger(rights: Terminal) -> None:
    record = replace(LEDGER, custom_metadata={"log": "orders"})
    rights.write(lambda store: store.create(ledger_path(7), record.encode()))
    begin(rights)
    rights("grant", "reader", ORDERS, "--log", "orders")
    assert rights.json("check", ORDERS, "read", "--ledger", "7")["allowed"] is True
    gone = rights("check", ORDERS, "read", "--ledger", "8")
    assert (gone.exit_code, "ledger 8 does not exist" in gone.stderr) == (3, True)
    both = rights("check", ORDERS, "read", "--ledger", "7", "--log", "orders")
    assert (both.exit_code, "or a ledger alone" in both.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grant", "reader", "a b"], "without spaces"),
        (["grant", "reader", ""], "printable characters"),
        (["grant", "reader", "a", "--log", "x", "--logs", "y"], "a rule for each"),
        (["grant", "reader", "a", "--log", ""], "leave it out"),
        (["grant", "reader", "a", "--ledger", "-1"], "negative"),
        (["grant", "reader", ORDERS, "--ledger", str(2**63)], "is not in the range"),
        (["grant", "emperor", "a"], "emperor"),
        (["check", "quire://*", "read"], "names many peers"),
        (["check", "a", "fly"], "fly"),
    ],
)
def test_what_cannot_be_meant_is_refused(rights: Terminal, arguments: list[str], said: str) -> None:
    done = rights(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_older_bookies_are_named_as_the_obstacle(rights: Terminal) -> None:
    async def lower(store: MetadataStore) -> None:
        version = (await store.get(CLUSTER)).version
        await store.put(CLUSTER, Cluster("c", level=1).encode(), version)

    rights.write(lower)
    done = rights("grant", "admin", ROOT)
    assert (done.exit_code, "cluster upgrade --finish" in done.stderr) == (2, True)


def test_every_action_can_be_checked(rights: Terminal) -> None:
    begin(rights)
    assert all(rights.json("check", ROOT, str(action))["allowed"] for action in Action)
