"""Commands that are imported when they are named: a process loads its own command only.

Loading all of them took two fifths of the start of every `quire` process, and each bookie that
`quire cluster up` starts is one. Help and completion of the outermost command load all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Final

import click

from quire.cli.variables import ROOT, name_variables, variable


class Commands(MutableMapping[str, click.Command]):
    """The commands of a group by name, as `click.Group` takes them."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """Args:
        places: for each name of a command, where it is: `module:attribute`.
        """
        self._places: Final = dict(places)
        self._loaded: Final[dict[str, click.Command]] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            command = getattr(import_module(module), attribute)
            assert isinstance(command, click.Command), self._places[name]
            name_variables(command, variable(ROOT, name))
            self._loaded[name] = command
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._places[name] = ""  # never read: it is loaded
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places
