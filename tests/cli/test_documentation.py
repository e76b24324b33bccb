"""Every command explains itself, and docs/cli.md explains every command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from quire.cli.root import main

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def groups(group: click.Group, path: str) -> Iterator[tuple[str, click.Group]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield f"{path} {name}", command
            yield from groups(command, f"{path} {name}")


def rendered(command: click.Command, path: str) -> str:
    """What `--help` prints on a terminal of 80 columns."""
    with click.Context(command, info_name=path, terminal_width=80) as context:
        return command.get_help(context)


COMMANDS = dict(commands(main, "quire"))
GROUPS = {"quire": main, **dict(groups(main, "quire"))}


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_is_documented_with_an_example(path: str) -> None:
    _, heading, rest = DOCUMENT.partition(f"\n### {path}\n")
    assert heading, f"docs/cli.md has no section {path!r}"
    section = rest.split("\n### ")[0].split("\n## ")[0]
    assert f"    {path}" in section or f"| {path}" in section, f"no example of {path!r}"


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_has_help_with_an_example(path: str) -> None:
    text = COMMANDS[path].help
    assert text is not None
    assert "Example" in text, f"{path} --help shows no example"
    assert path in text


def test_the_document_names_no_command_that_is_gone() -> None:
    documented = [line[4:] for line in DOCUMENT.splitlines() if line.startswith("### quire ")]
    assert sorted(documented) == sorted(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_has_help(path: str) -> None:
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.name}"


@pytest.mark.parametrize("path", GROUPS)
def test_the_list_of_a_groups_commands_is_whole_at_80_columns(path: str) -> None:
    _, _, listed = rendered(GROUPS[path], path).partition("\nCommands:\n")
    names = [line.split()[0] for line in listed.splitlines()]
    shown = [name for name, each in sorted(GROUPS[path].commands.items()) if not each.hidden]
    assert names == shown, "each command has one line"
    assert "..." not in listed, "short_help is cut off"
    assert "…" not in listed, "short_help is cut off"


@pytest.mark.parametrize("path", [*GROUPS, *COMMANDS])
def test_help_fits_in_80_columns(path: str) -> None:
    text = rendered({**GROUPS, **COMMANDS}[path], path)
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("path", [*list(GROUPS)[1:], *COMMANDS])
def test_every_command_has_a_short_help(path: str) -> None:
    assert {**GROUPS, **COMMANDS}[path].short_help
