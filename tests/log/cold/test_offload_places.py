"""Where files of a log may lie, and what a place that is wrong, foreign or gone does to the log."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from quire.errors import ColdTierError, ConfigurationError, CorruptStorageError, InvalidRequestError
from quire.log.cold import tier as cold_tier
from quire.log.manifest.cold_files import ATTEMPTS, is_any_logs, is_ours, join
from quire.log.records.position import Position
from quire.metastore.layout import log_path
from tests.log.offloading import files, offload, write_log
from tests.support.log_cluster import NAME, PATH, Client, LogCluster

ID = "0123456789abcdef0123456789abcdef"
FILE = "00000001-7-0000abcd.parquet"


async def rewrite(client: Client, **changes: Any) -> None:
    """Write into the log's record what this program never would."""
    found = await client.store.get(PATH)
    wrong = replace(await client.manifest(), **changes)
    await client.store.put(PATH, wrong.encode(), found.version)


@pytest.mark.parametrize(
    "path",
    [
        f"/cold/{ID}/{FILE}",
        f"bucket/{ID}/{FILE}",
        f"/cold/{ID}/{ATTEMPTS}/{FILE}",
        f"/cold/{ID}/{ATTEMPTS}/probe-0000abcd",
        f"/cold/../{ID}/{FILE}",
    ],
)
def test_what_this_program_writes_is_known(path: str) -> None:
    assert is_ours(path, ID)
    assert is_any_logs(path)
    assert not is_ours(path, ID[::-1])


@pytest.mark.parametrize(
    "path",
    [
        "",
        FILE,
        f"/cold/{FILE}",
        f"/cold/{ID}",
        f"/cold/{ID}/",
        f"/cold/{ID}/thesis.txt",
        f"/cold/{ID}/thesis.parquet",
        f"/cold/{ID}/{FILE}/x",
        f"/cold/{ID}/x/{FILE}",
        f"/cold/{ID}/../{FILE}",
        f"/cold/{ID}/{ATTEMPTS}/../{FILE}",
        f"/cold/{ID}/{ATTEMPTS}/{ATTEMPTS}/{FILE}",
        f"/cold/{ID}/..%2f{FILE}",
        f"/cold/{ID}/{FILE}\n",
        f"/cold/{ID}/{FILE}\0",
        f"/cold/{ID}\n/{FILE}",
        f"/cold/{ID.upper()}/{FILE}",
        f"/cold/{ID}/00000001-7-0000ABCD.parquet",
        f"/cold/{ID}/٠٠٠٠٠٠٠١-7-0000abcd.parquet",
        f"/cold/{ID}/probe-0000abcd",
        f"/cold\\{ID}\\{FILE}",
    ],
)
def test_what_this_program_never_writes_is_foreign(path: str) -> None:
    assert not is_ours(path, ID)


@pytest.mark.parametrize("log_id", ["precious", "", "..", ATTEMPTS])
def test_a_record_that_chooses_its_id_gets_no_directory(log_id: str) -> None:
    assert not is_ours(f"/home/{log_id}/{FILE}", log_id)


def test_foreign_names_in_a_record_delete_nothing(tmp_path: Path) -> None:
    """The record says tiers and doomed files, in every spelling that pyarrow takes."""

    async def main() -> None:
        precious = tmp_path / "precious"
        (precious / "home").mkdir(parents=True)
        theirs = [precious / "home" / "thesis.txt", precious / FILE, tmp_path / "precious.txt"]
        for each in theirs:
            each.write_text("x")
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            log_id = (await client.manifest()).log_id
            base, file = tmp_path.as_uri(), theirs[2].as_uri()
            tiers = (
                f"{base}/precious",
                f"{base}/precious/home",
                f"{base}/x/../precious",
                f"{base}/%70recious",
                f"{base}/precious#/{log_id}",
                f"{base}/precious?/{log_id}",
                f"{base}/{log_id}/../precious",
                f"{base}/{log_id}%2f..%2fprecious",
            )
            doomed = (
                file,
                f"{file}#/{log_id}/{FILE}",
                f"{file}?/{log_id}/{FILE}",
                f"{base}/{log_id}/../precious.txt",
                f"{base}/{log_id}/{FILE}/../../precious.txt",
                f"{base}/precious/{FILE}",
                f"{base}/%70recious.txt",
            )
            await rewrite(client, tiers=tiers, doomed_files=doomed)
            await client.logs.trim(NAME, Position(2, 0, 0))
            assert (await client.manifest()).doomed_files == (), "nothing tries again forever"
            await client.logs.offload(NAME).gc()
            await client.logs.delete(NAME)
        assert all(each.exists() for each in theirs)

    asyncio.run(main())


def test_a_link_in_a_tier_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    async def main() -> None:
        thesis = tmp_path / "thesis.txt"
        thesis.write_text("x")
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path / "cold")
            directory = files(tmp_path / "cold")[0].parent
            (directory / "00000009-9-00000009.parquet").symlink_to(thesis)
            (directory / "notes.txt").write_text("of the operator")
            (directory / "00000008-9-00000009.parquet").mkdir()
            await client.logs.delete(NAME)
            assert [each.name for each in files(tmp_path / "cold")] == ["notes.txt"]
        assert thesis.read_text() == "x"

    asyncio.run(main())


