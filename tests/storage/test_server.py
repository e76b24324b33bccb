from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from quire.bookie import BookieAddress
from quire.entry import DigestKind, Sealer
from quire.errors import (
    ConfigurationError,
    CorruptStorageError,
    DirectoryInUseError,
    NoSuchNodeError,
    QuireError,
    ReadOnlyBookieError,
    SharedFilesError,
    StoreWentBackError,
    WrongBookieError,
)
from quire.ledger.remote import RemoteBookie
from quire.metastore import open_store
from quire.metastore.heartbeat import Heartbeat
from quire.metastore.layout import (
    BOOKIES,
    CLUSTER,
    LEDGER_IDS,
    bookie_path,
    cookie_path,
    heartbeat_path,
    standing_path,
)
from quire.metastore.registration import decode_registration
from quire.metastore.standing import SERVING, Standing, Wish
from quire.metastore.store import MetadataStore
from quire.repair.directory import examine_directory, repair_directory
from quire.run import pack_run
from quire.storage.identity.directories import open_directory
from quire.storage.identity.identity import format_directory
from quire.storage.journal.options import StorageOptions
from quire.storage.server import EXIT_FATAL, serve
from tests.support.counter import give_out

SEALER = Sealer(7, DigestKind.CRC32C, b"secret")
KEY = SEALER.access_key
SOON = 20.0
SMALL = StorageOptions(segment_bytes=1024 * 1024)


def run_of(entry: int) -> bytes:
    return pack_run([SEALER.seal(entry, entry - 1, 2**40, b"x")])


def uri_of(path: Path) -> str:
    return f"sqlite://{path}/metadata.db"


@asynccontextmanager
async def served(path: Path, listen: str = "127.0.0.1:0") -> AsyncIterator[BookieAddress]:
    """A server of `path/bookie` in this process, from its registration to its orderly end."""
    ready: asyncio.Future[BookieAddress] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(path / "bookie", uri_of(path), listen, on_ready=ready.set_result, options=SMALL)
    )
    task.add_done_callback(lambda _: ready.cancel())
    try:
        async with asyncio.timeout(SOON):
            try:
                address = await ready
            except asyncio.CancelledError:
                await task
                raise
        yield address
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_bookie_serves_what_it_served_before(tmp_path: Path) -> None:
    async def main() -> None:
        bookie = await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        await give_out(uri_of(tmp_path), below=8)
        for life in range(3):
            async with served(tmp_path) as address:
                assert address.bookie == bookie
                assert address.writable
                stub = RemoteBookie(address)
                await stub.add(7, KEY, run_of(life))
                assert await stub.list_entries(7) == [(0, life)]
                await stub.close()

    asyncio.run(main())


def test_a_bookie_is_registered_while_it_serves(tmp_path: Path) -> None:
    async def main() -> None:
        bookie = await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        store = await open_store(uri_of(tmp_path))
        async with served(tmp_path) as address:
            found = await store.get(bookie_path(bookie))
            assert decode_registration(bookie, found.value) == address
        with pytest.raises(NoSuchNodeError):
            await store.get(bookie_path(bookie))
        await store.close()

    asyncio.run(main())


def test_a_bookie_obeys_its_standing_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        bookie = await format_directory(
            tmp_path / "bookie", uri_of(tmp_path), entries=[tmp_path / "big"]
        )
        await give_out(uri_of(tmp_path), below=8)
        store = await open_store(uri_of(tmp_path))
        drain = Standing(Wish.DRAIN, "old disk", "anna@desk", 1)
        version = await store.create(standing_path(bookie), drain.encode())
        async with served(tmp_path) as address:
            assert not address.writable
            stub = RemoteBookie(address)
            with pytest.raises(ReadOnlyBookieError, match="an operator's wish is in force: drain"):
                await stub.add(7, KEY, run_of(0))
            await stub.add(7, KEY, run_of(0), recovery=True)
            beat = await heartbeat(store, bookie, Wish.DRAIN)
            assert (beat.address, beat.writable) == (address.address, False)
            assert [(each.path, each.holds) for each in beat.disks] == [
                (str(tmp_path / "bookie"), "main+journal"),
                (str(tmp_path / "big"), "entries"),
            ]
            assert all(0 < each.free_bytes < each.total_bytes for each in beat.disks)
            await store.put(standing_path(bookie), SERVING.encode(), version)
            assert (await heartbeat(store, bookie, Wish.SERVE)).writable
            await stub.add(7, KEY, run_of(1))
            await stub.close()
        await store.close()

    asyncio.run(main())


