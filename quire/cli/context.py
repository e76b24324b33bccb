"""`quire context`: named clusters in the configuration file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import tomlkit

from quire.cli.chosen import chosen, file_to_write, raise_what_is_wrong
from quire.cli.configuration import NAME, read_file
from quire.cli.output import print_json, print_table
from quire.cli.settings import Settings, with_settings
from quire.errors import ConfigurationError
from quire.metastore.place import place_of
from quire.private_files import FILE_MODE, make_directories


@click.group(short_help="Name clusters, and choose one.")
def context() -> None:
    """Name clusters in the configuration file, and choose the one that commands use."""


@context.command("list", short_help="List the contexts.")
@with_settings
@click.pass_context
def list_(click_context: click.Context, settings: Settings) -> None:
    """List the contexts of the configuration file. A star marks the context in use.

    \b
    Example:
      quire context list
    """
    raise_what_is_wrong(click_context)
    found = chosen(click_context)
    contexts = found.configuration.contexts
    if settings.json:
        for name, values in contexts.items():
            print_json({"context": name, "used": name == found.context, **values})
        return
    rows = [
        ("*" if name == found.context else "", name, str(values.get("store", "")))
        for name, values in contexts.items()
    ]
    empty = "There is no context: `quire context add NAME --store URI` makes one."
    print_table(("", "context", "store"), rows, empty=empty)


@context.command(short_help="Name a cluster.")
@click.argument("name")
@click.option("--use", "use_it", is_flag=True, help="Also use it from now on.")
@with_settings
@click.pass_context
def add(click_context: click.Context, settings: Settings, name: str, use_it: bool) -> None:
    """Give the cluster at --store a name, or an existing name another cluster.

    Commands use the first context until another is chosen. Other settings of the context, and
    comments in the file, stay as they are. A directory is written with its whole path, unless the
    file is ./quire.toml.

    \b
    Examples:
      quire context add production --store zk://zoo1:2181,zoo2:2181/quire
      quire context add here --store ./quire-data --use
    """
    _check_name(name)
    store = settings.store
    if store is None:
        raise click.UsageError("a context needs --store URI")

    def change(document: MutableMapping[str, Any], file: Path) -> None:
        contexts = document.setdefault("contexts", tomlkit.table(is_super_table=True))
        values = contexts.setdefault(name, _table_in(contexts))
        if not isinstance(values, MutableMapping):
            raise ConfigurationError(f"{file}: contexts.{name} must be a table: [contexts.{name}]")
        values["store"] = _from_anywhere(store, file)
        if use_it or len(contexts) == 1:
            document["context"] = name

    _tell(settings, name, _change(click_context, change), "context {name} is in {file}")


@context.command(short_help="Choose the context that commands use.")
@click.argument("name")
@with_settings
@click.pass_context
def use(click_context: click.Context, settings: Settings, name: str) -> None:
    """Choose the context that commands use without --context or QUIRE_CONTEXT.

    \b
    Example:
      quire context use production
    """

    def change(document: MutableMapping[str, Any], file: Path) -> None:
        _check_known(document, name)
        document["context"] = name

    _tell(settings, name, _change(click_context, change), "commands use context {name} ({file})")


@context.command(short_help="Forget a context.")
@click.argument("name")
@with_settings
@click.pass_context
def remove(click_context: click.Context, settings: Settings, name: str) -> None:
    """Forget a context. The cluster is not touched.

    \b
    Example:
      quire context remove staging
    """

    def change(document: MutableMapping[str, Any], file: Path) -> None:
        _check_known(document, name)
        del document["contexts"][name]
        if document.get("context") == name:
            del document["context"]

    _tell(settings, name, _change(click_context, change), "context {name} is gone from {file}")


def _check_name(name: str) -> None:
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
        raise ConfigurationError(
            f"{name!r} cannot name a context: letters, digits, '-', '_' and '.' can"
        )


def _check_known(document: MutableMapping[str, Any], name: str) -> None:
    contexts = document.get("contexts", {})
    if name not in contexts:
        raise ConfigurationError(
            f"context {name!r} does not exist (there is: {', '.join(contexts) or 'none'}); "
            f"`quire context add {name} --store URI` adds it"
        )


def _table_in(contexts: MutableMapping[str, Any]) -> Any:
    """Return a new table, of the kind that fits into the others."""
    is_inline = isinstance(contexts, tomlkit.items.InlineTable)
    return tomlkit.inline_table() if is_inline else tomlkit.table()


def _from_anywhere(store: str, file: Path) -> str:
    """Return a store as every directory understands it. ./quire.toml is used in one only."""
    if "://" in store or store == "memory:" or file == Path(NAME):
        return store
    return str(place_of(store))


def _change(
    click_context: click.Context, change: Callable[[MutableMapping[str, Any], Path], None]
) -> Path:
    """Change the file as a whole: another process reads the old one or the new one, and changes
    the new one. A link stays a link.
    """
    file = file_to_write(click_context)
    place = file.resolve()
    make_directories(place.parent)
    with _locked(place.parent):
        try:
            text = place.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            text = ""
        read_file(file if text else None)  # a file that is not TOML is left alone
        document = tomlkit.parse(text)
        change(document, file)
        partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            mode = place.stat().st_mode & 0o777 if text else FILE_MODE
            with open(os.open(partial, flags, mode), "w", encoding="utf-8") as written:
                written.write(tomlkit.dumps(document))
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
    return file


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Have a directory alone in the block, among processes that ask for it too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _tell(settings: Settings, name: str, file: Path, text: str) -> None:
    if settings.json:
        print_json({"context": name, "file": str(file)})
    else:
        click.echo(text.format(name=name, file=file))
