"""The environment variable of each option, and input that no command takes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import click.testing
import pytest

from quire.cli.configuration import CHOICES, long_name
from quire.cli.root import main
from quire.metadata.backup import back_up
from quire.metastore import create_store
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER
from quire.metastore.memory import MemoryStore

OWN = {"QUIRE_PASSWORD", "QUIRE_PEER_PASSWORD", "QUIRE_KEY_FILE"}
OWN |= {"QUIRE_HEALING_DELAY", "QUIRE_AUDITOR", "QUIRE_LABELS"}
"""Variables that several commands share."""


def options(
    path: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Option]]:
    """Yield all options of a command and of those below it, each with its command."""
    yield from ((path, each) for each in command.params if isinstance(each, click.Option))
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from options((*path, name), below)


def test_a_variable_is_named_after_the_command_and_the_option() -> None:
    others = set()
    for path, option in options((), main):
        if option.name in CHOICES:
            continue
        words = "_".join(("quire", *path, long_name(option))).upper().replace("-", "_")
        if option.envvar != words:
            assert isinstance(option.envvar, str)
            others.add(option.envvar)
    assert others <= OWN


def test_an_option_with_another_parameter_has_its_variable() -> None:
    done = click.testing.CliRunner(env={"QUIRE_TLS": "bogus"}).invoke(main, ["log", "list"])
    assert done.exit_code == 2
    assert "'bogus' is not one of 'required', 'optional'" in done.stderr
    done = click.testing.CliRunner(env={"QUIRE_LOG_READ_FROM": "1.x"}).invoke(
        main, ["log", "read", "a"]
    )
    assert "'1.x' is not a" in done.stderr


@pytest.mark.parametrize(
    "words", [("--tls", "required", "log", "list"), ("bookie", "serve", "d", "--tls", "optional")]
)
def test_tls_without_certificates_is_refused(words: tuple[str, ...]) -> None:
    found = click.testing.CliRunner().invoke(main, ["--store", "memory:", *words])
    assert found.exit_code == 2
    assert "needs --tls-cert, --tls-key and --tls-ca" in found.stderr


def test_no_store_is_made_for_a_file_that_is_no_backup(tmp_path: Path) -> None:
    store, file = tmp_path / "new.db", tmp_path / "file"
    for text in (None, "no backup"):
        if text is not None:
            file.write_text(text)
        words = ["metadata", "restore", str(file), "--store", f"sqlite://{store}"]
        assert click.testing.CliRunner().invoke(main, words).exit_code in (2, 9)
        assert not store.exists()


def test_a_store_is_made_of_the_file_that_was_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file may take its name while the store is made."""
    file, words = tmp_path / "file", ["metadata", "restore", str(tmp_path / "file"), "--store"]

    async def save() -> None:
        store = MemoryStore()
        await store.create(CLUSTER, Cluster("c").encode())
        await back_up(store, file, 1)

    def create(*given: Any) -> Any:
        (tmp_path / "other").write_text("no backup")
        (tmp_path / "other").replace(file)
        return create_store(*given)

    asyncio.run(save())
    monkeypatch.setattr("quire.cli.metadata.create_store", create)
    done = click.testing.CliRunner().invoke(main, [*words, f"sqlite://{tmp_path / 'new.db'}"])
    assert done.exit_code == 0, done.output
    assert "records are restored" in done.output


def test_rules_that_are_nested_without_end_are_no_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text("[" * 100_000)
    words = ["--store", "memory:", "rights", "apply", str(file)]
    done = click.testing.CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "has no rules" in done.stderr
