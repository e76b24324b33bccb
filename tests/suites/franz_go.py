"""franz-go's tests of its client, from Go's module proxy, against a gateway.

Tests that ask no server are left out: they say nothing about a gateway.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.suites.record import Outcome
from tests.suites.serving import SECONDS_MAX, serving

NAME: Final = "franz-go"
MODULE: Final = "github.com/twmb/franz-go"

OPTIONS: Final = {
    "KGO_TEST_RF": "1",
    "KGO_TEST_MAX_TOPIC_PARTS": "1",
    "KGO_TEST_RECORDS": "20000",  # 500,000 by default
    "KGO_LOG_LEVEL": "none",
}
"""Switches of the suite. A test that names its number of partitions does not follow them."""

ENDLESS: Final = ("TestTxnEtl",)
"""Tests that try for ever what is refused. They run by themselves, for `ENDLESS_SECONDS`."""

ENDLESS_SECONDS: Final = 30

_TEST: Final = re.compile(r"(Test\w+)\(")
_ASKS: Final = re.compile(
    r"\b(tmp(Named)?Topic|tmpGroup|tmpShareGroup|newTestClient|adm|getSeedBrokers|testClientOpts"
    r"|testChainETL)\w*\("
)
"""Functions of the suite that ask a server."""


def go() -> str:
    """Return the path of Go's command."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise SystemExit("Go is not installed: https://go.dev/dl")
    return found


def install(version: str) -> Path:
    """Download the module; return its directory in Go's cache."""
    command = [go(), "mod", "download", "-json", f"{MODULE}@{version}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Path(json.loads(said)["Dir"])


def tests_of(source: str) -> list[str]:
    """Return the tests in a file of Go that ask a server."""
    functions = re.split(r"(?m)^func ", source)[1:]
    named = [(_TEST.match(each), each) for each in functions]
    return [found[1] for found, text in named if found is not None and _ASKS.search(text)]


def run(version: str) -> Outcome:
    """Run the suite against a gateway of a new cluster."""
    directory = install(version)
    files = sorted((directory / "pkg/kgo").glob("*_test.go"))
    names = [name for file in files for name in tests_of(file.read_text())]
    with serving() as addresses:
        lines = [
            *_test(directory, addresses.kafka, sorted(set(names) - set(ENDLESS)), SECONDS_MAX),
            *_test(directory, addresses.kafka, ENDLESS, ENDLESS_SECONDS),
        ]
    return outcome_of(lines)


def _test(directory: Path, address: str, names: Sequence[str], seconds: int) -> list[str]:
    """Return what `go test` says."""
    command = [go(), "test", "-json", "-count=1", f"-timeout={seconds}s"]
    done = subprocess.run(
        [*command, f"-run=^({'|'.join(names)})$", "./pkg/kgo"],
        cwd=directory,
        env={**os.environ, **OPTIONS, "KGO_SEEDS": address},
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS_MAX,
    )
    return done.stdout.splitlines()


def outcome_of(lines: Iterable[str]) -> Outcome:
    """Return what events of `go test` say. A test without an end has failed."""
    ends: dict[str, str] = {}
    for line in lines:
        event = json.loads(line)
        name = event.get("Test")
        if name is None:
            continue
        ends.setdefault(name, "fail")
        if event["Action"] in ("pass", "fail", "skip"):
            ends[name] = event["Action"]
    by = {end: {name for name, each in ends.items() if each == end} for end in set(ends.values())}
    passed, failed = by.get("pass", set()), by.get("fail", set())
    return Outcome(frozenset(passed), frozenset(failed), len(by.get("skip", ())))
