"""The options that choose a configuration file and a context, and what they lead to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from quire.cli.configuration import (
    Configuration,
    Setting,
    default_map,
    find_file,
    own_file,
    read_file,
)
from quire.errors import ConfigurationError

_KEY: Final = "quire.cli.chosen"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The configuration of this command line."""

    configuration: Configuration = field(default_factory=Configuration)
    context: str | None = None
    settings: tuple[Setting, ...] = ()
    wrong: ConfigurationError | None = None
    """Why the file cannot be used. Only commands that look at the file itself go on."""


def chosen(context: click.Context) -> Chosen:
    """Return the configuration that a command runs with."""
    found = context.find_root().meta.get(_KEY, Chosen())
    assert isinstance(found, Chosen), "only this module writes it"
    return found


def raise_what_is_wrong(context: click.Context) -> None:
    """Raise the `ConfigurationError` of a file that cannot be used, if there is one."""
    wrong = chosen(context).wrong
    if wrong is not None:
        raise wrong


def _choose(context: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Read the file once both options are known, before other options look for their values."""
    known: dict[str, Any] = {**context.params, str(param.name): value}
    if not {"config", "context_name"} <= set(known) or context.resilient_parsing:
        return value
    root = context.command
    assert isinstance(root, click.Group), "options of the outermost command"
    configuration = Configuration()
    try:
        configuration = read_file(find_file(known["config"]))
        settings = tuple(configuration.settings(root, known["context_name"]))
        name = configuration.chosen(known["context_name"])
    except ConfigurationError as error:
        context.meta[_KEY] = Chosen(configuration, wrong=error)
        return value
    context.meta[_KEY] = Chosen(configuration, name, settings)
    context.default_map = default_map(settings)
    return value


class ContextOption(click.Option):
    """An option that a context sets. What `--context` chose wins over the environment: it is on the
    command line.
    """

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """Return the value and where it is from, as click asks for it."""
        value, source = super().consume_value(ctx, opts)
        if source is not ParameterSource.ENVIRONMENT or ctx.parent is not None:
            return value, source
        if ctx.get_parameter_source("context_name") is not ParameterSource.COMMANDLINE:
            return value, source
        of_context = (ctx.default_map or {}).get(str(self.name))
        return (value, source) if of_context is None else (of_context, ParameterSource.DEFAULT_MAP)


config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=str),
    envvar="QUIRE_CONFIG",
    is_eager=True,
    callback=_choose,
    help="Configuration file. [env: QUIRE_CONFIG; default: quire.toml here, below ~/.config/quire "
    "or /etc/quire]",
)
context_option = click.option(
    "--context",
    "context_name",
    metavar="NAME",
    envvar="QUIRE_CONTEXT",
    is_eager=True,
    callback=_choose,
    help="Context of the configuration file. [env: QUIRE_CONTEXT]",
)


def file_to_write(context: click.Context) -> Path:
    """Return the file that contexts are written to.

    It is the file of --config or QUIRE_CONFIG, which need not exist yet; without them the file in
    use, also if it cannot be read; without any, this user's own. Raises `ConfigurationError` if
    there is none of these.
    """
    given = context.find_root().params["config"]
    file = Path(given) if given is not None else find_file(None) or own_file()
    if file is None:
        raise ConfigurationError(
            "this user has no home for a configuration file: name a file by --config or "
            "QUIRE_CONFIG, or set HOME"
        )
    return file