async def heartbeat(store: MetadataStore, bookie: str, wish: Wish) -> Heartbeat:
    """The bookie's heartbeat, as soon as it obeys a wish."""
    path, version = heartbeat_path(bookie), None
    async with asyncio.timeout(SOON):
        while True:
            with suppress(NoSuchNodeError):
                record = await store.get(path)
                version = record.version
                found = Heartbeat.decode(bookie, record.value)
                if found.wish is wish:
                    return found
            await store.wait(path, version)


def test_a_directory_is_served_once(tmp_path: Path) -> None:
    async def main() -> None:
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        async with served(tmp_path):
            with pytest.raises(DirectoryInUseError):
                await serve(tmp_path / "bookie", uri_of(tmp_path))

    asyncio.run(main())


def test_a_copy_by_hard_links_is_refused_and_the_original_goes_on(tmp_path: Path) -> None:
    """Both would write journal segments in place: each into the other's."""
    home, copy, uri = tmp_path / "bookie", tmp_path / "copy", uri_of(tmp_path)

    async def main() -> None:
        await format_directory(home, uri)
        async with served(tmp_path) as address:
            shutil.copytree(home, copy, copy_function=os.link)
            (copy / "LOCK").unlink()
            with pytest.raises(SharedFilesError, match=rf"{copy}/journal/.* 2 hard links.*cp -a"):
                async with asyncio.timeout(SOON):
                    await serve(copy, uri)
            with pytest.raises(SharedFilesError):
                await repair_directory(copy, uri)
            await examine_directory(copy, uri)  # looking does no harm
            await give_out(uri, below=8)
            bookie = RemoteBookie(address)
            await bookie.add(7, KEY, run_of(0))
            await bookie.close()
        with pytest.raises(SharedFilesError, match=f"{home}/journal"):
            await serve(home, uri)
        shutil.rmtree(copy)
        shutil.copytree(home / "entries", copy, copy_function=os.link)  # as a backup has them
        async with served(tmp_path) as address:
            bookie = RemoteBookie(address)
            assert await bookie.read(7, 0, 0) == run_of(0)
            await bookie.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_a_cookie_that_is_no_file_is_named_with_its_remedy(tmp_path: Path, kind: str) -> None:
    home, uri = tmp_path / "bookie", uri_of(tmp_path)
    make: dict[str, Callable[[Path], object]] = {
        "pipe": os.mkfifo,
        "directory": Path.mkdir,
        "device": lambda cookie: cookie.symlink_to("/dev/zero"),
    }
    work: list[Callable[[], Awaitable[object]]] = [
        partial(serve, home, uri),
        partial(open_directory, home, read_only=True),
        partial(examine_directory, home, uri),
        partial(repair_directory, home, uri),
    ]

    async def main() -> None:
        await format_directory(home, uri)
        (home / "cookie").unlink()
        make[kind](home / "cookie")
        for each in work:
            with pytest.raises(
                CorruptStorageError, match=f"cookie.* a {kind} and not a file: move"
            ):
                await each()

    asyncio.run(main())


def test_a_port_in_use_is_refused_before_clients_find_the_bookie(tmp_path: Path) -> None:
    async def main() -> None:
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        other = await format_directory(tmp_path / "other", uri_of(tmp_path))
        store = await open_store(uri_of(tmp_path))
        async with served(tmp_path) as address:
            with pytest.raises(ConfigurationError, match=address.address):
                await serve(tmp_path / "other", uri_of(tmp_path), address.address)
            with pytest.raises(NoSuchNodeError):
                await store.get(bookie_path(other))
        await store.close()

    asyncio.run(main())


def test_a_store_that_is_not_there_is_not_made_by_a_bookie_of_another_one(tmp_path: Path) -> None:
    async def main() -> None:
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        with pytest.raises(ConfigurationError, match="no metadata store"):
            await serve(tmp_path / "bookie", uri_of(tmp_path / "typo"))

    asyncio.run(main())
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("directory", ["missing", "empty"])
def test_a_directory_that_is_no_bookies_is_refused(tmp_path: Path, directory: str) -> None:
    (tmp_path / "empty").mkdir()

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="format"):
            await serve(tmp_path / directory, uri_of(tmp_path))

    asyncio.run(main())


