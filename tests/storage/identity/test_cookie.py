"""A directory is formatted once, for one bookie of one cluster."""

from __future__ import annotations

import random

import pytest

from quire.errors import ConfigurationError, CorruptStorageError, WrongBookieError
from quire.storage.entries.checkpoint import FIRST, PATHS
from quire.storage.identity.cookie import (
    COOKIE,
    BookieCookie,
    check_cookie,
    decode_cookie,
    encode_cookie,
    format_bookie,
    read_cookie,
)
from tests.sim.disk import Cut, SimDisk
from tests.storage.scene import BOOKIE, CLUSTER, KEY, Scene, drive, run_of


def test_a_formatted_disk_is_recognised_and_durable() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        assert await read_cookie(disk.mount()) is None
        disk.kill()
        mount = disk.mount()
        cookie = await format_bookie(mount, BOOKIE, CLUSTER)
        assert await format_bookie(mount, BOOKIE, CLUSTER) == cookie
        disk.power_cut(Cut.LOSES)
        assert await check_cookie(disk.mount(), BOOKIE, CLUSTER) == cookie

    drive(main())


def test_what_is_not_empty_or_not_ours_is_refused_and_left_alone() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        mount = disk.mount()
        with pytest.raises(ConfigurationError, match="no cookie"):
            await check_cookie(mount, BOOKIE, CLUSTER)
        await mount.open("thesis.tex", create=True)
        with pytest.raises(ConfigurationError, match=r"thesis\.tex"):
            await format_bookie(mount, BOOKIE, CLUSTER)
        await mount.unlink("thesis.tex")
        await format_bookie(mount, BOOKIE, CLUSTER)
        before = disk.files()
        for bookie, cluster in (("a" * 32, CLUSTER), (BOOKIE, "a" * 32)):
            with pytest.raises(WrongBookieError):
                await format_bookie(mount, bookie, cluster)
            with pytest.raises(WrongBookieError):
                await check_cookie(mount, bookie, cluster)
        assert disk.files() == before

    drive(main())


def test_an_interrupted_format_can_be_repeated() -> None:
    async def main() -> None:
        disk = SimDisk(random.Random(1))
        await disk.mount().open(COOKIE + ".new", create=True)
        disk.kill()
        await format_bookie(disk.mount(), BOOKIE, CLUSTER)

    drive(main())


def test_a_format_that_wrote_only_the_checkpoint_can_be_repeated() -> None:
    async def main() -> None:
        scene = Scene()
        mount = scene.disk.mount()
        await format_bookie(mount, BOOKIE, CLUSTER)
        await mount.unlink(COOKIE)
        await format_bookie(mount, BOOKIE, CLUSTER)
        await mount.close()
        await scene.start()
        await scene.close()
        mount = scene.disk.mount()
        for path in (COOKIE, PATHS[FIRST.generation % 2]):
            await mount.unlink(path)
        with pytest.raises(ConfigurationError, match="no cookie but holds"):
            await format_bookie(mount, BOOKIE, CLUSTER)

    drive(main())


def test_a_bookie_that_lost_all_but_its_cookie_is_not_fresh() -> None:
    async def main() -> None:
        scene = Scene()
        await (await scene.start()).add(7, KEY, run_of(7, 0))
        await scene.close()
        mount = scene.disk.mount()
        for directory in ("journal", "entries"):
            for name in await mount.list(directory):
                await mount.unlink(f"{directory}/{name}")
        for path in PATHS:
            if path in await mount.list():
                await mount.unlink(path)
        await mount.close()
        with pytest.raises(CorruptStorageError, match="lost what it had"):
            await scene.start()

    drive(main())


def test_every_flipped_byte_of_a_cookie_is_found() -> None:
    data = encode_cookie(BookieCookie(BOOKIE, CLUSTER))
    assert decode_cookie(COOKIE, data) == BookieCookie(BOOKIE, CLUSTER)
    for at in range(len(data)):
        for bit in (1, 0x80):
            damaged = bytearray(data)
            damaged[at] ^= bit
            with pytest.raises(CorruptStorageError):
                decode_cookie(COOKIE, bytes(damaged))


@pytest.mark.parametrize("bookie", ["", "b" * 33, "ü", "a/b", "a\n"])
def test_ids_that_cannot_stand_in_a_file_are_refused(bookie: str) -> None:
    with pytest.raises(ConfigurationError):
        BookieCookie(bookie, CLUSTER)
