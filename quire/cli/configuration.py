"""`quire.toml`: options of commands in a file, and named contexts.

The tree of commands is the table of all settings: a table of the file is named like a command, its
keys like that command's options. So an option has one name, one meaning and one check wherever it
comes from. The order is the command line, the environment, the file, the default
(docs/cli.md, "Configuration").

Reading a file and comparing it with the commands is pure, apart from reading the file itself.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from quire.cli.pairs import Pairs
from quire.errors import ConfigurationError

NAME: Final = "quire.toml"

CHOICES: Final = ("config", "context", "version", "help")
"""Options that choose a file or a context, or only print. A file cannot set them."""

OF_CONTEXTS: Final = ("store", "as_json")
"""Every command takes these, too. In a file they belong to a context."""


class Setting(NamedTuple):
    """One value of a file, found to belong to an option."""

    path: tuple[str, ...]
    """The command, without `quire`; empty for a value of the chosen context."""
    option: click.Option
    value: Any


@dataclass(frozen=True, slots=True)
class Configuration:
    """The contents of a file, not yet compared with the commands."""

    file: Path | None = None
    context: str | None = None
    contexts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    commands: Mapping[str, object] = field(default_factory=dict)

    def settings(self, root: click.Group, context: str | None) -> list[Setting]:
        """Return every value of the file that counts, each with its option.

        Args:
            root: the outermost command.
            context: the context that was asked for; None for the file's own choice.

        Raises:
            ConfigurationError: a table names no command, a key no option, a value cannot be used,
                or the context does not exist.
        """
        found = []
        for name, values in self.contexts.items():
            of_context = list(self._options((), root, values, f"contexts.{name}"))
            if name == self.chosen(context):
                found += of_context
        return [*found, *self._tables((), root, self.commands)]

    def chosen(self, context: str | None) -> str | None:
        """Return the context to use. Raises `ConfigurationError` if there is none of its name."""
        name = context or self.context
        if name is not None and name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            where = self.file or f"no {NAME} was found"
            raise ConfigurationError(
                f"context {name!r} does not exist ({where}; there is: {known}); "
                f"`quire context add {name} --store URI` adds it"
            )
        return name

    def _tables(
        self, path: tuple[str, ...], group: click.Group, tables: Mapping[str, object]
    ) -> Iterator[Setting]:
        for name, values in tables.items():
            table = ".".join((*path, name))
            command = group.commands.get(name)
            if command is None:
                kind = "table" if isinstance(values, Mapping) else "key"
                raise self._unknown(kind, name, table, list(group.commands))
            if not isinstance(values, Mapping):
                raise ConfigurationError(
                    f"{self.file}: {table} = {values!r} must be a table: [{table}]"
                )
            if isinstance(command, click.Group):
                yield from self._tables((*path, name), command, values)
            else:
                yield from self._options((*path, name), command, values, table)

    def _options(
        self, path: tuple[str, ...], command: click.Command, values: object, table: str
    ) -> Iterator[Setting]:
        if not isinstance(values, Mapping):
            raise ConfigurationError(
                f"{self.file}: {table} = {values!r} must be a table: [{table}]"
            )
        options = options_of(command, within=path)
        for key, value in values.items():
            option = options.get(key.replace("_", "-"))
            if option is None:
                if path and key in ("store", "json", "cluster"):
                    raise ConfigurationError(
                        f"{self.file}: {key!r} in [{table}] belongs to a context: "
                        f"write it below [contexts.NAME]"
                    )
                raise self._unknown("option", key, table, list(options))
            yield Setting(path, option, self._usable(command, option, key, value, table))

    def _usable(
        self, command: click.Command, option: click.Option, key: str, value: object, table: str
    ) -> Any:
        """Return the value as an option takes it. The command converts it again later."""
        if isinstance(option.type, Pairs) and isinstance(value, Mapping):
            value = [f"{name}={one}" for name, one in value.items()]
        if isinstance(option.type, click.types.FuncParamType):
            value = _as_typed(value)
        wanted = _misfit(option, value)
        if wanted is not None:
            raise ConfigurationError(
                f"{self.file}: {key} = {value!r} in [{table}] must be {wanted}"
            )
        if any(isinstance(one, str) and "\0" in one for one in _each(value)):
            raise ConfigurationError(  # no file is called so, and the command line has none
                f"{self.file}: {key} = {value!r} in [{table}] has a null character"
            )
        try:
            option.type_cast_value(click.Context(command), value)
        except click.BadParameter as error:
            raise ConfigurationError(
                f"{self.file}: {key} = {value!r} in [{table}]: {error.message}"
            ) from error
        return value

    def _unknown(
        self, kind: str, name: str, table: str, known: Sequence[str]
    ) -> ConfigurationError:
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"there is: {', '.join(sorted(known))}"
        place = f"in [{table}]" if kind == "option" else f"({table})"
        return ConfigurationError(f"{self.file}: no {kind} is called {name!r} {place}; {advice}")


def _misfit(option: click.Option, value: object) -> str | None:
    """Return which kind of value an option takes; None if it is this one."""
    if option.is_flag:
        return None if isinstance(value, bool) else "true or false"
    if option.multiple:
        return None if isinstance(value, list) and all(map(_is_one, value)) else "a list"
    if isinstance(option.type, click.types.IntParamType):
        is_part = isinstance(value, float) and not value.is_integer()
        return None if _is_one(value) and not is_part else "a whole number"
    return None if _is_one(value) else "one value"


def _is_one(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _each(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _as_typed(value: Any) -> Any:
    """Return a value as a person types it: some options are functions of a text."""
    if isinstance(value, list):
        return [_as_typed(one) for one in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def options_of(command: click.Command, *, within: Sequence[str]) -> dict[str, click.Option]:
    """Return the options of a command that a file can set, by their long names."""
    left_out = (*CHOICES, *OF_CONTEXTS) if within else CHOICES
    return {
        long_name(each): each
        for each in command.params
        if isinstance(each, click.Option) and each.name not in left_out
    }


def long_name(option: click.Option) -> str:
    """Return the name of an option without its dashes, as a file and a list write it."""
    longest = max((*option.opts, *option.secondary_opts), key=len)
    plain = [name for name in option.opts if name.startswith("--")]
    return (plain[0] if plain else longest).lstrip("-")


def find_file(given: str | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file to read: the given one, else the first of these that exists.

    `./quire.toml`; `$XDG_CONFIG_HOME/quire/quire.toml`, by default below `~/.config`;
    `/etc/quire/quire.toml`.

    Raises:
        ConfigurationError: the given file does not exist.
    """
    if given is not None:
        path = Path(given)
        try:
            is_missing = not path.exists() or path.is_dir()
        except OSError:
            is_missing = False  # reading it tells why
        if is_missing:
            raise ConfigurationError(
                f"{path} does not exist: --config and QUIRE_CONFIG name a file"
            )
        return path
    places = (Path(NAME), own_file(environment), Path("/etc/quire") / NAME)
    return next((path for path in places if path is not None and _is_there(path)), None)


