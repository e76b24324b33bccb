"""Every command explains itself, and docs/cli.md explains every command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from quire.cli import main

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


COMMANDS = dict(commands(main, "quire"))


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
