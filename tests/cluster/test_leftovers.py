"""What a local cluster leaves behind when something is wrong: nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from quire.cli.exits import INTERRUPTED
from quire.cli.root import main as quire_command
from quire.cluster import LocalCluster
from quire.cluster.process import BookieProcess, _Protocol
from quire.errors import ConfigurationError
from quire.metastore.place import resolve_store


def test_a_cluster_that_cannot_be_made_leaves_no_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigurationError):
        LocalCluster(zookeeper=2)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_noted_leaves_the_note_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: half a note would name no store, to every client and to the next start."""
    before, after = (f"sqlite://{tmp_path}/{name}.db" for name in ("before", "after"))
    LocalCluster(tmp_path, store=before)._remember_store()
    write = Path.write_text

    def write_half(path: Path, text: str, **options: Any) -> int:
        write(path, text[:3], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", write_half)
        with pytest.raises(ConfigurationError, match="No space left"):
            LocalCluster(tmp_path, store=after)._remember_store()
    assert resolve_store(str(tmp_path)) == before
    LocalCluster(tmp_path, store=after)._remember_store()
    assert resolve_store(str(tmp_path)) == after


def test_a_file_in_the_current_directory_is_no_module_of_a_bookie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not yours')\n")
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with LocalCluster(tmp_path / "data", 1) as cluster:
            assert cluster.ready(0) is not None

    asyncio.run(main())


def test_a_bookie_whose_log_is_gone_still_has_last_words(tmp_path: Path) -> None:
    """Otherwise nobody hears of its death, and stopping the cluster stops halfway."""
    transport = Mock(spec=asyncio.SubprocessTransport)
    transport.get_returncode.return_value = 74
    process = BookieProcess(transport, Mock(), "bookie-0", tmp_path / "gone.log")
    assert "code 74" in process.last_words()


def test_a_stop_that_is_cut_short_kills_and_clears_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a second Ctrl-C, of somebody for whom bookies end too slowly."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> list[signal.Signals]:
        transport = Mock(spec=asyncio.SubprocessTransport)
        protocol = _Protocol()
        sent: list[signal.Signals] = []
        asked = asyncio.Event()

        def send(number: signal.Signals) -> None:
            sent.append(number)
            if number is signal.SIGTERM:
                asked.set()
            elif number is signal.SIGKILL:
                protocol.process_exited()

        transport.send_signal.side_effect = send
        cluster = LocalCluster(bookies=1)
        cluster._processes[0] = BookieProcess(transport, protocol, "bookie-0", tmp_path / "log")
        stopping = asyncio.create_task(cluster.stop())
        await asked.wait()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        return sent

    assert asyncio.run(main())[-1] is signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_is_cut_short_waits_for_what_still_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    begun, may_end = threading.Event(), threading.Event()

    def make(directory: Path) -> None:
        begun.set()
        may_end.wait()
        directory.mkdir(parents=True)

    async def format_slowly(directory: Path, _: str) -> None:
        await asyncio.to_thread(make, directory)

    async def main() -> None:
        monkeypatch.setattr("quire.cluster.local.format_directory", format_slowly)
        starting = asyncio.create_task(LocalCluster(bookies=1).start())
        await asyncio.to_thread(begun.wait)
        starting.cancel()
        asyncio.get_running_loop().call_later(0.05, may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await starting
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_signal_between_making_and_starting_a_cluster_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(LocalCluster):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("quire.cli.cluster.LocalCluster", Interrupted)
    result = CliRunner().invoke(quire_command, ["cluster", "up", "--temporary", "--bookies", "1"])
    assert result.exit_code == INTERRUPTED
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_the_one_that_connect_finds_by_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    cluster = LocalCluster("~/data", bookies=1)
    cluster.directory.mkdir()
    (cluster.directory / "metadata.db").touch()
    assert cluster.store_uri == resolve_store("~/data")
    with pytest.raises(ConfigurationError, match="'~nobody-here/data' cannot be used"):
        LocalCluster("~nobody-here/data")
