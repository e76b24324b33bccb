"""docs/protocol.md is true where a machine can tell: diagram, checkers, messages, errors, files."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import quire.errors
import quire.observer
from quire.bookie import Bookie
from quire.wire import bookie_pb2 as pb
from tests.spec import trace
from tests.spec.ledger import SAFEGUARDS
from tests.spec.log import SAFEGUARDS as LOG_SAFEGUARDS
from tests.spec.log_bounds import REMOVED
from tests.spec.log_bounds import Removed as LogRemoved
from tests.spec.page_bounds import REMOVED as PAGES_REMOVED
from tests.spec.page_bounds import Removed as PageRemoved
from tests.spec.pages import SAFEGUARDS as PAGE_SAFEGUARDS
from tests.support.state_diagram import DOCUMENT, renewed

TEXT = DOCUMENT.read_text(encoding="utf-8")
SIMULATOR = Path(__file__).parent / "sim"
REPORTING = [path for path in sorted(SIMULATOR.glob("*.py")) if not path.stem.startswith("test_")]
RULE = re.compile(r"\*\*([A-Z]\d+)\*\*")


LETTERS_OF_MODULES = "TVAP"
"""A module's own invariants: the page does not state them, but a checker may be named after one."""


def checker_names() -> set[str]:
    """Every name under which a checker of the simulator reports."""
    names: set[str] = set()
    for path in REPORTING:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found: ast.expr | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"require": 1, "Violation": 0}.get(node.func.id)
                found = None if place is None else node.args[place]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("name", "RULE"):
                found = node.value
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                names.add(found.value)
    return names


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}")[1].split("\n## ")[0]


def words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()


def test_the_diagram_is_the_table() -> None:
    assert renewed(TEXT) == TEXT, "run: python -m tests.support.state_diagram"


def test_every_checker_is_listed_and_every_listed_checker_exists() -> None:
    rows = "\n".join(re.findall(r"^\| .*$", section("9"), re.M))
    listed = set(re.findall(r"`([^`]+)`", rows))
    assert checker_names() <= listed, f"not listed: {sorted(checker_names() - listed)}"
    assert listed <= checker_names(), f"no such checker: {sorted(listed - checker_names())}"


def test_every_watched_rule_is_stated() -> None:
    stated = set(RULE.findall(TEXT))
    for name in sorted(checker_names()):
        number = re.match(r"[A-Z]\d", name)
        if number is not None and number[0][0] in LETTERS_OF_MODULES:
            continue
        assert number is None or number[0] in stated, f"rule {number} of {name!r} is not stated"


def test_every_rule_of_the_port_is_stated() -> None:
    port = inspect.getdoc(inspect.getmodule(Bookie)) or ""
    assert set(re.findall(r"^ +(B\d)  ", port, re.M)) <= set(RULE.findall(TEXT))


def test_every_message_is_in_the_table() -> None:
    table = {
        call.strip()
        for row in re.findall(r"^\| ([^|]+) \|", section("8"), re.M)
        for call in row.split(",")
    }
    methods = {words(each.name) for each in pb.DESCRIPTOR.services_by_name["Bookie"].methods}
    assert methods == table - {"call", "---"}


def test_errors_and_files_that_are_named_exist() -> None:
    for name in set(re.findall(r"`(\w+Error)`", TEXT)):
        assert hasattr(quire.errors, name), name
    root = DOCUMENT.parent.parent
    for path in set(re.findall(r"`(\w+/\w+\.py)`", TEXT)):
        assert (root / path).exists() or (root / "quire" / path).exists(), path


OPERATOR = re.compile(r"^(\w+)(?:\([\w, ]+\))? ==", re.MULTILINE)


class Specified(NamedTuple):
    """A module of the specification, and the section in which its rules stand."""

    module: str
    title: str
    safeguards: tuple[str, ...]
    helpers: frozenset[str]
    """Operators that its next-state relation uses and that are not actions."""

    def text(self) -> str:
        path = DOCUMENT.parents[1] / "spec" / self.module
        return path.read_text(encoding="utf-8")

    def rows(self) -> list[list[str]]:
        lines = section(self.title).splitlines()
        return [line.split("|")[1:-1] for line in lines if line.startswith("| ")][1:]

    def named(self) -> set[str]:
        """Every action and constant that the section names."""
        return {name for row in self.rows() for name in re.findall(r"`(\w+)`", row[1])}


