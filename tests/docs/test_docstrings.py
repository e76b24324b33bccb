"""Every public name has a docstring, down to methods and properties: the reference shows it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import quire

PUBLIC = ("errors", "inspect", "ledgers", "admin", "service", "sync", "sync.admin", "testing")
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
