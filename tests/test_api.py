"""The public names: pinned, documented, complete, and nothing but re-exports."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quire

PUBLIC = {
    "BEGINNING",
    "LATEST",
    "Application",
    "AtCursor",
    "AtTxid",
    "Client",
    "Compression",
    "Cursor",
    "Election",
    "Keyring",
    "Leadership",
    "Log",
    "LogOptions",
    "LogReader",
    "NewRecord",
    "Position",
    "ProducerSequence",
    "QuireError",
    "Record",
    "Service",
    "TlsMode",
    "TlsOptions",
    "connect",
    "run_async",
}
"""Taking a name off this list breaks applications: say so in the changelog."""

MODULES = (
    "quire",
    "quire.ledgers",
    "quire.inspect",
    "quire.admin",
    "quire.errors",
    "quire.service",
)
RE_EXPORTS = ("quire", "quire.ledgers", "quire.inspect")


def exported() -> dict[str, object]:
    """Every public name and what it stands for."""
    found: dict[str, object] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for each in module.__all__:
            value = getattr(module, each)
            assert found.setdefault(each, value) is value, f"{each} means two things"
    return found


NAMES = exported()


def test_the_public_names_are_these() -> None:
    assert set(quire.__all__) == PUBLIC
    assert len(quire.__all__) == len(PUBLIC)


@pytest.mark.parametrize("name", RE_EXPORTS)
def test_a_module_only_re_exports(name: str) -> None:
    module = importlib.import_module(name)
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    assert {type(node).__name__ for node in tree.body} == {"Expr", "ImportFrom", "Assign"}


@pytest.mark.parametrize("name", MODULES)
def test_the_names_of_a_module_are_sorted(name: str) -> None:
    names = importlib.import_module(name).__all__
    assert len(names) == len(set(names))


def classes() -> list[type]:
    return [value for value in NAMES.values() if inspect.isclass(value)]


@pytest.mark.parametrize("owner", classes(), ids=lambda owner: owner.__name__)
def test_a_public_class_is_documented(owner: type) -> None:
    assert inspect.getdoc(owner)


def methods() -> list[tuple[type, str]]:
    return [(owner, name) for owner in classes() for name, _ in members(owner)]


def members(owner: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that classes of quire give to a class."""
    for base in owner.__mro__:
        if base.__module__.split(".")[0] == "quire":
            for name, value in vars(base).items():
                described = isinstance(value, property | classmethod | staticmethod)
                if not name.startswith("_") and (described or inspect.isfunction(value)):
                    yield name, value


@pytest.mark.parametrize(("owner", "name"), methods(), ids=str)
def test_a_public_method_is_documented(owner: type, name: str) -> None:
    assert inspect.getdoc(inspect.getattr_static(owner, name)), f"{owner.__name__}.{name}"


def signatures(owner: type) -> Iterator[tuple[str, str]]:
    """Where a public signature or field of a class names types, and its text."""
    for name, value in members(owner):
        function = value.fget if isinstance(value, property) else value
        function = getattr(function, "__func__", function)
        for parameter, text in getattr(function, "__annotations__", {}).items():
            yield f"{owner.__name__}.{name}({parameter})", str(text)
    for base in owner.__mro__:
        if base.__module__.split(".")[0] == "quire":
            for name, text in vars(base).get("__annotations__", {}).items():
                if not name.startswith("_"):
                    yield f"{owner.__name__}.{name}", getattr(text, "__forward_arg__", str(text))


def named(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])[A-Z]\w*", re.sub(r"[\"'].*?[\"']", "", text)))


OUTSIDE = {
    *("Any", "Self", "TypeVar", "Protocol", "Literal", "None", "True", "False", "Final"),
    *("AsyncGenerator", "AsyncIterator", "Awaitable", "Callable", "Collection", "Iterable"),
    *("Iterator", "Mapping", "Sequence", "TracebackType", "BaseException", "ClassVar"),
    *("R", "R_co", "T", "ReadableBuffer", "Buffer", "AbstractAsyncContextManager", "Path"),
    *("Generator", "Coroutine", "AESGCM", "RecordBatchReader", "CollectorRegistry"),
    "TracerProvider",
}
"""Names of Python's own library, type variables, and classes of other libraries."""


def test_every_type_of_a_public_signature_is_exported() -> None:
    missing: dict[str, str] = {}
    for owner in classes():
        if issubclass(owner, BaseException):
            continue
        for place, text in signatures(owner):
            for name in named(text) - NAMES.keys() - OUTSIDE:
                missing.setdefault(name, place)
    for function in (value for value in NAMES.values() if inspect.isfunction(value)):
        for text in function.__annotations__.values():
            for name in named(str(text)) - NAMES.keys() - OUTSIDE:
                missing.setdefault(name, function.__name__)
    assert missing == {}


CALLED = {
    value
    for name in ("quire", "quire.ledgers", "quire.admin", "quire.service")
    for value in vars(importlib.import_module(name)).values()
    if getattr(value, "__name__", None) in importlib.import_module(name).__all__
}
"""What an application calls; the values of `quire.inspect` only have attributes."""


def calls() -> list[tuple[str, Any]]:
    found = [(value.__name__, value) for value in CALLED if inspect.isfunction(value)]
    for owner in (value for value in CALLED if inspect.isclass(value)):
        for name, value in members(owner):
            if not isinstance(value, property):
                function = inspect.unwrap(getattr(value, "__func__", value))  # type: ignore[arg-type]
                found.append((f"{owner.__name__}.{name}", function))
    return sorted(set(found), key=lambda each: each[0])


@pytest.mark.parametrize(("name", "function"), calls(), ids=[name for name, _ in calls()])
def test_a_call_says_what_its_arguments_are(name: str, function: Any) -> None:
    doc = inspect.getdoc(function) or ""
    parameters = [each for each in inspect.signature(function).parameters if each != "self"]
    missing = [
        each
        for each in parameters
        if each != "cls" and not re.search(rf"(?ms)^Args:.*^ +{each}: ", doc)
    ]
    assert missing == [], f"{name}: {missing} in `Args:`"


@pytest.mark.parametrize(("name", "function"), calls(), ids=[name for name, _ in calls()])
def test_a_coroutine_with_arguments_says_what_it_raises(name: str, function: Any) -> None:
    doc = inspect.getdoc(function) or ""
    if inspect.iscoroutinefunction(function) and "Args:" in doc:
        assert "Raises:" in doc, name
        assert "Cancellation" in doc or not MUTATES.search(name), name


MUTATES = re.compile(
    r"\.(append|submit|create|delete|trim|configure|open|recover|ingest|roll|seal)"
)
"""Calls that change something say what is left after their cancellation."""
