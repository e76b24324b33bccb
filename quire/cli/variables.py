"""The environment variable of each option: `QUIRE_`, the command, and the option, in capitals.

click would name it after the parameter of the function, which may be called otherwise than the
option that the user types.
"""

from __future__ import annotations

from typing import Final

import click

from quire.cli.configuration import CHOICES, long_name

ROOT: Final = "QUIRE"
"""The prefix of all variables."""


def name_variables(command: click.Command, prefix: str) -> None:
    """Give each option of a command, and of those below it, the variable of its long name.

    An option that names a variable of its own keeps it.

    Args:
        command: the command; of the outermost one only its own options count, since the commands
            below it are loaded later.
        prefix: `QUIRE`, and the names of the command and of those above it, with `_` between them.
    """
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in CHOICES:
            option.allow_from_autoenv = False
            if option.envvar is None:
                option.envvar = variable(prefix, long_name(option))
    if isinstance(command, click.Group) and prefix != ROOT:
        for name, below in command.commands.items():
            name_variables(below, variable(prefix, name))


def variable(prefix: str, name: str) -> str:
    """Return the name of a variable."""
    return f"{prefix}_{name}".upper().replace("-", "_")
