"""The runbooks of docs/operations.md: every command runs as it stands, on one cluster of processes
whose bookies are stopped, killed and robbed of their disks between them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import quire.sync
from quire.ledgers import Replication
from quire.sync import SyncLocalCluster
from tests.docs.pages import ROOT, Step, run_line, steps_of
from tests.drills.small_disk import note_of

PAGE: Final = ROOT / "docs" / "operations.md"
BOOKIES: Final = 6
LEDGERS: Final = 12
ENTRIES: Final = 5
CONFIGURATION: Final = """
[bookie.serve]
healing-delay = "2s"

[bookie.serve.storage]
mend-seconds = "200ms"
"""
INTERRUPTED: Final = 130
"""A bookie that was asked to end, and did: deploy/systemd calls it success."""
ROOM_BYTES: Final = 1 << 50
"""The disk of the machine that runs the test is not the matter."""


def runbooks() -> dict[str, str]:
    """Return the text of each runbook, by its title."""
    found = re.split(r"^### Runbook: (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        title: re.split("^## ", text, maxsplit=1, flags=re.MULTILINE)[0]
        for title, text in zip(found[1::2], found[2::2], strict=True)
    }


class Site:
    """A cluster, what its operator calls on a machine, and what happens to it."""

    def __init__(self, cluster: SyncLocalCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.written: dict[int, list[bytes]] = {}
        self.names = [self._name(index) for index in range(BOOKIES)]

    def _name(self, index: int) -> str:
        ready = self.cluster.ready(index)
        assert ready is not None
        return ready.bookie

    def systemctl(self, action: str, index: int) -> None:
        """Stop or start a bookie, as systemd does."""
        if action == "start":
            self.cluster.restart(index)
            return
        assert action == "stop"
        os.kill(self.cluster.pid(index), signal.SIGTERM)
        death = self.cluster.next_death()
        assert (death.index, death.exit_code) == (index, INTERRUPTED)

    def lose(self, index: int) -> None:
        """Kill a bookie, remove its disk, and return when its session is over."""
        self.cluster.kill(index)
        shutil.rmtree(self.cluster.bookie_directory(index))
        with quire.sync.connect(self.cluster.store_uri) as client:
            while self.names[index] in {each.bookie for each in client.bookies()}:
                time.sleep(0.05)  # the time limit of the test ends it

    def write(self) -> None:
        with quire.sync.connect(self.cluster.store_uri) as client:
            for _ in range(LEDGERS):
                with client.create_ledger(Replication(3, 3, 2)) as writer:
                    payloads = [b"%d.%d" % (writer.ledger, each) for each in range(ENTRIES)]
                    writer.append_many(payloads)
                self.written[writer.ledger] = payloads

    def check(self) -> None:
        """Every entry that was acknowledged is there."""
        with quire.sync.connect(self.cluster.store_uri) as client:
            for ledger, payloads in self.written.items():
                with client.open_ledger(ledger) as reader:
                    assert [each.payload for each in reader.read(0)] == payloads


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    data, configuration = tmp_path / "quire-data", tmp_path / "quire.toml"
    configuration.write_text(CONFIGURATION)
    monkeypatch.setenv("QUIRE_CONFIG", str(configuration))
    monkeypatch.chdir(tmp_path)
    data.mkdir(0o700)
    for index in range(BOOKIES):
        note_of(data / f"bookie-{index}").write_text(str(ROOM_BYTES))
    cluster = SyncLocalCluster(data, bookies=BOOKIES)
    cluster._cluster.program = ("-m", "tests.drills.small_disk")
    with cluster:
        yield Site(cluster, tmp_path)


def play(site: Site, monkeypatch: pytest.MonkeyPatch, title: str, index: int) -> None:
    """Run the steps of a runbook for one bookie."""
    monkeypatch.setenv("BOOKIE", site.names[index][:12])
    for step in steps_of(runbooks()[title]):
        if step.reason is None:
            assert step.commands is not None
            for line in step.commands.splitlines():
                play_line(site, line, index)


def play_line(site: Site, line: str, index: int) -> None:
    match shlex.split(line, comments=True):
        case ["systemctl", action, "quire-bookie"]:
            site.systemctl(action, index)
        case _:
            run_line(line.strip(), site.directory)


@pytest.mark.timeout(900)
def test_the_runbooks_do_what_they_say(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.write()
    play(site, monkeypatch, "nothing is to move for a while", 0)
    play(site, monkeypatch, "restart or upgrade the bookies", 0)

    for index in (0, 1):
        site.systemctl("stop", index)
    play(site, monkeypatch, "many bookies are missing at once", 0)
    site.check()
    for index in (0, 1):
        site.systemctl("start", index)

    site.write()
    play(site, monkeypatch, "a bookie is to leave", 2)

    site.lose(3)
    play(site, monkeypatch, "a bookie is lost", 3)
    site.check()


def test_every_runbook_is_played_and_one_step_is_not() -> None:
    played = (ROOT / "tests" / "docs" / "test_runbooks.py").read_text(encoding="utf-8")
    found: list[Step] = []
    for title, text in runbooks().items():
        assert f'monkeypatch, "{title}"' in played
        found += steps_of(text)
    assert [each.commands for each in found if each.reason] == [
        "    /opt/quire/bin/pip install --upgrade 'quire[all]'\n"
    ]
