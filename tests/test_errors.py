"""The tree drawn in `quire.errors` is the tree of its classes."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import pickle
import pkgutil
import re

import quire
import quire.errors
from quire.errors import BookieUnavailableError, LedgerFencedError, MissingPageError, QuireError


def drawn() -> list[tuple[int, str]]:
    assert quire.errors.__doc__ is not None
    found = []
    for line in quire.errors.__doc__.splitlines():
        match = re.match(r"    ([│├└─ ]*)([A-Z]\w+Error)\b", line)
        if match:
            found.append((len(match[1]) // 4, match[2]))
    return found


def actual(cls: type[QuireError], depth: int = 0) -> list[tuple[int, str]]:
    found = [(depth, cls.__name__)]
    for child in cls.__subclasses__():
        if child.__module__ == "quire.errors":
            found += actual(child, depth + 1)
    return found


def test_the_drawn_tree_is_the_real_one() -> None:
    assert drawn() == actual(QuireError)


def test_every_error_tells_what_it_is() -> None:
    for _, name in drawn():
        assert inspect.getdoc(getattr(quire.errors, name))


def test_an_error_survives_the_way_between_processes() -> None:
    for error in (
        LedgerFencedError(7),
        BookieUnavailableError("b1", "no answer"),
        MissingPageError("/quire/pages/l/00/1", "l"),
    ):
        for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(copied) is type(error)
            assert (str(copied), vars(copied)) == (str(error), vars(error))


def test_a_missing_page_is_named_in_a_sentence() -> None:
    error = MissingPageError("/quire/pages/l/00/1", "l")
    assert str(error).startswith("metadata record /quire/pages/l/00/1 is corrupt: the page is miss")


def modules() -> list[str]:
    """Every module of the package whose libraries are installed; `__main__` runs the program, and
    Django's models need the settings of an application.
    """
    spark = importlib.util.find_spec("pyspark") is not None
    found = [
        each.name
        for each in pkgutil.walk_packages(quire.__path__, "quire.")
        if spark or (not each.name.startswith("quire.spark."))
    ]
    return [name for name in found if not name.endswith(("__main__", ".sql.django"))]


def descendants(cls: type[QuireError]) -> set[type[QuireError]]:
    return {cls}.union(*(descendants(child) for child in cls.__subclasses__()))


def test_every_error_of_the_package_is_in_quire_errors() -> None:
    for name in modules():
        importlib.import_module(name)
    ours = {cls for cls in descendants(QuireError) if cls.__module__.split(".")[0] == "quire"}
    exported = {getattr(quire.errors, name) for name in quire.errors.__all__}
    assert ours == exported


def test_the_module_of_an_error_is_the_one_that_programs_import() -> None:
    assert {getattr(quire.errors, name).__module__ for name in quire.errors.__all__} == {
        "quire.errors"
    }
