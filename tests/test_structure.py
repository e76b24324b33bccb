"""The shape of the code, as a test: who may import whom, one door per library, sizes, banned names.

The tables are in structure_tables.py. When a test here fails, the first question is whether the new
code stands in the right room, not how to widen the table.
"""

from __future__ import annotations

import ast
import gc
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from tests.structure_tables import (
    ARROWS,
    BANNED,
    DOORS,
    FUNCTION_LINES_MAX,
    LINES_MAX,
    PAGE_RULES,
    RATCHET,
    ROOMS,
    TASKS,
)

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "quire"


def modules() -> Iterator[tuple[str, Path]]:
    """Each module with its file. A rule looks at all of them in one test, and lists its faults: a
    test for each module and rule would be a third of all quick tests.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_pb2" in path.name:
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, path


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """No collection of garbage walks the trees of all files: it took half of the tests' time."""
    gc.disable()
    yield
    for each in (tree, nodes, calls, imported):
        each.cache_clear()
    gc.enable()


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines that tell a caller what to expect: they make a function no harder to read."""
    first = node.body[0]
    if ast.get_docstring(node) is None or first.end_lineno is None:
        return 0
    return first.end_lineno - first.lineno + 1


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, found once for all rules."""
    return tuple(ast.walk(tree(path)))


class Call(NamedTuple):
    """A call in a file: its line, and what is called."""

    line: int
    called: str


@cache
def calls(path: Path) -> tuple[Call, ...]:
    return tuple(
        Call(node.lineno, ast.unparse(node.func))
        for node in nodes(path)
        if isinstance(node, ast.Call)
    )