def test_a_foreign_file_is_not_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path)
            found = await client.manifest()
            (first, *rest) = found.segments
            assert first.cold is not None
            away = first.cold._replace(name="../../secret.txt")
            (tmp_path / "secret.txt").write_text("x")
            await rewrite(client, rows=(replace(first, cold=away), *rest))
            with pytest.raises(CorruptStorageError, match="no file of a log"):
                await cluster.new_client().read()

    asyncio.run(main())


def test_delete_file_names_what_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(CorruptStorageError, match=r"thesis\.txt"):
        cold_tier.delete_file((tmp_path / "thesis.txt").as_uri(), ID)
    assert (tmp_path / "thesis.txt").exists()


def test_a_place_that_takes_no_files_is_not_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            (tmp_path / "file").write_text("not a directory")
            with pytest.raises(ColdTierError, match="file"):
                await client.logs.offload(NAME).begin(str(tmp_path / "file" / "below"))
            assert (await client.manifest()).tiers == ()
            await client.logs.delete(NAME)

    asyncio.run(main())


def test_a_place_that_gives_back_something_else_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            with monkeypatch.context() as patch:
                patch.setattr(cold_tier, "locate", lambda uri: (_Forgetful(), str(tmp_path)))
                with pytest.raises(ColdTierError, match="other bytes"):
                    await client.logs.offload(NAME).begin(str(tmp_path))
            assert (await client.manifest()).tiers == ()
            await client.logs.offload(NAME).begin(str(tmp_path))
            assert files(tmp_path) == [], "a probe leaves no file"

    asyncio.run(main())


class _Forgetful:
    """A file system that takes everything and keeps nothing."""

    def create_dir(self, path: str, recursive: bool) -> None:
        """Does nothing."""

    def open_output_stream(self, path: str) -> Any:
        return fs.LocalFileSystem().open_output_stream(os.devnull)

    def open_input_file(self, path: str) -> Any:
        return fs.LocalFileSystem().open_input_file(__file__)

    def delete_file(self, path: str) -> None:
        """Does nothing."""


def test_the_rest_of_a_killed_probe_is_swept(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            tier, _ = await client.logs.offload(NAME).begin(str(tmp_path))
            left = Path(cold_tier.locate(join(tier, ATTEMPTS))[1]) / "probe-0000abcd"
            left.write_text("of a killed process")
            await client.logs.offload(NAME).gc()
            assert not left.exists()

    asyncio.run(main())


def test_a_tier_that_vanished_is_empty(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            await client.logs.offload(NAME).begin(str(tmp_path / "cold"))
            (tmp_path / "cold").rename(tmp_path / "elsewhere")
            await client.logs.delete(NAME)
            assert await cluster.ledgers() == []

    asyncio.run(main())


@pytest.mark.parametrize("whole", [True, False])
def test_a_tier_that_does_not_answer_stops_the_deletion_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            records = await write_log(cluster)
            client = cluster.new_client()
            tier, _ = await client.logs.offload(NAME).begin(str(tmp_path))
            listing = cold_tier.list_names

            def refuse(place: str, log_id: str) -> list[str]:
                if tmp_path.name in place:
                    raise ColdTierError(place, "no such bucket")
                return listing(place, log_id)

            monkeypatch.setattr(cold_tier, "list_names", refuse)
            with pytest.raises(ColdTierError, match="--forget-tier"):
                await client.logs.delete(NAME)
            assert await client.read() == records
            with pytest.raises(InvalidRequestError, match="not a tier"):
                await client.logs.delete(NAME, forget_tiers=["file:///elsewhere"])
            assert await client.read() == records
            place = tier if whole else tmp_path.as_uri()
            await client.logs.delete(NAME, forget_tiers=[place])
            assert await cluster.ledgers() == []

    asyncio.run(main())


def test_a_tier_that_no_program_understands_names_the_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            await rewrite(client, tiers=("nosuch://x/y",))
            with pytest.raises(ConfigurationError, match="--forget-tier nosuch://x/y"):
                await client.logs.delete(NAME)
            await client.logs.delete(NAME, forget_tiers=["nosuch://x/y"])

    asyncio.run(main())


def test_a_tier_that_does_not_answer_keeps_no_other_from_being_swept(tmp_path: Path) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            await write_log(cluster)
            client = cluster.new_client()
            await offload(client, tmp_path)
            (path, *_) = files(tmp_path)
            left = path.with_name(f"{path.name[:-16]}0000abcd.parquet")
            left.write_text("of an attempt that died")
            tiers = (await client.manifest()).tiers
            found = await client.store.get(PATH)
            gone = replace(await client.manifest(), tiers=(*tiers, "nosuch://x/y"))
            await client.store.put(PATH, gone.encode(), found.version)
            with pytest.raises(ConfigurationError, match="nosuch"):
                await client.logs.gc_files()
            assert not left.exists()
            first = replace(gone, name="a/a-first-log")
            await client.store.create(log_path("a/a-first-log"), first.encode())
            left.write_text("of an attempt that died")
            with pytest.raises(ConfigurationError, match="nosuch"):
                await client.logs.gc_files()
            assert not left.exists()

    asyncio.run(main())
