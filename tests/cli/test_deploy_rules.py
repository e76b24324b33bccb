"""What every file of deploy/ keeps to, by rules of our own: no container and no unit is started.

Where `systemd-analyze` is there, it judges the units as well. What needs Docker (the build of the
image, the start of containers) is not tried; `make sandbox` tries the unit on a real bookie.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml

from quire.cli.root import main
from tests.cli.test_deploy import DEPLOY, ROOT, compose, kubernetes, unit
from tests.sandbox.launch import settings_of

UNITS = ("quire-bookie.service", "zookeeper.service")
EXPOSURE_MAX = 30
"""Of 100, as `systemd-analyze security` counts: 14 and 15 today, 85 before the sandbox."""

YES = (
    *("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectClock"),
    *("ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules"),
    *("ProtectKernelTunables", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID"),
    *("LockPersonality", "RemoveIPC"),
)


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_gives_its_process_no_more_than_it_needs(name: str) -> None:
    found = settings_of(DEPLOY / "systemd" / name)
    assert {each: found.get(each) for each in YES} == {each: ["yes"] for each in YES}
    assert found["ProtectSystem"] == ["strict"]
    assert (found["CapabilityBoundingSet"], found["AmbientCapabilities"]) == ([""], [""])
    assert found["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
    wanted, unwanted = found["SystemCallFilter"]
    assert wanted == "@system-service"
    assert "@privileged" in unwanted.removeprefix("~").split()
    assert found["SystemCallErrorNumber"] == ["EPERM"], "a call that is denied kills no bookie"
    assert found["UMask"] == ["0077"]
    assert found["User"] not in ([], ["root"])
    assert "ProcSubset" not in found, "an alert needs the start of the process"


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_repeats_only_what_adds_up(name: str) -> None:
    found = settings_of(DEPLOY / "systemd" / name)
    repeated = {each for each, lines in found.items() if len(lines) > 1}
    assert repeated <= {"SystemCallFilter"}, "the last line would count, and the others mislead"
    assert set(unit(name)) == {"DEFAULT", "Unit", "Service", "Install"}


@pytest.mark.parametrize("name", UNITS)
def test_systemd_calls_a_unit_well_enclosed(name: str) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        return  # the rules above judge it everywhere
    path = DEPLOY / "systemd" / name
    asked = ("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(path))
    judged = subprocess.run([program, *asked], capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    checked = subprocess.run([program, "verify", str(path)], capture_output=True, text=True)
    said = [line for line in checked.stderr.splitlines() if name.partition(".")[0] in line]
    assert all("is not executable" in line for line in said), said


SERVICE_KEYS = {
    *("image", "build", "restart", "stop_grace_period", "depends_on", "healthcheck", "hostname"),
    *("environment", "entrypoint", "command", "volumes", "profiles", "read_only", "tmpfs"),
    *("cap_drop", "security_opt"),
}
"""Keys of a service in the Compose Specification, as far as we use them."""

HEALTH_KEYS = {"test", "interval", "timeout", "start_period"}
DURATION = re.compile(r"(\d+(us|ms|s|m|h))+")


def test_the_compose_file_has_the_form_of_its_specification() -> None:
    found = compose()
    assert set(found) - {each for each in found if each.startswith("x-")} == {"services", "volumes"}
    for name, service in found["services"].items():
        assert re.fullmatch(r"[a-zA-Z0-9._-]+", name)
        assert set(service) <= SERVICE_KEYS, name
        assert service.get("restart", "no") in ("no", "always", "on-failure", "unless-stopped")
        assert all(isinstance(each, str) for each in service["environment"].values()), name
        for volume in service.get("volumes", ()):
            source, _, target = volume.partition(":")
            assert source in found["volumes"]
            assert target.startswith("/"), name
        health = service.get("healthcheck", {})
        assert set(health) <= HEALTH_KEYS
        for key in ("interval", "timeout", "start_period"):
            assert DURATION.fullmatch(health.get(key, "1s"))
        assert health.get("test", ["CMD"])[0] in ("CMD", "CMD-SHELL", "NONE")
        assert DURATION.fullmatch(service.get("stop_grace_period", "1s"))
    assert all(options is None for options in found["volumes"].values())


def test_a_composed_bookie_has_no_right_of_root_and_writes_to_its_volume() -> None:
    for name, service in compose()["services"].items():
        if name.startswith("bookie"):
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            assert service["security_opt"] == ["no-new-privileges:true"]
            assert service["tmpfs"] == ["/tmp"]
            (volume,) = service["volumes"]
            assert volume.partition(":")[2] in dockerfile()["VOLUME"]


def dockerfile() -> dict[str, list[str]]:
    """Return the instructions of the Dockerfile, each with its arguments in order."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(rest.strip())
    return found


