"""What deploy/ and the documents tell people to run is what the programs accept.

Nothing is started here: command lines go through the real parser, settings through the real URI
parser, and files that repeat each other are compared.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from quire.cli.configuration import read_file
from quire.cli.exits import INTERRUPTED, exit_code
from quire.cli.root import main
from quire.errors import ConfigurationError, WrongBookieError
from quire.metastore.zookeeper_uri import parse_uri
from quire.storage.identity.cookie import COOKIE
from quire.storage.server import EXIT_FATAL

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

IMAGE_SETTINGS = {
    "ZOO_TICK_TIME": "tickTime",
    "ZOO_INIT_LIMIT": "initLimit",
    "ZOO_SYNC_LIMIT": "syncLimit",
    "ZOO_4LW_COMMANDS_WHITELIST": "4lw.commands.whitelist",
    "ZOO_MAX_CLIENT_CNXNS": "maxClientCnxns",
}
"""What the image of ZooKeeper takes from its environment, and the lines of zoo.cfg it makes."""


def parse(arguments: list[str]) -> click.Context:
    """Parse a `quire` command line as the program does, without running it."""
    context = main.make_context("quire", list(arguments))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None, arguments
        context = command.make_context(name, rest, parent=context)
    return context


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of each `quire` in shell text: up to a pipe, a semicolon, && or ||."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] | None = None
    for token in lexer:
        if token.strip("();<>|&") == "":
            if words is not None:
                yield words
            words = None
        elif words is not None:
            words.append(token)
        elif token == "quire" or token.endswith("/quire"):
            words = []
    if words is not None:
        yield words


PAGES = ("README.md", "tutorial/**/*.md", "docs/*.md", "docs/how-to/deploy.md", "examples/*.py")
"""The commands of the other how-to pages run: tests/docs."""


def documented() -> Iterator[Any]:
    for path in sorted({path for glob in PAGES for path in ROOT.glob(glob)}):
        page = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        found = [line for line in text.splitlines() if re.match(r"\s{4,}\S*.*\bquire ", line)]
        found += re.findall(r"`(quire [a-z][^`]*)`", text)
        for line in found:
            code = re.split(r"\s{2,}#", line.strip())[0]
            if re.match(r"(quire|python -m quire|\S.*\| quire|[a-z]+ .*\| quire) ", code):
                yield pytest.param(code, id=f"{page}:{code[:60]}")


@pytest.mark.parametrize("line", list(documented()))
def test_a_documented_command_line_is_accepted(line: str) -> None:
    for arguments in command_lines(line):
        if arguments[-1:] and not any(mark in line for mark in ("…", "...")):
            try:
                parse(arguments)
            except click.MissingParameter:
                # Text may name a command without saying what it is used on; it must exist.
                assert line.startswith("quire "), line


def examples(group: click.Group) -> Iterator[str]:
    """The examples that `--help` shows of each command."""
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from examples(command)
        else:
            lines = re.sub(r"\\\n *", "", command.help or "").splitlines()
            yield from (line.strip() for line in lines if re.match(r" +(\S.* \| )?quire ", line))


@pytest.mark.parametrize("line", sorted(examples(main)))
def test_an_example_of_the_help_is_accepted(line: str) -> None:
    (arguments,) = command_lines(line)
    parse(arguments)


def test_the_parser_is_no_rubber_stamp() -> None:
    with pytest.raises(click.NoSuchOption):
        parse(["bookie", "serve", "/data", "--listne", "h:1"])
    with pytest.raises(click.UsageError):
        parse(["bookie", "server", "/data"])
    assert list(command_lines("a | /opt/quire log list && exec quire cluster status; x")) == [
        ["log", "list"],
        ["cluster", "status"],
    ]


def unit(name: str) -> configparser.RawConfigParser:
    parsed = configparser.RawConfigParser(strict=False)
    parsed.optionxform = str  # type: ignore[assignment]
    parsed.read(DEPLOY / "systemd" / name)
    return parsed


def test_the_bookie_unit_runs_what_exists_and_knows_the_exit_codes() -> None:
    service = unit("quire-bookie.service")["Service"]
    (arguments,) = command_lines(service["ExecStart"])
    context = parse(arguments)
    assert context.command_path == "quire bookie serve"
    assert context.params["listen"] == "${QUIRE_LISTEN}"
    assert context.params["listen_runs"] == "${QUIRE_LISTEN_RUNS}"
    hopeless = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert hopeless == {
        exit_code(ConfigurationError("")),
        exit_code(WrongBookieError("", "", "")),
    }
    assert EXIT_FATAL not in hopeless
    assert service["Restart"] == "on-failure"
    assert int(service["SuccessExitStatus"]) == INTERRUPTED, "a stop is no failure"
    # systemd makes /var/lib/NAME, and nothing else can be written.
    state = f"/var/lib/{service['StateDirectory']}/"
    assert str(context.params["directory"]).startswith(state)


NAMES = (
    *("QUIRE_STORE", "QUIRE_LISTEN", "QUIRE_LISTEN_RUNS"),
    "QUIRE_BOOKIE_SERVE_INSECURE_NETWORK",
)


def test_the_units_environment_is_that_of_the_runbook() -> None:
    text = (DEPLOY / "systemd" / "quire-bookie.service").read_text(encoding="utf-8")
    runbook = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for name in NAMES:
        (example,) = re.findall(rf"^# ({name}=.*)$", text, re.MULTILINE)
        assert example in runbook
    store = re.findall(r"QUIRE_STORE=(zk://\S+)", text)[0]
    assert parse_uri(store).addresses == [(f"zoo{n}", 2181) for n in (1, 2, 3)]


def config() -> dict[str, str]:
    lines = (DEPLOY / "zookeeper" / "zoo.cfg").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_zookeeper_unit_reads_the_configuration_and_may_write_where_it_says() -> None:
    service = unit("zookeeper.service")["Service"]
    command = shlex.split(service["ExecStart"])
    assert command[-2:] == [
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        "/etc/zookeeper/zoo.cfg",
    ]
    assert config()["dataDir"] == f"/var/lib/{service['StateDirectory']}"


def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_the_composed_services_know_each_other() -> None:
    composed = compose()
    services = composed["services"]
    mounted = [
        volume.split(":") for each in services.values() for volume in each.get("volumes", ())
    ]
    assert sorted(name for name, _ in mounted) == sorted(composed["volumes"])
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services)
        assert service.get("hostname", name) == name
        store = service["environment"].get("QUIRE_STORE")
        for host, _ in parse_uri(store).addresses if store else ():
            assert host in services


def test_the_composed_zookeepers_are_one_ensemble_as_zoo_cfg_has_it() -> None:
    services = compose()["services"]
    zookeepers = {name: each for name, each in services.items() if name.startswith("zoo")}
    settings = config()
    for name, service in zookeepers.items():
        environment = service["environment"]
        members = dict(member.split("=") for member in environment["ZOO_SERVERS"].split())
        mine = members[f"server.{environment['ZOO_MY_ID']}"]
        peers, _, client = mine.partition(";")
        assert peers == settings[f"server.{environment['ZOO_MY_ID']}"]
        assert (peers.split(":")[0], client) == (name, settings["clientPort"])
        rest = environment.keys() - {"ZOO_SERVERS", "ZOO_MY_ID"}
        assert rest == IMAGE_SETTINGS.keys()
        for variable, line in IMAGE_SETTINGS.items():
            assert environment[variable] == settings[line], line
        assert {volume.split(":")[1] for volume in service["volumes"]} == {"/data", "/datalog"}
    assert len(zookeepers) == 3


def test_the_composed_bookies_run_what_exists() -> None:
    services = compose()["services"]
    bookies = {name: each for name, each in services.items() if name.startswith("bookie")}
    for name, service in bookies.items():
        assert service["entrypoint"] == ["/bin/sh", "-c"]
        (script,) = service["command"]
        script = script.replace("$$", "$")
        format_, serve = (parse(arguments) for arguments in command_lines(script))
        assert format_.command_path == "quire bookie format"
        assert serve.command_path == "quire bookie serve"
        assert format_.params["directory"] == serve.params["directory"]
        directory = serve.params["directory"]
        # Formatting happens once: a disk that is formatted has this file.
        assert script.startswith(f"[ -e {directory}/{COOKIE} ] || ")
        assert serve.params["listen"] == "$HOSTNAME:4181"
        assert serve.params["listen_runs"] == "$HOSTNAME:4182"
        assert serve.params["insecure_network"], "no bookie starts on a network without it"
        (volume,) = service["volumes"]
        assert volume == f"{name}:{directory.parent}"
    assert len(bookies) == 4


def test_the_composed_bookies_are_probed_where_they_answer() -> None:
    bookie = compose()["services"]["bookie1"]
    (script,) = bookie["command"]
    _, serve = (parse(arguments) for arguments in command_lines(script.replace("$$", "$")))
    probe = bookie["healthcheck"]["test"][-1]
    assert f"http://{serve.params['metrics']}/readyz" in probe
    compile(probe, "healthcheck", "exec")


def kubernetes() -> list[dict[str, Any]]:
    text = (DEPLOY / "kubernetes" / "bookies.yaml").read_text(encoding="utf-8")
    return [dict(each) for each in yaml.safe_load_all(text)]


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "ConfigMap", "StatefulSet"])
def test_an_object_for_kubernetes_fits_its_schema(kind: str) -> None:
    import kubernetes_validate

    (found,) = [each for each in kubernetes() if each["kind"] == kind]
    kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)
    assert kind in {each["kind"] for each in kubernetes()}


def test_the_pods_of_kubernetes_run_what_exists(tmp_path: Path) -> None:
    service, _, settings, bookies = kubernetes()
    pod = bookies["spec"]["template"]["spec"]
    (bookie,) = pod["containers"]
    (before,) = pod["initContainers"]
    (serve,) = (parse(arguments) for arguments in command_lines(bookie["args"][0]))
    (format_,) = (parse(arguments) for arguments in command_lines(before["args"][0]))
    directory = serve.params["directory"]
    assert format_.params["directory"] == directory
    assert before["args"][0].startswith(f"[ -e {directory}/{COOKIE} ] || ")
    ports = {each["name"]: each["containerPort"] for each in bookie["ports"]}
    assert ports == {each["name"]: each["port"] for each in service["spec"]["ports"]}
    assert serve.params["listen"].endswith(f":{ports['grpc']}")
    assert serve.params["listen_runs"].endswith(f":{ports['runs']}")
    assert bookie["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
    assert bookie["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    (tmp_path / "quire.toml").write_text(settings["data"]["quire.toml"])
    configured = read_file(tmp_path / "quire.toml").settings(main, None)
    values = {option.name: value for _, option, value in configured}
    assert values["metrics"].endswith(f":{ports['metrics']}")
    assert values["insecure_network"] is True, "no bookie starts on a network without it"
    assert len(parse_uri(values["store"]).addresses) == 3


def test_systemd_is_told_by_the_bookie() -> None:
    service = unit("quire-bookie.service")["Service"]
    assert service["Type"] == "notify"
    assert float(service["WatchdogSec"]) > 10
    assert service["TimeoutStartSec"] == "infinity"


def test_the_image_is_built_from_what_is_there_and_runs_the_command() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    entry = next(line for line in lines if line.startswith("ENTRYPOINT "))
    assert json.loads(entry.removeprefix("ENTRYPOINT ")) == ["quire"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'quire = "quire_command:main"' in project
    image = next(line for line in lines if line.startswith("FROM "))
    version = re.findall(r"python:(\d+)\.(\d+)", image)[0]
    least = re.findall(r'requires-python = ">=(\d+)\.(\d+)"', project)[0]
    assert tuple(map(int, version)) >= tuple(map(int, least))
    bookie = compose()["services"]["bookie1"]
    assert (DEPLOY / bookie["build"]["context"]).resolve() == ROOT
    assert (ROOT / bookie["build"]["dockerfile"]).is_file()


def test_remarks_in_the_compose_file_name_commands_that_exist() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    said = re.findall(r"^\s*# docker compose .* run --rm client (.*)$", text, re.MULTILINE)
    assert said
    for line in said:
        parse(shlex.split(line))