@cache
def imported(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    """Every module a file imports, at any depth; `from a import b` counts as a.b if that is one."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            base = node.module
            for alias in node.names:
                child = f"{base}.{alias.name}"
                yield child if is_module(child) else base


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def longest(name: str, table: dict[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    found = [prefix for prefix in table if under(name, prefix)]
    return table[max(found, key=len)] if found else None


Rule: TypeAlias = Callable[[str, Path], Iterator[str]]
"""The faults of a module against a rule."""


def check(rule: Rule) -> None:
    """Fail with the faults of all modules, if there are any."""
    faults = [fault for name, path in modules() for fault in rule(name, path)]
    assert not faults, "\n".join(["", *faults])


def forbidden_imports(name: str, path: Path) -> Iterator[str]:
    if path.name == "__init__.py" and name != "quire":
        name = f"{name}.__init__"
    allowed = longest(name, ARROWS)
    if allowed is None:
        yield f"{name} has no place in ARROWS"
        return
    for target in imported(path):
        if under(target, "quire") and not any(under(target, prefix) for prefix in allowed):
            may = ", ".join(allowed) or "nothing of quire"
            yield f"{name} imports {target}; it may import {may}"


def test_imports_follow_the_arrows() -> None:
    check(forbidden_imports)


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_keep_their_order(package: str) -> None:
    rooms = ROOMS[package]
    depth = package.count(".") + 1
    for name, path in modules():
        if not under(name, package) or name == package:
            continue
        room = name.split(".")[depth]
        assert room in rooms, f"{name} stands in no room of {package}"
        for target in imported(path):
            if under(target, package) and target != package:
                other = target.split(".")[depth]
                assert rooms.index(other) <= rooms.index(room), f"{name} imports {target}"


def test_no_modules_import_each_other() -> None:
    """Neither directly nor over others, nor for types only: each can be read before its users."""
    found = dict(modules())
    arrows: dict[str, set[str]] = {}
    for name, path in found.items():
        targets = arrows[name] = set()
        for target in imported(path):
            while target and target not in found:
                target = target.rpartition(".")[0]
            targets |= {target} - {"", name}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' imports '.join(reversed(error.args[1]))}")


def second_doors(name: str, path: Path) -> Iterator[str]:
    for target in imported(path):
        for library, doors in DOORS.items():
            if under(target, library) and not any(under(name, door) for door in doors):
                yield f"{name} imports {library}; its door is {', '.join(doors)}"


def test_each_library_has_one_door() -> None:
    check(second_doors)


def banned_calls(name: str, path: Path) -> Iterator[str]:
    for line, called in calls(path):
        if called in BANNED:
            yield f"{path.relative_to(ROOT)}:{line} calls {called}; use {BANNED[called]}"


def test_nothing_banned_is_called() -> None:
    check(banned_calls)


STARTS = ("create_task", "ensure_future", "TaskGroup")


def tasks_started(path: Path) -> Iterator[Call]:
    return (each for each in calls(path) if each.called.rpartition(".")[2] in STARTS)


def tasks_without_owner(name: str, path: Path) -> Iterator[str]:
    if not any(under(name, place) for place in TASKS):
        for line, called in tasks_started(path):
            yield f"{path.relative_to(ROOT)}:{line} calls {called}; use quire.aio.tasks"


def test_each_task_has_an_owner() -> None:
    check(tasks_without_owner)


def test_the_exceptions_to_the_owner_rule_are_needed() -> None:
    for place in TASKS:
        starts = any(any(tasks_started(path)) for name, path in modules() if under(name, place))
        assert starts, f"{place} starts no task any more: take it off the list"


TWICE = {
    *("Finding", "Holding", "Job", "Labels", "LedgerState", "Place", "Record", "Role", "Row"),
    *("Slice", "Stage", "Standing", "State", "Summary", "Verdict"),
}
"""Names that two classes still have. A name may leave this list and never come back."""


def class_names() -> Counter[str]:
    """How many classes have a name, a leading underscore apart."""
    return Counter(
        node.name.lstrip("_")
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    )


def test_a_class_name_has_one_meaning() -> None:
    """A reader who searches for a name finds one class (STYLE.md, code, rule 1)."""
    twins = {name for name, count in class_names().items() if count > 1}
    assert twins <= TWICE, f"used twice: {sorted(twins - TWICE)}: rename the private class"


PAUSES = re.compile(r"\*\*|min\(2 \*")


def growing_pauses(name: str, path: Path) -> Iterator[str]:
    if under(name, "quire.aio"):
        return
    for node in nodes(path):
        if isinstance(node, ast.Assign) and "pause" in ast.unparse(node.targets[0]).lower():
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            if PAUSES.search(ast.unparse(node.value)):
                yield f"{where} makes a pause grow; use quire.aio.backoff"


def test_pauses_grow_by_one_policy() -> None:
    """A loop that doubles a pause by hand has its own numbers, jitter and bounds, untested."""
    check(growing_pauses)


def sizes_above_limits(name: str, path: Path) -> Iterator[str]:
    relative = str(path.relative_to(ROOT))
    lines = len(path.read_text(encoding="utf-8").splitlines())
    limit, reason = RATCHET.get(relative, (LINES_MAX, "the general limit"))
    if lines > limit:
        yield f"{relative} has {lines} lines, {limit} allowed ({reason})"
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1 - docstring_lines(node)
            limit, reason = RATCHET.get(
                f"{relative}:{node.name}", (FUNCTION_LINES_MAX, "the general limit")
            )
            if length > limit:
                yield f"{relative}:{node.name} has {length} lines, {limit} allowed"


def test_modules_and_functions_stay_small() -> None:
    check(sizes_above_limits)


def test_the_ratchet_holds_nothing_superfluous() -> None:
    for key, (limit, reason) in RATCHET.items():
        path = ROOT / key.split(":")[0]
        assert path.exists(), f"{key} is gone: take it off the list"
        assert reason, f"{key} needs a reason"
        if ":" not in key:
            lines = len(path.read_text(encoding="utf-8").splitlines())
            assert lines > LINES_MAX, f"{key} fits the general limit now: take it off the list"
            assert limit - lines < 50, f"{key} shrank to {lines}: lower its limit of {limit}"


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_says_how_to_read_it(package: str) -> None:
    """Its head names each of its modules, so that none is overlooked."""
    base = ROOT.joinpath(*package.split("."))
    for head in sorted(base.glob("*/__init__.py")):
        text = ast.get_docstring(tree(head)) or ""
        for module in sorted(head.parent.glob("*.py")):
            assert module.name == "__init__.py" or module.name in text, (
                f"{head.relative_to(ROOT)} does not name {module.name}"
            )


def test_every_package_says_what_it_may_import() -> None:
    for head in sorted(PACKAGE.glob("**/*/__init__.py")):
        text = ast.get_docstring(tree(head)) or ""
        assert "May import" in text, f"{head.relative_to(ROOT)} does not say what it may import"


def test_a_label_names_one_rule() -> None:
    """A module that states a rule of its own takes a letter that docs/protocol.md does not use."""
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    published = {label[0] for label in re.findall(r"\*\*([A-Z]\d+)\*\*", page)}
    own: dict[str, str] = {}
    for name, path in modules():
        for label in re.findall(r"^  ([A-Z]\d+) ", ast.get_docstring(tree(path)) or "", re.M):
            if name in PAGE_RULES:
                continue
            assert label[0] not in published, f"{name}: docs/protocol.md uses the letter of {label}"
            assert own.setdefault(label, name) == name, f"{label} is in {own[label]} and {name}"


def test_no_program_leaves_its_settings_in_the_repository() -> None:
    """The tests name a directory that nothing makes; a browser once wrote into it."""
    left = Path(os.environ["XDG_CONFIG_HOME"])
    assert not left.exists(), f"a program that a test started wrote into {left}: remove it"


def test_every_module_says_what_it_is() -> None:
    for name, path in modules():
        assert ast.get_docstring(tree(path)), f"{name} has no docstring"


def test_ledger_and_storage_never_meet() -> None:
    for name, path in modules():
        for target in imported(path):
            sides = {under(module, "quire.ledger") for module in (name, target)}
            meet = any(under(module, "quire.storage") for module in (name, target))
            assert not (meet and True in sides), f"{name} imports {target}"
