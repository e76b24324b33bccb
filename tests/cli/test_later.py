"""A command is imported when it is named, and a process imports no other command."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from quire.cli.later import Commands
from quire.cli.root import PLACES, main


@pytest.mark.parametrize("name", PLACES)
def test_a_place_has_the_command_of_its_name(name: str) -> None:
    assert main.commands[name].name == name


def test_commands_are_told_without_being_loaded() -> None:
    commands = Commands({"absent": "quire.cli.no_such_module:absent"})
    assert (list(commands), len(commands)) == (["absent"], 1)
    assert "absent" in commands
    assert commands.get("other") is None
    with pytest.raises(ModuleNotFoundError):
        commands["absent"]


def test_a_command_can_be_added_and_taken_away() -> None:
    group = click.Group("outer", commands=Commands({"log": "quire.cli.log:log"}))
    group.add_command(click.Command("added"))
    assert group.commands["added"].name == "added"
    del group.commands["log"]
    assert list(group.commands) == ["added"]


@pytest.mark.slow
def test_a_process_imports_its_own_command_only() -> None:
    code = (
        "import sys; from quire.cli.root import main; main.commands['log'];"
        "print(*sorted(name for name in sys.modules if name.startswith('quire.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "quire.cli.log" in loaded
    others = {place.partition(":")[0] for place in PLACES.values()} - {"quire.cli.log"}
    assert others.isdisjoint(loaded)