LEDGER = Specified("Ledger.tla", "10. ", SAFEGUARDS, frozenset({"First", "Ens", "Entry"}))
LOG = Specified("Log.tla", "11. ", LOG_SAFEGUARDS, frozenset({"Writes", "Cur"}))
PAGES = Specified("Pages.tla", "12. ", PAGE_SAFEGUARDS, frozenset())
MODULES = pytest.mark.parametrize("specified", [LEDGER, LOG, PAGES], ids=["ledger", "log", "pages"])


@MODULES
def test_every_action_of_the_specification_stands_beside_its_rule(specified: Specified) -> None:
    spec = specified.text()
    _, _, following = spec.partition("Next == ")
    used = set(re.findall(r"[A-Z]\w+", following.partition("Spec ==")[0]))
    actions = {name for name in OPERATOR.findall(spec) if name in used} - specified.helpers
    assert actions
    assert actions <= specified.named(), sorted(actions - specified.named())


@MODULES
def test_every_safeguard_of_the_specification_stands_beside_its_rule(specified: Specified) -> None:
    assert set(specified.safeguards) <= specified.named()


@MODULES
def test_nothing_stands_there_that_the_specification_lacks(specified: Specified) -> None:
    known = {*OPERATOR.findall(specified.text()), *specified.safeguards}
    assert specified.named() <= known, sorted(specified.named() - known)


@pytest.mark.parametrize(
    ("specified", "removed"), [(LOG, REMOVED), (PAGES, PAGES_REMOVED)], ids=["log", "pages"]
)
def test_the_table_says_what_breaks_without_each_safeguard(
    specified: Specified, removed: tuple[LogRemoved | PageRemoved, ...]
) -> None:
    breaks = {name: row[2] for row in specified.rows() for name in re.findall(r"`(\w+)`", row[1])}
    for each in removed:
        said = f"{each.outcome.broken}, {each.outcome.depth} states: {each.why}"
        assert breaks[each.safeguard].strip() == said


def stated_rules(first: int = 1, end: int = 5) -> set[str]:
    """The rules of some sections; by default of 1 to 4, which `Ledger.tla` is about."""
    text = TEXT[TEXT.index(f"\n## {first}. ") : TEXT.index(f"\n## {end}. ")]
    return set(RULE.findall(text))


def test_every_rule_of_a_log_stands_beside_the_specification_or_is_not_in_it() -> None:
    named, _, outside = section("11. ").partition("Not in the specification:")
    inside = set(re.findall(r"\b[A-Z]\d+\b", named + section("12. ")))
    left_out = set(re.findall(r"\b[A-Z]\d+\b", outside))
    assert stated_rules(6, 7) <= inside | left_out, sorted(stated_rules(6, 7) - inside - left_out)
    assert left_out.isdisjoint(inside)
    assert left_out <= stated_rules(6, 7)


def test_every_rule_of_a_ledger_stands_beside_the_specification() -> None:
    named = set(re.findall(r"\b[A-Z]\d+\b", section("10. ")))
    assert stated_rules() <= named, sorted(stated_rules() - named)


def test_a_rule_is_in_the_specification_or_is_not() -> None:
    table, _, rest = section("10. ").partition("Not in the specification:")
    outside = set(re.findall(r"\b[A-Z]\d+\b", rest.partition("Traces")[0]))
    rows = "\n".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| "))
    assert outside.isdisjoint(re.findall(r"\b[A-Z]\d+\b", rows))
    assert outside <= stated_rules()


def test_the_judge_of_traces_names_rules_that_are_stated() -> None:
    rules = set(re.findall(r"\bf?\"([A-Z]\d+): ", inspect.getsource(trace)))
    assert len(rules) > 8
    assert rules <= stated_rules(), sorted(rules - stated_rules())


def test_an_observer_is_told_what_the_specification_calls_actions() -> None:
    told = set(re.findall(r"[(,] ?([A-Z]\w+)(?=[,)])", inspect.getdoc(quire.observer) or ""))
    assert len(told) > 10
    assert told <= LEDGER.named(), sorted(told - LEDGER.named())