def test_the_dockerfile_keeps_to_the_rules_of_images() -> None:
    found = dockerfile()
    assert next(iter(found)) == "FROM"
    known = {"FROM", "COPY", "RUN", "USER", "VOLUME", "ENTRYPOINT"}
    assert set(found) <= known, "an instruction without a rule here"
    for image in found["FROM"]:
        assert re.fullmatch(r"[a-z/]+:[0-9][\w.-]*", image), "a tag that stays at one version"
    assert found["USER"][-1] not in ("root", "0"), "the last user is the one that serves"
    (entry,) = found["ENTRYPOINT"]
    assert isinstance(json.loads(entry), list), "the shell form would keep signals from the bookie"
    for command in found["RUN"]:
        assert "sudo" not in command
        assert "pip install" not in command or "--no-cache-dir" in command
        assert "apt-get install" not in command
    assert not any(re.search(r"(?i)password|token|secret", line) for line in found["RUN"])
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "build"} <= set(ignored), "they would be in the image's layers"


def variables(group: click.Group, prefix: str) -> Iterator[str]:
    """The environment variables that the options of all commands read."""
    for option in group.params:
        yield f"{prefix}_{str(option.name).upper()}"
    for name, command in group.commands.items():
        below = f"{prefix}_{name.upper().replace('-', '_')}"
        if isinstance(command, click.Group):
            yield from variables(command, below)
        else:
            for option in command.params:
                yield f"{below}_{str(option.name).upper()}"
                told = getattr(option, "envvar", None)
                yield from [told] if isinstance(told, str) else told or ()


def test_every_variable_in_a_deploy_file_is_read_by_an_option() -> None:
    known = {*variables(main, "QUIRE"), "QUIRE_STORE", "QUIRE_CONFIG"}
    used: dict[str, list[str]] = {}
    for path in sorted(each for each in DEPLOY.rglob("*") if each.is_file()):
        for name in re.findall(r"\bQUIRE_[A-Z_]+\b", path.read_text(encoding="utf-8")):
            used.setdefault(name, []).append(path.name)
    given = set(re.findall(r"\$\{(QUIRE_[A-Z_]+)\}", (DEPLOY / "systemd" / UNITS[0]).read_text()))
    assert given, "the unit gives options their values"
    assert set(used) - given <= known, used


def test_pods_have_no_right_of_root() -> None:
    pod: Any = next(each for each in kubernetes() if each["kind"] == "StatefulSet")
    spec = pod["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in (*spec["containers"], *spec["initContainers"]):
        locked = each["securityContext"]
        assert locked["capabilities"] == {"drop": ["ALL"]}
        assert (locked["allowPrivilegeEscalation"], locked["readOnlyRootFilesystem"]) == (
            False,
            True,
        )
        places = [mount["mountPath"] for mount in each["volumeMounts"] if not mount.get("readOnly")]
        assert places == ["/data"]


def test_every_yaml_file_of_deploy_is_read_whole() -> None:
    for path in sorted(DEPLOY.rglob("*.y*ml")):
        assert list(yaml.safe_load_all(path.read_text(encoding="utf-8"))), path