def test_a_damaged_cookie_is_named_with_its_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        (tmp_path / "bookie" / "cookie").write_bytes(b"nonsense")
        with pytest.raises(CorruptStorageError, match=f"cookie.*quire bookie repair {tmp_path}"):
            await serve(tmp_path / "bookie", uri_of(tmp_path))

    asyncio.run(main())


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()

    async def main() -> None:
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        await format_directory(tmp_path / "other", uri_of(tmp_path / "elsewhere"))
        with pytest.raises(WrongBookieError):
            await serve(tmp_path / "bookie", uri_of(tmp_path / "elsewhere"))

    asyncio.run(main())


def test_a_bookie_ends_when_its_store_becomes_another_clusters(tmp_path: Path) -> None:
    async def main() -> None:
        bookie = await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        store = await open_store(uri_of(tmp_path))
        serving = asyncio.create_task(serve(tmp_path / "bookie", uri_of(tmp_path), options=SMALL))
        async with asyncio.timeout(SOON):
            await store.wait(bookie_path(bookie), None)
            # Metadata that was lost and begun anew gives ledger ids out again: what this bookie
            # holds under them must not be taken for theirs.
            await store.delete(cookie_path(bookie))
            await store.delete(CLUSTER)
            await store.delete(bookie_path(bookie))
            with pytest.raises(WrongBookieError, match="no cookie"):
                await serving
        assert await store.children(BOOKIES) == []
        await store.close()

    asyncio.run(main())


def test_a_client_never_talks_to_a_bookie_of_another_cluster(tmp_path: Path) -> None:
    """Another cluster's bookie listens where one of ours did: the address was given away."""
    (tmp_path / "elsewhere").mkdir()

    async def main() -> None:
        theirs = tmp_path / "elsewhere"
        await format_directory(theirs / "bookie", uri_of(theirs))
        bookie = await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        async with served(theirs) as address:
            stub = RemoteBookie(BookieAddress(bookie, address.address))
            for call in (
                stub.add(7, KEY, run_of(0)),
                stub.read(7, 0, 0),
                stub.read_tail(7, fence_key=KEY),
                stub.list_entries(7),
                stub.list_ledgers(),
                stub.outlines([7]),
                stub.info(),
            ):
                with pytest.raises(WrongBookieError, match=address.bookie):
                    await call
            await stub.close()
            right = RemoteBookie(address)
            assert await right.list_entries(7) == []
            await right.close()

    asyncio.run(main())


def test_a_failed_start_leaves_the_directory_free(tmp_path: Path) -> None:
    async def main() -> None:
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        for _ in range(2):
            with pytest.raises(QuireError, match="host:port"):
                await serve(tmp_path / "bookie", uri_of(tmp_path), "nonsense")
        async with served(tmp_path):
            pass

    asyncio.run(main())


@pytest.mark.parametrize(("error", "is_defect"), [("OSError", False), ("ValueError", True)])
def test_a_bookie_whose_storage_fails_ends_its_process(error: str, is_defect: bool) -> None:
    program = (
        "from quire.storage.server import end_process\n"
        f"try: raise {error}(5, 'disk is gone')\n"
        "except Exception as error: end_process(error)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert ended.returncode == EXIT_FATAL
    assert b"disk is gone" in ended.stderr
    assert b"start it again" in ended.stderr
    assert (b"Traceback" in ended.stderr) == is_defect


def test_a_store_that_went_back_in_time_ends_the_bookie_with_the_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        await format_directory(tmp_path / "bookie", uri_of(tmp_path))
        await give_out(uri_of(tmp_path), below=8)
        async with served(tmp_path) as address:
            stub = RemoteBookie(address)
            await stub.add(7, KEY, run_of(0))
            await stub.close()
        store = await open_store(uri_of(tmp_path))
        await store.delete(LEDGER_IDS)
        await store.close()
        await give_out(uri_of(tmp_path), below=7)
        with pytest.raises(StoreWentBackError, match="quire metadata adopt"):
            async with served(tmp_path):
                pass

    asyncio.run(main())