def _is_there(path: Path) -> bool:
    """Return whether a file exists, as far as this process may look."""
    try:
        return path.is_file()
    except OSError:
        return False  # no option names it: commands go on without it


def own_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of this user's own file, whether or not it exists; None without a home."""
    home = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~")) / ".config"
    try:
        return Path(home).expanduser() / "quire" / NAME
    except RuntimeError:  # the system knows no home of this user
        return None


def read_file(path: Path | None) -> Configuration:
    """Return the contents of a file, or an empty configuration without one.

    Raises:
        ConfigurationError: the file cannot be read, or is not TOML of this shape.
    """
    if path is None:
        return Configuration()
    try:
        contents = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as TOML: {error}") from error
    context = contents.pop("context", None)
    contexts = contents.pop("contexts", {})
    if context is not None and not isinstance(context, str):
        raise ConfigurationError(f"{path}: context = {context!r} must name a context")
    if not isinstance(contexts, dict):
        raise ConfigurationError(f"{path}: contexts must be tables, such as [contexts.production]")
    return Configuration(path, context, contexts, contents)


def default_map(settings: Sequence[Setting]) -> dict[str, Any]:
    """Return the settings as click takes them: nested by command, keyed by parameter."""
    tree: dict[str, Any] = {}
    for path, option, value in settings:
        table = tree
        for name in path:
            table = table.setdefault(name, {})
        assert option.name is not None, "an option has a name"
        table[option.name] = value
    return tree
