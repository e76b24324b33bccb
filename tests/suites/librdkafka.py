"""librdkafka's tests that need a server, against a gateway: quick, and with idempotent producers.

The source comes with node-rdkafka, which has all of it, from npm's registry. It is built with gcc.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.suites.record import Outcome
from tests.suites.serving import BUILD, SECONDS_MAX, serving

NAME: Final = "librdkafka"
IDEMPOTENT_NAME: Final = "librdkafka-idempotent"

PACKAGE: Final = "node-rdkafka"
PACKAGES: Final = {"2.12.0": "3.6.1"}
"""Versions of the package by version of librdkafka."""

LIKE: Final = "3.2.0"
"""The version of Kafka that a gateway is compared with. Tests of later ones skip themselves."""

OPTIONS: Final = ("-Q", "-E", "-L", "-p1")
"""Quick, without emulated networks, and without tests that ask no server; one after the other."""

MOCK: Final = ("0139", "0150")
"""Tests that ask a server of their own, and take minutes. They are left out."""

ENDLESS: Final = ("0118",)
"""Tests that wait for ever for a second partition. A test beyond its time ends the whole run, so
they run by themselves, for `ENDLESS_SECONDS`.
"""

ENDLESS_SECONDS: Final = 20

OUTPUT: Final = "output.txt"
"""What the tests of the last run said."""


def install(version: str) -> Path:
    """Download and build the tests; return their directory."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("g++") is None or shutil.which("make") is None:
        raise SystemExit("npm, g++ or make is not installed: apt-get install npm g++ make")
    base = (BUILD / NAME).absolute()
    directory = base / "package/deps/librdkafka/tests"
    if (directory / "test-runner").exists():
        return directory
    base.mkdir(parents=True, exist_ok=True)
    package = PACKAGES[version]
    subprocess.run([npm, "pack", "--silent", f"{PACKAGE}@{package}"], cwd=base, check=True)
    with tarfile.open(base / f"{PACKAGE}-{package}.tgz") as archive:
        archive.extractall(base, filter="data")
    source = directory.parent
    (source / "configure").chmod(0o755)
    for command in (
        ["./configure", "--disable-gssapi", "--disable-lz4-ext"],
        ["make", "-j2", "libs"],
        ["make", "-j2", "-C", "tests", "test-runner"],
    ):
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
    return directory


def run(version: str) -> Outcome:
    """Run the suite against a gateway of a new cluster."""
    return _run(version, OPTIONS)


def run_idempotent(version: str) -> Outcome:
    """Run the suite, with idempotent producers in all tests."""
    return _run(version, (*OPTIONS, "-P"))


def _run(version: str, options: Sequence[str]) -> Outcome:
    directory = install(version)
    report = directory / "report.json"
    for old in (report, directory / OUTPUT):
        old.unlink(missing_ok=True)
    with serving() as addresses:
        (directory / "test.conf").write_text(
            f"metadata.broker.list={addresses.kafka}\ntest.topic.random=true\n"
        )
        skipping = {"TESTS_SKIP": ",".join((*MOCK, *ENDLESS)), "TEST_REPORT": str(report)}
        _test(directory, options, SECONDS_MAX, skipping)
        for name in ENDLESS:
            if _test(directory, options, ENDLESS_SECONDS, {"TESTS": name}):
                raise RuntimeError(f"test {name} of {NAME} passes: it is endless no more")
    return outcome_of(json.loads(report.read_text()))


def _test(directory: Path, options: Sequence[str], seconds: int, given: dict[str, str]) -> bool:
    """Run tests. Return whether all of them passed."""
    libraries = f"{directory.parent}/src:{directory.parent}/src-cpp"
    variables = {"LD_LIBRARY_PATH": libraries, "TEST_KAFKA_VERSION": LIKE, "TEST_LEVEL": "1"}
    with (directory / OUTPUT).open("ab") as output:
        try:
            done = subprocess.run(
                [directory / "test-runner", *options], cwd=directory, check=False,
                env={**os.environ, **variables, **given}, timeout=seconds, stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def outcome_of(report: dict[str, Any]) -> Outcome:
    """Return what a report says. A test that was left out as endless has failed."""
    passed, failed, skipped = set[str](), set[str](), 0
    for name, test in report["tests"].items():
        if name == "<MAIN>":
            continue
        if test["state"] == "PASSED":
            passed.add(name)
        elif test["state"] != "SKIPPED" or name.startswith(ENDLESS):
            failed.add(name)
        else:
            skipped += 1
    return Outcome(frozenset(passed), frozenset(failed), skipped)
