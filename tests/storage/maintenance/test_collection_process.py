"""Garbage collection in a real bookie process whose disk is full."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import quire
from quire.errors import QuireError
from quire.ledgers import LedgerOptions, LedgerWriter, Replication
from quire.storage.identity.identity import format_directory

SOON = 60.0
DISK_BYTES = 12 * 1024 * 1024
ROOT = Path(__file__).resolve().parents[2]
ONE = Replication(1, 1, 1)


@asynccontextmanager
async def small_bookie(directory: Path, uri: str) -> AsyncIterator[str]:
    """A bookie process on a disk of 12 MB; yields its id."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.storage.small_bookie", str(directory), uri, str(DISK_BYTES)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SOON):
            yield (await process.stdout.readline()).decode().strip()
        assert process.returncode is None
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def fill(ledger: LedgerWriter) -> None:
    for _ in range(1000):
        await ledger.append_many([bytes(4096)] * 16)


def test_a_full_bookie_takes_new_entries_after_what_filled_it_was_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        uri = f"sqlite://{tmp_path}/metadata.db"
        await format_directory(tmp_path / "bookie", uri)
        async with (
            small_bookie(tmp_path / "bookie", uri) as bookie,
            quire.connect(uri, options=LedgerOptions(append_timeout=2.0)) as client,
        ):
            full = await client.create_ledger(ONE)
            with pytest.raises(QuireError):
                await fill(full)
            with contextlib.suppress(QuireError):
                await full.close()
            assert not (await client.bookie_info(bookie)).writable
            await client.delete_ledger(full.ledger)
            while not (await client.bookie_info(bookie)).writable:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            while not all(each.writable for each in client.bookies()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            info = await client.bookie_info(bookie)
            assert info.disk_free_bytes >= DISK_BYTES // 2
            assert info.counters["collection_ledgers_dropped"] == 1
            assert info.counters["compaction_files_removed"] > 0
            assert info.counters["compaction_bytes_reclaimed"] >= DISK_BYTES // 4
            assert {name.partition("_")[0] for name in info.counters} >= {"read", "scrub"}
            after = await client.create_ledger(ONE)
            await after.append(b"again")
            await after.close()

    asyncio.run(main())
