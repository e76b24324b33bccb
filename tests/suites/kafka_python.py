"""kafka-python's integration tests, from PyPI, against a gateway.

The archive on PyPI has the tests, and not `test/service.py`, which starts Kafka's own servers. A
stand-in says that a server runs already, as the suite has it for `KAFKA_URI`.

The suite creates topics with four partitions, which a fixture fixes. A plugin of pytest has it ask
for one. The tests themselves are not changed: tests that need further partitions fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.suites.record import Outcome
from tests.suites.serving import BUILD, SECONDS_MAX, serving

NAME: Final = "kafka-python"

LIKE: Final = "3.2"
"""The version of Kafka that the client takes a gateway for, by the requests that it answers. Tests
of later ones skip themselves.
"""

TEST_SECONDS: Final = 60

NEEDED: Final = (
    "pytest==8.4.2",
    "pytest-mock==3.15.1",
    "pytest-timeout==2.4.0",
    "py==1.11.0",
    "lz4==4.4.5",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
)

SERVICE: Final = '''"""Kafka runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port


class SpawnedService:
    pass
'''

PLUGIN: Final = '''"""Topics have one partition."""

from functools import partial


def pytest_collection_finish():
    from test.integration.fixtures import KafkaFixture

    KafkaFixture.instance = partial(KafkaFixture.instance, partitions=1)
'''


def install(version: str) -> Path:
    """Install the suite; return its directory. Its Python is in `venv` beside it."""
    base = (BUILD / NAME).absolute()
    if not (base / "venv").exists():
        venv.create(base / "venv", with_pip=True)
    pip = (str(base / "venv/bin/pip"), "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "install", *NEEDED], check=True)
    directory = base / f"kafka_python-{version}"
    options = ("--no-deps", "--no-binary=:all:", f"--dest={base}")
    subprocess.run([*pip, "download", *options, f"{NAME}=={version}"], check=True)
    with tarfile.open(base / f"kafka_python-{version}.tar.gz") as archive:
        archive.extractall(base, filter="data")
    (directory / "test/__init__.py").touch()
    (directory / "test/service.py").write_text(SERVICE)
    (directory / "one_partition.py").write_text(PLUGIN)
    return directory


def run(version: str) -> Outcome:
    """Run the suite against a gateway of a new cluster."""
    directory = install(version)
    report = directory / "report.xml"
    report.unlink(missing_ok=True)
    with serving() as addresses:
        given = {
            "KAFKA_URI": f"kafka://{addresses.kafka}",
            "KAFKA_VERSION": LIKE,
            "KAFKA_ROOT": str(directory),
        }
        subprocess.run(
            [directory.parent / "venv/bin/python", "-m", "pytest", "-p", "one_partition",
             f"--timeout={TEST_SECONDS}", "--tb=short", "-o", "log_level=WARNING",
             f"--junit-xml={report}", "test/integration"],
            cwd=directory, env={**os.environ, **given}, check=False, timeout=SECONDS_MAX,
            stdout=sys.stderr,
        )  # fmt: skip
    return outcome_of(report.read_text())


def outcome_of(report: str) -> Outcome:
    """Return what a report of pytest says."""
    passed, failed, skipped = set[str](), set[str](), 0
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}".removeprefix("test.integration.")
        said = {each.tag for each in case}
        if said & {"failure", "error"}:
            failed.add(name)
        elif "skipped" in said:
            skipped += 1
        else:
            passed.add(name)
    return Outcome(frozenset(passed - failed), frozenset(failed), skipped)
