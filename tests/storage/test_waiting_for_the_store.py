"""A bookie waits for a metadata store that is out of reach, and for nothing else."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from quire.errors import StoreUnavailableError, WrongBookieError
from quire.metastore import open_store
from quire.metastore.store import MetadataStore
from quire.storage.identity.directories import open_directory
from quire.storage.identity.identity import format_directory
from quire.storage.server import wait_for_store
from quire.storage.serving.vitals import Stage, Vitals


@pytest.mark.real_time
async def test_a_store_that_comes_back_is_found(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    bookie = await format_directory(tmp_path / "bookie", uri)
    failures = [StoreUnavailableError(uri, "no answer")] * 2

    async def open_at_last() -> MetadataStore:
        if failures:
            raise failures.pop()
        return await open_store(uri)

    stages: list[tuple[Stage, str]] = []
    vitals = Vitals(lambda stage, remark: stages.append((stage, remark)))
    disk = await open_directory(tmp_path / "bookie", read_only=True)
    try:
        store, cookie = await wait_for_store(open_at_last, disk, vitals, random.Random(1))
        await store.close()
    finally:
        await disk.close()
    assert cookie.bookie == bookie
    assert [stage for stage, _ in stages] == [Stage.WAITING] * 2
    assert "no answer" in stages[0][1]


@pytest.mark.real_time
async def test_a_store_of_another_cluster_is_not_waited_for(tmp_path: Path) -> None:
    await format_directory(tmp_path / "bookie", f"sqlite://{tmp_path}/a.db")
    await format_directory(tmp_path / "other", f"sqlite://{tmp_path}/b.db")
    disk = await open_directory(tmp_path / "bookie", read_only=True)
    opening = partial(open_store, f"sqlite://{tmp_path}/b.db")
    try:
        with pytest.raises(WrongBookieError):
            await wait_for_store(opening, disk, Vitals(), random.Random(1))
    finally:
        await disk.close()
