"""Checked values: options and arguments of the wrong type are refused where they are given.

The types of options are those that their fields name. A wrong value is found when the options are
made, before anything is done with them. A value that is kept secret (`repr=False`) is never shown.

Pure.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from quire.errors import ConfigurationError, InvalidRequestError

_T = TypeVar("_T")

_WORDS: Final[dict[type, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    bytes: "bytes",
    NoneType: "None",
}

_Expected: TypeAlias = tuple[str, bool, tuple[type, ...]]
"""The name of a field, whether its value may be shown, and the types of its values."""


def check_types(options: Any) -> None:
    """Raise `ConfigurationError` for options with a value of another type than their field's."""
    kind: type = type(options)
    for name, is_shown, types in _expected(kind):
        value = getattr(options, name)
        if not _is_one_of(value, types):
            given = repr(value) if is_shown else f"a value of type {type(value).__name__}"
            raise ConfigurationError(f"{name} must be {_named(types)}, not {given}")


def given_or_default(options: _T | None, kind: type[_T]) -> _T:
    """Return the options that a caller gave, the defaults for None. Raises `ConfigurationError` for
    any other value.
    """
    if options is None:
        return kind()
    if not isinstance(options, kind):
        name = kind.__name__
        raise ConfigurationError(f"expected {name}, not {type(options).__name__}: give {name}(…)")
    return options


def check_password_type(password: object) -> None:
    """Raise `InvalidRequestError` for a password that is not bytes."""
    if not isinstance(password, bytes):
        raise InvalidRequestError(
            f"a password must be bytes, not {type(password).__name__}: encode text, as in b'…'"
        )


def check_flag(value: object, what: str) -> None:
    """Raise `InvalidRequestError` for a value that is neither True nor False: a text such as "no"
    would count as True, and a record that held it could not be read again.
    """
    if type(value) is not bool:
        raise InvalidRequestError(f"{what} must be True or False, not {value!r}")


def check_callable(function: object, what: str) -> None:
    """Raise `InvalidRequestError` for a value that cannot be called."""
    if not callable(function):
        raise InvalidRequestError(f"{what} must be a function, not {function!r}")


def is_utf8(text: str) -> bool:
    """Return whether text can be written as UTF-8. Half of a surrogate pair cannot, nor a byte of
    a command line that Python could not decode.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_one_of(value: object, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):  # which is an int to Python
        return bool in types
    return isinstance(value, types) or (float in types and isinstance(value, int))


def _named(types: tuple[type, ...]) -> str:
    return " or ".join(_WORDS.get(each, each.__name__) for each in types)


@lru_cache(maxsize=64)
def _expected(kind: type) -> tuple[_Expected, ...]:
    hints = get_type_hints(kind)
    return tuple((each.name, each.repr, _types_of(hints[each.name])) for each in fields(kind))


def _types_of(hint: Any) -> tuple[type, ...]:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _types_of(part))
    return (origin or hint,)
