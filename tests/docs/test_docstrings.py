"""Every public name has a docstring, down to methods and properties: the reference shows it.

A function or method has the sections that its signature asks for (STYLE.md, words, rule 7):

    Args              it has parameters; each is named there
    Returns, Yields   it returns a value
    Raises            it is a coroutine or an asynchronous generator, or its body raises
    Cancellation      it is a coroutine or an asynchronous generator

No name is exempt. Guarantees stand where there are some, which no signature shows.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import quire

PUBLIC = (
    *(
        "errors",
        "inspect",
        "ledgers",
        "admin",
        "service",
        "sql",
        "sql.models",
        "sync",
        "sync.admin",
        "sync.sql",
    ),
    "testing",
    "tracing.messages",
)
FOUND = [name for name in PUBLIC if importlib.util.find_spec(f"quire.{name}") is not None]
MODULES = [quire, *(importlib.import_module(f"quire.{name}") for name in FOUND)]


def exported(module: ModuleType) -> Iterator[tuple[str, object]]:
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    for name in names:
        yield f"{module.__name__}.{name}", getattr(module, name)


def members(owner: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that classes of quire give to a class."""
    for base in owner.__mro__:
        if base.__module__.split(".")[0] == "quire":
            for name, value in vars(base).items():
                described = isinstance(value, property | classmethod | staticmethod)
                if not name.startswith("_") and (described or inspect.isfunction(value)):
                    yield name, inspect.getattr_static(owner, name)


SECTION: Final = re.compile(r"^(Args|Returns|Yields|Raises|Cancellation):", re.MULTILINE)
WITHOUT_VALUE: Final = (None, "None", "NoReturn", inspect.Signature.empty)


def is_raising(function: Callable[..., Any]) -> bool:
    """Whether the body of a function raises, apart from functions that it defines."""

    def own(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield child
                yield from own(child)

    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    return any(isinstance(node, ast.Raise) for node in own(tree))


def lacking(member: object) -> list[str]:
    """Return the sections, and the parameters, that the docstring of a function lacks."""
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    assert callable(member)
    function = inspect.unwrap(member)
    doc = inspect.cleandoc(member.__doc__ or "")
    signature = inspect.signature(function)
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    waits = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    wanted = {
        "Args": bool(names),
        "Returns": signature.return_annotation not in WITHOUT_VALUE,
        "Raises": waits or is_raising(function),
        "Cancellation": waits,
    }
    there = {"Returns" if each == "Yields" else each for each in SECTION.findall(doc)}
    missing = [section for section, is_wanted in wanted.items() if is_wanted > (section in there)]
    if "Args" in there:
        missing += [each for each in names if not re.search(rf"^ +(.*, )?{each}\b.*:", doc, re.M)]
    return missing


def functions() -> Iterator[tuple[str, object]]:
    """The public functions and methods, each once, where it is defined."""
    for module in MODULES:
        for name, value in exported(module):
            if inspect.isclass(value):
                for member, described in members(value):
                    if not isinstance(described, property):
                        yield f"{value.__module__}.{value.__qualname__}.{member}", described
            elif inspect.isroutine(value):
                yield name, value


def undocumented() -> list[str]:
    missing = set()
    for module in MODULES:
        for name, value in exported(module):
            if inspect.isclass(value):
                missing |= {
                    f"{value.__module__}.{value.__qualname__}.{member}"
                    for member, described in members(value)
                    if not inspect.getdoc(described)
                }
            if (inspect.isclass(value) or inspect.isroutine(value)) and not value.__doc__:
                missing.add(name)
    return sorted(missing)


def test_every_public_name_has_a_docstring() -> None:
    assert undocumented() == []


def test_every_docstring_has_the_sections_that_its_signature_asks_for() -> None:
    missing = {name: lacking(member) for name, member in functions()}
    assert {name: found for name, found in missing.items() if found} == {}


def test_missing_sections_are_found() -> None:
    async def bare(first: int, second: int) -> int:
        """Return a sum.

        Args:
            first: a number.
        """
        return first + second

    def raises() -> None:
        """Fail."""
        raise ValueError

    assert lacking(bare) == ["Returns", "Raises", "Cancellation", "second"]
    assert lacking(raises) == ["Raises"]


def test_names_without_a_docstring_are_found() -> None:
    class Bare:
        def method(self) -> None: ...

        @property
        def shown(self) -> int:
            return 1

    Bare.__module__ = "quire.bare"
    assert [name for name, _ in members(Bare)] == ["method", "shown"]
    assert not inspect.getdoc(vars(Bare)["shown"])


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_public_module_exports_something(module: ModuleType) -> None:
    assert list(exported(module)), Path(str(module.__file__))
