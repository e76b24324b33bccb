"""What `quire log show` tells of the process that leads."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from quire.cli.root import main
from quire.client import Client
from quire.log.manifest.info import LogInfo, info_of
from quire.log.manifest.manifest import LogManifest
from tests.golden.metadata import HELD_LOG


def shown(monkeypatch: pytest.MonkeyPatch, manifest: LogManifest, *options: str) -> str:
    async def answer(_: Client, name: str) -> LogInfo:
        assert name == "orders"
        return info_of(manifest)

    monkeypatch.setattr(Client, "log_info", answer)
    result = CliRunner().invoke(main, ["log", "show", "orders", "--store", "memory:", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def leader_line(text: str) -> list[str]:
    (found,) = (line.split() for line in text.splitlines() if line.split()[:1] == ["leader"])
    return found[1:]


def test_the_process_of_the_last_takeover_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "host host1, process 4711, since 2023-11-14 22:13:20 UTC"
    assert " ".join(leader_line(shown(monkeypatch, HELD_LOG))) == said
    found = json.loads(shown(monkeypatch, HELD_LOG, "--json"))
    assert found["leader"] == {"host": "host1", "pid": 4711, "since_ms": 1_700_000_000_000}


def test_a_log_that_names_no_process_has_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    unnamed = replace(HELD_LOG, holder=None)
    assert leader_line(shown(monkeypatch, unnamed)) == ["-"]
    assert json.loads(shown(monkeypatch, unnamed, "--json"))["leader"] is None


def test_a_time_that_no_calendar_has_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HELD_LOG.holder is not None
    strange = replace(HELD_LOG, holder=HELD_LOG.holder._replace(since_ms=10**17))
    assert leader_line(shown(monkeypatch, strange))[-3:] == [f"{10**17}", "ms", "UTC"]
