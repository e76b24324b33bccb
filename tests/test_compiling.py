"""What is compiled for wheels with QUIRE_COMPILED=1: the rules, and that the list obeys them.

No compiler runs here: `make compiled-test` runs the quick tests on compiled modules, and compares
simulated runs with those of plain ones.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import quire.run
from compiling import MODULES, UnfitModuleError, check_modules, without_slots
from quire.version import is_compiled
from tests.compiled import PLAIN_ONLY, demand_compiled
from tests.sim.knobs import KNOBS

ROOT = Path(__file__).resolve().parent.parent

SLOTS = '''class Base:
    """A class."""

    __slots__ = (
        "first",
        "second",
    )

    def __init__(self) -> None:
        self.first = self.second = 1


class Empty:
    __slots__: tuple[str, ...] = ()
'''


def sources() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "quire").rglob("*.py"))
    }


def test_the_list_obeys_the_rules() -> None:
    found = sources()
    check_modules(found)
    assert sorted(set(MODULES)) == sorted(MODULES)
    assert len(MODULES) > 20


def test_slots_are_left_out_and_each_line_stays_where_it_was() -> None:
    plain = without_slots(SLOTS)
    assert "__slots__" not in plain
    assert len(plain.splitlines()) == len(SLOTS.splitlines())
    assert plain.splitlines()[9:11] == SLOTS.splitlines()[9:11]
    classes = [node.name for node in ast.parse(plain).body if isinstance(node, ast.ClassDef)]
    assert classes == ["Base", "Empty"]


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("async def wait() -> None: ...", "a.py: wait is a coroutine: move it"),
        ("class A:\n    async def wait(self) -> None: ...", "wait is a coroutine"),
        (
            "class A: ...\nclass B(A):\n    def __call__(self) -> None: ...",
            "a.py: B has __call__, and A above it has not",
        ),
        ("@runtime_checkable\nclass A(Protocol): ...", "A is checked at runtime"),
        ("@typing.runtime_checkable\nclass A(Protocol): ...", "A is checked at runtime"),
        ("raise ValueError from None", "a.py:1 raises from a cause"),
    ],
)
def test_a_module_that_would_not_do_the_same_is_refused(module: str, why: str) -> None:
    with pytest.raises(UnfitModuleError, match=why):
        check_modules({"a.py": module, "b.py": ""}, ["a.py"])
    check_modules({"a.py": module, "b.py": ""}, ["b.py"])


def test_a_plain_class_below_a_compiled_one_is_refused() -> None:
    found = {"a.py": "class A: ...", "b.py": "class B(a.A[int]): ..."}
    with pytest.raises(UnfitModuleError, match=r"b\.py: B is below A, which is compiled"):
        check_modules(found, ["a.py"])
    check_modules(found, ["a.py", "b.py"])


def test_a_callable_class_may_be_below_a_callable_one() -> None:
    body = "\n    def __call__(self) -> None: ...\n"
    check_modules({"a.py": f"class A:{body}class B(A):{body}"}, ["a.py"])


@pytest.mark.parametrize("test", sorted(PLAIN_ONLY))
def test_each_test_that_is_left_out_exists_and_has_a_reason(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
    assert PLAIN_ONLY[test].endswith(".")


def test_the_version_tells_the_build() -> None:
    """On compiled modules this is true, too: `make compiled-test` runs it there."""
    assert is_compiled() is not str(quire.run.__file__).endswith(".py")


def test_no_knob_of_the_simulator_is_a_constant_in_a_compiled_module() -> None:
    """The compiler puts the value of a constant into the code."""
    names = {path.removesuffix(".py").replace("/", ".") for path in MODULES}
    assert not [(module.__name__, name) for module, name, _ in KNOBS if module.__name__ in names]


def test_plain_modules_are_not_taken_for_compiled_ones(tmp_path: Path) -> None:
    if is_compiled():
        demand_compiled(ROOT)
        return
    (tmp_path / "quire").symlink_to(ROOT / "quire")
    with pytest.raises(SystemExit, match="no compiled modules"):
        demand_compiled(tmp_path)
