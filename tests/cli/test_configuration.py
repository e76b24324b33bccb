"""`quire.toml`: what a file may say, which value wins, and the commands that show and change it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import click
import click.testing
import pytest

from quire.cli.configuration import find_file, options_of, read_file
from quire.cli.pairs import Pairs, build
from quire.cli.root import main
from quire.errors import ConfigurationError
from quire.storage.journal.options import StorageOptions
from quire.storage.serving.limits import ServiceLimits

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a user's own file, which does not exist yet, with nothing else in sight."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    path = tmp_path / "own" / "quire" / "quire.toml"
    path.parent.mkdir(parents=True)
    return path


def call(*arguments: str, **environment: str) -> click.testing.Result:
    return click.testing.CliRunner(env=environment).invoke(main, [*arguments])


def shown(*arguments: str, **environment: str) -> dict[str, tuple[object, str]]:
    done = call(*arguments, "config", "show", "--all", "--json", **environment)
    assert done.exit_code == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {f"{row['command']} {row['option']}": (row["value"], row["origin"]) for row in rows}


def test_a_command_takes_its_values_from_the_file(file: Path) -> None:
    file.write_text('[log.read]\nlimit = 7\nformat = "{offset}"\n')
    found = shown()
    assert found["quire log read limit"] == (7, f"{file} [log.read]")
    assert found["quire log tail limit"][1] == "default"


def test_the_command_line_wins_over_the_environment_over_the_file(file: Path) -> None:
    key = "quire store"
    assert shown()[key] == (None, "default")
    file.write_text('context = "here"\n[contexts.here]\nstore = "of-file"\n')
    assert shown()[key] == ("of-file", f"{file} [contexts.here]")
    named = "of-environment"
    assert shown(QUIRE_STORE=named)[key] == (named, "environment: QUIRE_STORE")
    assert shown("--store", "given", QUIRE_STORE=named)[key] == ("given", "command line")


def test_a_context_of_the_command_line_wins_over_the_environment(file: Path) -> None:
    file.write_text('[contexts.a]\nstore = "of-a"\n[contexts.b]\ntls-cert = "b.pem"\n')
    stores = {"QUIRE_STORE": "of-environment"}
    assert shown("--context", "a", **stores)["quire store"] == ("of-a", f"{file} [contexts.a]")
    assert shown("--context", "a", "--store", "given", **stores)["quire store"][0] == "given"
    assert shown(QUIRE_CONTEXT="a", **stores)["quire store"][0] == "of-environment"
    found = call("--context", "b", "log", "list", **stores)
    assert "of-environment" in found.stderr or "belong together" in found.stderr


def test_a_place_may_be_a_number_in_the_file(file: Path) -> None:
    file.write_text("[log.read]\nfrom = 3\n[log.tail]\nfrom = 0\n")
    assert call("config", "check").exit_code == 0
    assert shown()["quire log read from"][0] == "3"


def test_an_option_without_a_value_is_shown_without_one(file: Path) -> None:
    found = shown()
    assert found["quire log read from"] == (None, "default")
    assert not [name for name, (value, _) in found.items() if "UNSET" in str(value)]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users of Unix")
def test_without_a_home_there_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    nowhere = {"XDG_CONFIG_HOME": "~no-such-user/x"}
    assert find_file(None, nowhere) is None
    done = call("config", "check", **nowhere)
    assert (done.exit_code, done.stderr) == (
        0,
        "no configuration file: not ./quire.toml, not /etc/quire/quire.toml\n",
    )
    done = call("context", "add", "a", "--store", "zk://a/quire", **nowhere)
    assert done.exit_code == 2
    assert "QUIRE_CONFIG" in done.stderr


def test_a_file_that_may_not_be_looked_at_is_not_there(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    assert find_file(None) is None


def test_a_file_may_be_a_pipe(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"[log.read]\nlimit = 7\n")
    os.close(write)
    done = call("--config", f"/dev/fd/{read}", "config", "check", "--json")
    os.close(read)
    assert json.loads(done.stdout)["settings"] == 1, done.stderr


def test_every_option_has_a_variable(file: Path) -> None:
    file.write_text('[bookie.serve]\nlisten = "127.0.0.1:1"\n')
    found = shown(QUIRE_BOOKIE_SERVE_LISTEN="127.0.0.1:2")
    variable = "environment: QUIRE_BOOKIE_SERVE_LISTEN"
    assert found["quire bookie serve listen"] == ("127.0.0.1:2", variable)


def test_the_store_of_a_context_is_used(file: Path) -> None:
    file.write_text('[contexts.a]\nstore = "nowhere-a"\n[contexts.b]\nstore = "nowhere-b"\n')
    for name in "ab":
        for done in (
            call("--context", name, "log", "list"),
            call("log", "list", QUIRE_CONTEXT=name),
        ):
            assert done.exit_code == 2
            assert f"nowhere-{name}" in done.stderr


def test_a_context_that_prints_json_prints_errors_as_json(file: Path) -> None:
    file.write_text('context = "a"\n[contexts.a]\nstore = "nowhere"\njson = true\n')
    assert json.loads(call("log", "list").stderr)["exit_code"] == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[bookie.serve]\nlisen = 1\n", "did you mean 'listen'?"),
        ("[bookie.sreve]\nlisten = 1\n", "did you mean 'serve'?"),
        ("[bookies]\n", "did you mean 'bookie'?"),
        ("store = 'x'\n", "no key is called 'store'"),
        ("[log.read]\nstore = 'x'\n", "belongs to a context"),
        ("[log.read]\nlimit = 'many'\n", "'many' is not a valid integer range"),
        ("[log.read]\nlimit = true\n", "must be a whole number"),
        ("[log.read]\nlimit = 1.5\n", "must be a whole number"),
        ("[log.read]\nfrom = true\n", "must be one value"),
        ("[log.append]\nheader = [['a']]\n", "must be a list"),
        ('[cluster.up]\ndata = "a\\u0000b"\n', "has a null character"),
        ("[bookie.serve]\nexit-with-parent = 1\n", "must be true or false"),
        ("[cluster.up]\nlabels = 'rack=r1'\n", "must be a list"),
        ("[bookie.serve]\nstorage = {write-cash-bytes = 1}\n", "did you mean 'write_cache_bytes'?"),
        ("[bookie.serve.storage]\nwrite-cache-bytes = '1 horse'\n", "is not a size"),
        ("bookie = 7\n", "bookie = 7 must be a table: [bookie]"),
        ("[bookie]\nserve = 7\n", "must be a table"),
        ("context = 7\n", "must name a context"),
        ("contexts = 7\n", "must be tables"),
        ("[contexts]\na = 7\n", "must be a table"),
        ("[contexts.a]\nstor = 'x'\n", "did you mean 'store'?"),
        ("context = 'b'\n[contexts.a]\n", "context 'b' does not exist"),
        ("[[[", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_every_command(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    for command in (("log", "list"), ("config", "check"), ("config", "show"), ("context", "list")):
        done = call(*command)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert says in done.stderr
        assert str(file) in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_wrong_value_of_another_context_is_found_too(file: Path) -> None:
    file.write_text("[contexts.a]\n[contexts.b]\njson = 7\n")
    assert "json = 7 in [contexts.b]" in call("--context", "a", "config", "check").stderr


@pytest.mark.parametrize("address", ["5", '"127.0.0.1:99999"', '"here"', '":"'])
@pytest.mark.parametrize(
    ("table", "key"),
    [("bookie.serve", "metrics"), ("console", "listen"), ("bookie.serve", "listen")],
)
def test_an_address_that_no_server_could_listen_on_is_found(
    file: Path, table: str, key: str, address: str
) -> None:
    file.write_text(f"[{table}]\n{key} = {address}\n")
    done = call("config", "check")
    assert done.exit_code == 2
    assert f"{key} in [{table}]" in done.stderr
    assert "expected host:port" in done.stderr
    file.write_text('[bookie.serve]\nlisten-runs = "none"\nlisten = "[::1]:0"\n')
    assert call("config", "check").exit_code == 0


def test_a_right_file_is_said_to_be_right(file: Path) -> None:
    assert "no configuration file" in call("config", "check").stderr
    file.write_text("[contexts.a]\nstore = 'x'\n[log.read]\nlimit = 7\n")
    assert call("config", "check").stdout == f"{file} is right: 1 settings, 1 contexts\n"
    done = call("--context", "a", "config", "check", "--json")
    assert json.loads(done.stdout) == {
        "file": str(file),
        "context": "a",
        "settings": 2,
        "contexts": 1,
    }


def test_a_file_that_is_named_must_exist(file: Path, tmp_path: Path) -> None:
    for done in (call("--config", "gone", "log", "list"), call("log", "list", QUIRE_CONFIG="gone")):
        assert done.exit_code == 2
        assert "gone does not exist" in done.stderr


def test_the_first_file_of_three_is_read(file: Path, tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "own")}
    assert find_file(None, environment) is None
    file.touch()
    assert find_file(None, environment) == file
    here = Path("quire.toml")
    here.touch()
    assert find_file(None, environment) == here
    assert find_file(str(file), environment) == file
    assert find_file(None, {"HOME": str(tmp_path)}) == here


def test_the_storage_of_a_bookie_can_be_set(file: Path) -> None:
    file.write_text('[bookie.serve.storage]\nwrite-cache-bytes = "16MiB"\nscrub_seconds = "3d"\n')
    (command,) = [each for each in [main.commands["bookie"]] if isinstance(each, click.Group)]
    storage = options_of(command.commands["serve"], within=("bookie", "serve"))["storage"]
    assert isinstance(storage.type, Pairs)
    settings = read_file(file).settings(main, None)
    (setting,) = settings
    context = click.Context(command.commands["serve"])
    options = build(StorageOptions, storage.type_cast_value(context, setting.value))
    assert (options.write_cache_bytes, options.scrub_seconds) == (16 * 2**20, 3 * 86400)
    assert options.segment_bytes == StorageOptions().segment_bytes


def test_values_that_cannot_work_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="must hold two write caches"):
        build(StorageOptions, [("write_cache_bytes", 2**30)])


def test_passwords_are_not_shown(file: Path) -> None:
    file.write_text('[log.read]\npassword = "open sesame"\n')
    assert shown()["quire log read password"][0] == "(hidden)"


def test_contexts_are_added_used_and_removed(file: Path) -> None:
    file.write_text("# ours\n[log.read]\nlimit = 7 # few\n")
    file.chmod(0o640)
    sa, sb, sc = (f"zk://{name}/quire" for name in "abc")
    assert call("context", "add", "a", "--store", sa).exit_code == 0
    assert call("context", "add", "b", "--store", sb).exit_code == 0
    assert shown()["quire store"][0] == sa, "the first one is used"
    assert call("context", "use", "b").exit_code == 0
    assert shown()["quire store"][0] == sb
    listed = [json.loads(line) for line in call("context", "list", "--json").stdout.splitlines()]
    assert [(each["context"], each["used"], each["store"]) for each in listed] == [
        ("a", False, sa),
        ("b", True, sb),
    ]
    assert call("context", "add", "a", "--store", sc, "--use").exit_code == 0
    assert shown()["quire store"][0] == sc
    assert call("context", "remove", "a").exit_code == 0
    assert shown()["quire store"][0] is None
    text = file.read_text()
    assert "# ours" in text
    assert "limit = 7 # few" in text
    assert file.stat().st_mode & 0o777 == 0o640
    assert [*file.parent.iterdir()] == [file]


def test_the_store_of_a_context_is_the_same_in_every_directory(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("context", "add", "a", "--store", "./data").exit_code == 0
    assert read_file(file).contexts["a"]["store"] == str(tmp_path / "data")
    (tmp_path / "quire.toml").touch()
    assert call("context", "add", "a", "--store", "./data").exit_code == 0
    assert read_file(tmp_path / "quire.toml").contexts["a"]["store"] == "./data"


def test_a_store_that_is_no_directory_is_refused(file: Path) -> None:
    done = call("context", "add", "a", "--store", "~no-such-user/data")
    assert done.exit_code == 2
    assert "'~no-such-user/data' cannot be used" in done.stderr
    assert not file.exists()


def test_a_link_to_a_file_of_contexts_stays_a_link(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("# größe\n", encoding="utf-8")
    file.symlink_to(target)
    assert call("context", "add", "a", "--store", "zk://a/quire").exit_code == 0
    assert file.is_symlink()
    assert read_file(target).contexts.keys() == {"a"}


def test_contexts_that_are_added_at_the_same_time_are_all_there(file: Path) -> None:
    command = (sys.executable, "-m", "quire", "context", "add", "--store", "zk://a/quire")
    adding = [subprocess.Popen((*command, name)) for name in "abcd"]
    assert [each.wait(60) for each in adding] == [0, 0, 0, 0]
    assert read_file(file).contexts.keys() == {*"abcd"}


def test_the_first_context_may_be_chosen_by_the_environment(file: Path) -> None:
    assert call("context", "add", "a", "--store", "zk://a/quire", QUIRE_CONTEXT="a").exit_code == 0
    assert read_file(file).contexts.keys() == {"a"}


@pytest.mark.parametrize("text", ["[contexts]\na = 5\n", "[[contexts.a]]\nstore = 'x'\n"])
def test_what_is_no_context_is_left_alone(file: Path, text: str) -> None:
    file.write_text(text)
    done = call("context", "add", "a", "--store", "zk://a/quire")
    assert done.exit_code == 2
    assert "must be a table: [contexts.a]" in done.stderr
    assert file.read_text() == text


def test_a_context_is_added_to_an_inline_table(file: Path) -> None:
    file.write_text('contexts = {a = {store = "zk://a/quire"}}\n')
    assert call("context", "add", "b", "--store", "zk://b/quire").exit_code == 0
    assert read_file(file).contexts["b"] == {"store": "zk://b/quire"}


def test_a_new_file_is_for_its_owner_only(file: Path) -> None:
    assert call("context", "add", "a", "--store", "sa").exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", ["use", "remove"])
def test_a_context_that_is_not_there_is_refused(file: Path, command: str) -> None:
    done = call("context", command, "gone")
    assert done.exit_code == 2
    assert "context 'gone' does not exist (there is: none)" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize("name", ["", "a b", "a/b", "[x]"])
def test_a_context_has_a_plain_name(file: Path, name: str) -> None:
    done = call("context", "add", name, "--store", "s")
    assert (done.exit_code, file.exists()) == (2, False)
    assert call("context", "add", "a").exit_code == 2, "without a store"


def test_a_file_that_cannot_be_read_is_left_alone(file: Path) -> None:
    for damaged in (file, Path("quire.toml")):
        damaged.write_text("[[[")
        done = call("context", "add", "a", "--store", "s")
        assert done.exit_code == 2
        assert str(damaged) in done.stderr
        assert damaged.read_text() == file.read_text() == "[[["


def test_a_context_goes_to_the_file_that_is_named(file: Path, tmp_path: Path) -> None:
    named = tmp_path / "new" / "ours.toml"
    assert call("--config", str(named), "context", "add", "a", "--store", "s").exit_code == 0
    assert "contexts.a" in named.read_text()
    assert not file.exists()


def test_a_command_that_is_not_there_cannot_be_shown(file: Path) -> None:
    done = call("config", "show", "log", "reed")
    assert done.exit_code == 2
    assert "`quire log reed` does not exist" in done.stderr
    assert call("config", "show", "log", "read", "--all", "--origin").exit_code == 0


@pytest.mark.parametrize("kind", [StorageOptions, ServiceLimits])
def test_the_document_lists_every_size_and_limit_with_its_default(kind: type[object]) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", page, re.MULTILINE))
    option = Pairs(lambda: kind)
    for each in fields(kind):  # type: ignore[arg-type]
        name = each.name.replace("_", "-")
        assert name in rows, f"docs/operations.md does not list {name}"
        pair = option.convert(f"{name}={rows[name].strip()}", None, None)
        assert pair == (each.name, each.default), name
