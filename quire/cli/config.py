"""`quire config`: what the configuration file says, and where each value comes from."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import click
from click.core import ParameterSource

from quire.cli.chosen import Chosen, chosen, raise_what_is_wrong
from quire.cli.configuration import Setting, long_name, options_of, own_file
from quire.cli.output import Value, note, print_json, print_table
from quire.cli.settings import Settings, with_settings
from quire.errors import ConfigurationError

HIDDEN: Final = "(hidden)"

ADDRESS: Final = "HOST:PORT"
"""How options show that they take an address."""


@click.group(short_help="Check and show the configuration.")
def config() -> None:
    """Check and show the configuration of commands and servers."""


@config.command(short_help="Compare the configuration file with the commands.")
@with_settings
@click.pass_context
def check(context: click.Context, settings: Settings) -> None:
    """Compare the configuration file with the commands.

    A table or key that no command knows, and a value that an option refuses, make the exit code 2.

    \b
    Examples:
      quire config check
      quire --config /etc/quire/quire.toml config check
    """
    raise_what_is_wrong(context)
    found = chosen(context)
    file = found.configuration.file
    for each in found.settings:
        _check_address(file, each)
    if settings.json:
        print_json({"file": file and str(file), "context": found.context, **_counts(found)})
    elif file is None:
        own = own_file()
        places = ("./quire.toml", *([] if own is None else [own]), "/etc/quire/quire.toml")
        note(f"no configuration file: not {', not '.join(map(str, places))}")
    else:
        counts = _counts(found)
        click.echo(f"{file} is right: {counts['settings']} settings, {counts['contexts']} contexts")


def _check_address(file: Path | None, setting: Setting) -> None:
    """Raise `ConfigurationError` for an address that no server could listen on.

    The servers check it as well, when they start. Other commands do not: the library that knows
    the form takes a while to load.
    """
    if setting.option.metavar != ADDRESS or setting.value == "none":
        return
    from quire.wire.transport import split_address

    try:
        split_address(str(setting.value))
    except ConfigurationError as error:
        name, table = long_name(setting.option), ".".join(setting.path)
        raise ConfigurationError(f"{file}: {name} in [{table}]: {error}") from error


def _counts(found: Chosen) -> dict[str, int]:
    return {"settings": len(found.settings), "contexts": len(found.configuration.contexts)}


@config.command(short_help="Print the settings in force.")
@click.argument("command", nargs=-1)
@click.option("--origin", is_flag=True, help="Also print where each value comes from.")
@click.option("--all", "every", is_flag=True, help="Also settings that have their default.")
@with_settings
@click.pass_context
def show(
    context: click.Context,
    settings: Settings,
    command: tuple[str, ...],
    origin: bool,
    every: bool,
) -> None:
    """Print the settings in force, of one command or of all.

    An option on the command line wins over the environment, the environment over the file, the file
    over the default. Passwords are not printed.

    \b
    Examples:
      quire config show --origin
      quire config show bookie serve --all
    """
    raise_what_is_wrong(context)
    asked = [row for row in _rows(context) if row.path[: len(command)] == command]
    if not asked:
        raise click.UsageError(
            f"`quire {' '.join(command)}` does not exist: `quire --help` lists the commands"
        )
    rows = [row for row in asked if every or not row.is_default]
    if settings.json:
        for row in rows:
            print_json(row.fields())
        return
    columns = ("command", "option", "value", "origin")[: 4 if origin else 3]
    cells = [list(row.fields().values())[: len(columns)] for row in rows]
    print_table(columns, cells, empty="Every setting has its default: --all shows them.")


class _Row(NamedTuple):
    path: tuple[str, ...]
    option: str
    value: Value
    origin: str
    is_default: bool

    def fields(self) -> dict[str, Value]:
        name = " ".join(("quire", *self.path))
        return {"command": name, "option": self.option, "value": self.value, "origin": self.origin}


def _rows(context: click.Context) -> Iterator[_Row]:
    root = context.find_root()
    for path, node in _leaves(root):
        for name, option in options_of(node.command, within=path).items():
            assert option.name is not None, "an option has a name"
            if node is root:
                value, source = root.params[option.name], root.get_parameter_source(option.name)
            else:
                value, source = option.consume_value(node, {})
            is_default = source in (None, ParameterSource.DEFAULT)
            where = _origin(node, option, source, chosen(root), path)
            yield _Row(path, name, _shown(option, value), where, is_default)


def _leaves(node: click.Context) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Yield the outermost command, and every command that is no group, in contexts of their own."""
    yield (), node

    def below(
        path: tuple[str, ...], parent: click.Context
    ) -> Iterator[tuple[tuple[str, ...], click.Context]]:
        group = parent.command
        assert isinstance(group, click.Group), "the caller looked"
        for name, command in group.commands.items():
            child = click.Context(command, info_name=name, parent=parent)
            if isinstance(command, click.Group):
                yield from below((*path, name), child)
            else:
                yield (*path, name), child

    yield from below((), node)


def _origin(
    node: click.Context,
    option: click.Option,
    source: ParameterSource | None,
    found: Chosen,
    path: tuple[str, ...],
) -> str:
    match source:
        case ParameterSource.COMMANDLINE:
            return "command line"
        case ParameterSource.ENVIRONMENT:
            return f"environment: {option.envvar}"
        case ParameterSource.DEFAULT_MAP:
            table = ".".join(path) if path else f"contexts.{found.context}"
            return f"{found.configuration.file} [{table}]"
        case _:
            return "default"


def _shown(option: click.Option, value: object) -> Value:
    if value is not None and "password" in long_name(option):
        return HIDDEN
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    if isinstance(value, Enum) and not isinstance(value, str):
        return None  # click's mark of an option without a value
    return value if isinstance(value, bool | int | float | None) else str(value)
