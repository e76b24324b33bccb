"""Golden files of the tools: a backup, a segment's file in a tier, events, a bookie's directory."""

from __future__ import annotations

import asyncio
import json
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from quire.event_log import EventLog
from quire.log.cold.reader import ParquetEntries
from quire.log.manifest.cold_files import ColdFile
from quire.metadata.archive import Archive, ArchiveWriter, Saved, Summary
from quire.storage.disk.local import LocalDisk
from tests.golden import make_directory
from tests.golden.golden import Golden

SUMMARY = Summary("c" * 32, 1, 4711, 1_700_000_000_000, 2)
SAVED = [Saved("/quire/cluster", b"quire cluster"), Saved("/quire/ledger-ids", b"\x00\xff")]


def _write_archive() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "backup"
        with ArchiveWriter(target) as writer:
            for record in SAVED:
                writer.add(record)
            writer.finish(SUMMARY)
        return target.read_bytes()


def _read_archive(data: bytes) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "backup"
        source.write_bytes(data)
        with Archive(source) as archive:
            return list(archive.records()), archive.summary


def _write_events() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        log = EventLog(Path(directory), "bookie", "b")
        log.fenced(7)
        log.denied(7, 3, 9)
        log.close()
        return log.path.read_bytes()


def _read_events(data: bytes) -> Any:
    return [json.loads(line) for line in data.splitlines()]


def _missing() -> bytes:
    raise FileNotFoundError("write it with tests/golden/make_directory.py")


def _read_cold(data: bytes) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / make_directory.LOG_ID / make_directory.COLD.name
        place.parent.mkdir()
        place.write_bytes(data)
        cold = ColdFile(f"file://{place.parent}", place.name, *make_directory.COLD[2:4])
        file = ParquetEntries(cold, make_directory.LEDGER, None)
        groups = file.groups(0, len(make_directory.BATCHES) - 1)
        return [entry.payload for group in groups for entry in file.read(group)]


def _read_directory(data: bytes) -> Any:
    """Serve the directory, and ask for everything that it should hold."""

    async def read() -> Any:
        with tempfile.TemporaryDirectory() as directory:
            zipfile.ZipFile(BytesIO(data)).extractall(directory)
            disk = LocalDisk(Path(directory))
            return await make_directory.look(disk)

    return asyncio.run(read())


OTHERS = (
    Golden(
        "metadata.backup",
        (SAVED, SUMMARY),
        _write_archive,
        _read_archive,
        ("Backup of a metadata store",),
    ),
    Golden(
        "bookie.ndjson",
        [
            {"n": 1, "kind": "begins", "format": 1, "process": "bookie-b", "life": 1},
            {"n": 2, "kind": "fenced", "ledger": 7},
            {"n": 3, "kind": "denied", "ledger": 7, "first": 3, "last": 9},
        ],
        _write_events,
        _read_events,
        ("Event files",),
    ),
    Golden("cold.parquet", make_directory.BATCHES, _missing, _read_cold, ("Cold segment",)),
    Golden("bookie.zip", make_directory.HELD, _missing, _read_directory, ("A bookie's directory",)),
)
