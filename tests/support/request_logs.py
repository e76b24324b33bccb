"""The logs of a client and of a bookie, both real processes, compared by the ids of requests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from quire.cluster import LocalCluster
from tests.support.command import environment

SLOW = re.compile(r"slow (\w+): [0-9.]+ s \(([^)]*)\), request ([^,]+), (.*)")
BEGUN = re.compile(r"subscription ([^ ]+) (?:at bookie [^ ]+: ledger|of ledger) (\d+)")


class Told(NamedTuple):
    """A request in a log."""

    kind: str
    request: str
    ledger: int | None
    stages: tuple[str, ...]


class Logs(NamedTuple):
    """What both sides told."""

    client: list[Told]
    bookie: list[Told]
    fenced: int
    """The ledger that was written, read and fenced."""
    followed: int

    def shared(self, kind: str, ledger: int) -> list[tuple[Told, Told]]:
        """Return the requests of a kind about a ledger that both sides named alike."""
        there = {(each.kind, each.request): each for each in self.bookie if each.ledger == ledger}
        return [
            (each, there[each.kind, each.request])
            for each in self.client
            if each.kind == kind and each.ledger == ledger and (kind, each.request) in there
        ]


def told(log: str, form: str) -> list[Told]:
    """Return the requests in a log. A line that is not of the form is an error."""
    if form == "text":
        return list(_told_by_lines(log))
    return list(_told_by_objects([json.loads(line) for line in log.splitlines()]))


def _told_by_lines(log: str) -> list[Told]:
    found = []
    for line in log.splitlines():
        if (slow := SLOW.search(line)) is not None:
            kind, spent, request, about = slow.groups()
            ledger = re.search(r"ledger (\d+)", about)
            stages = tuple(each.split()[0] for each in spent.split(", "))
            found.append(Told(kind, request, int(ledger[1]) if ledger else None, stages))
        elif (begun := BEGUN.search(line)) is not None:
            found.append(Told("subscription", begun[1], int(begun[2]), ()))
    return found


def _told_by_objects(lines: list[Mapping[str, object]]) -> list[Told]:
    found = []
    for line in lines:
        ledger, request = line.get("ledger"), str(line.get("request"))
        assert ledger is None or isinstance(ledger, int)
        if line.get("event") == "slow_request":
            stages = line["stages"]
            assert isinstance(stages, dict)
            found.append(Told(str(line["kind"]), request, ledger, tuple(stages)))
        elif str(line["message"]).startswith("subscription "):
            found.append(Told("subscription", request, ledger, ()))
    return found


async def logs_of_both(directory: Path, form: str, serve: str = "") -> Logs:
    """Run a bookie and a client, and return what their logs tell.

    Args:
        directory: where both are; it is empty.
        form: the form of both logs, `text` or `json`.
        serve: further lines of the bookie's configuration.
    """
    file = directory / "quire.toml"
    file.write_text(
        f'[bookie.serve]\nlog-format = "{form}"\nlog-level = "debug"\n{serve}\n'
        '[bookie.serve.limits]\nslow-request-seconds = "0s"\n'
    )
    with patch.dict(os.environ, {"QUIRE_CONFIG": str(file)}):
        async with LocalCluster(directory / "data", 1) as cluster:
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.request_client", cluster.store_uri, form),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment(),
            )
            out, log = await client.communicate()
        assert client.returncode == 0, log.decode()
        said = json.loads(out)
        bookie = (directory / "data" / "bookie-0.log").read_text()
        return Logs(told(log.decode(), form), told(bookie, form), **said)
