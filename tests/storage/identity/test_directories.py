"""A bookie with several directories: which they are, what goes where, and that no crash while they
are formatted, added or used loses anything.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path

import pytest

from quire.errors import ConfigurationError, DirectoryInUseError, WrongBookieError
from quire.metastore.layout import COOKIES, cookie_path
from quire.metastore.memory import MemoryStore
from quire.metastore.record import decode_record
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.local_file import LocalFile
from quire.storage.disk.state_file import decode_state
from quire.storage.identity.cookie import (
    COOKIE,
    LAYOUT_OF_PARTS,
    BookieCookie,
    Part,
    Role,
    write_first_cookie,
)
from quire.storage.identity.directories import open_directory, with_parts
from quire.storage.identity.identity import (
    NewPart,
    expand_directory,
    expand_disk,
    format_directory,
    format_disk,
    identify,
)
from quire.storage.offline.check import check_disk
from quire.storage.server import serve
from tests.sim.disk import Cut
from tests.storage.scene import drive
from tests.storage.spread_scene import SpreadScene
from tests.storage.test_crash_points import (
    Promises,
    check,
    crash_in_the_restart,
    until_halted,
)
from tests.support.seeds import TURNS, in_turns
from tests.support.sub_disk import SubDisk


@in_turns
@pytest.mark.parametrize("cut", list(Cut))
def test_nothing_is_lost_at_any_crash_point_of_several_directories(cut: Cut, turn: int) -> None:
    async def main() -> None:
        change, is_halted, starts = turn - TURNS, True, set()
        while is_halted:
            change += TURNS
            scene, promises = SpreadScene(seed=change), Promises()
            scene.disk.halt_at(change)
            try:
                is_halted = await until_halted(scene, promises)
                starts.add(scene.starts)
                scene.disk.power_cut(cut)
                if change % 3 == 0:
                    await crash_in_the_restart(scene, scene.rng.randrange(1, 50), cut)
                await check(scene, promises)
            except BaseException as error:
                error.add_note(f"crash in change {change}, {cut}")
                raise
        assert starts == {1, 2}
        assert change > 140
        held = {path.split("/")[0] for path in scene.disk.files() if "/entries/" in path}
        assert held == {"big-1", "more"}
        assert {path.split("/")[0] for path in scene.disk.files() if "/journal/" in path} == {
            "fast-1"
        }

    asyncio.run(main())


def at(path: Path) -> tuple[Path, Path, list[Path], str]:
    """Return main directory, journal, entry directories and metadata store."""
    return (
        path / "main",
        path / "fast",
        [path / "big", path / "more"],
        f"sqlite://{path}/metadata.db",
    )


async def formatted(path: Path) -> str:
    main, journal, entries, store = at(path)
    return await format_directory(main, store, journal=journal, entries=entries)


def cookie_of(path: Path) -> dict[str, object]:
    return decode_state(COOKIE, COOKIE, 1, (path / COOKIE).read_bytes())


def test_every_directory_says_whose_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        home, journal, entries, uri = at(tmp_path)
        bookie = await formatted(tmp_path)
        cookie = BookieCookie.of(COOKIE, cookie_of(home))
        assert (cookie.bookie, cookie.layout, cookie.part) == (bookie, LAYOUT_OF_PARTS, "")
        places = [(part.role, part.path) for part in cookie.parts]
        assert places == [
            (Role.JOURNAL, str(journal)),
            *((Role.ENTRIES, str(path)) for path in entries),
        ]
        for part, path in zip(cookie.parts, (journal, *entries), strict=True):
            assert cookie_of(path) == {
                "bookie": bookie,
                "cluster": cookie.cluster,
                "layout": LAYOUT_OF_PARTS,
                "part": part.id,
            }
        disk = await open_directory(home)
        for path in (home, journal, *entries):
            with pytest.raises(DirectoryInUseError):
                LocalDisk(path)
        await disk.close()
        with pytest.raises(ConfigurationError, match="formatted already"):
            await format_directory(tmp_path / "new", uri, entries=[entries[0]])
        assert not (tmp_path / "new" / COOKIE).exists()

    asyncio.run(main())


def test_a_directory_that_is_missing_swapped_or_wiped_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        home, journal, (big, more), uri = at(tmp_path)
        await formatted(tmp_path)
        aside = tmp_path / "aside"
        big.rename(aside)
        with pytest.raises(ConfigurationError, match=r"big.*mounted"):
            await open_directory(home)
        big.mkdir()
        with pytest.raises(WrongBookieError, match=r"big.*no cookie.*right disk"):
            await open_directory(home)
        shutil.rmtree(big)
        more.rename(big)
        aside.rename(more)
        with pytest.raises(WrongBookieError, match=r"big.*part"):
            await open_directory(home)
        big.rename(aside)
        more.rename(big)
        aside.rename(more)
        await format_directory(tmp_path / "other", uri, journal=tmp_path / "other-fast")
        shutil.copy(tmp_path / "other-fast" / COOKIE, journal / COOKIE)
        with pytest.raises(WrongBookieError, match="fast"):
            await open_directory(home)
        with pytest.raises(WrongBookieError, match="fast"):
            await serve(home, uri)

    asyncio.run(main())


def test_a_part_is_not_served_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        _, journal, _, uri = at(tmp_path)
        await formatted(tmp_path)
        with pytest.raises(ConfigurationError, match="part of bookie"):
            await serve(journal, uri)

    asyncio.run(main())


def test_directories_are_added_to_a_stopped_bookie(tmp_path: Path) -> None:
    async def main() -> None:
        home, extra, uri = tmp_path / "main", tmp_path / "extra", f"sqlite://{tmp_path}/m.db"
        bookie = await format_directory(home, uri)
        running = LocalDisk(home)
        with pytest.raises(DirectoryInUseError):
            await expand_directory(home, uri, [extra])
        await running.close()
        with pytest.raises(ConfigurationError, match="twice"):
            await expand_directory(home, uri, [extra, extra])
        (tmp_path / "thesis").mkdir()
        (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
        with pytest.raises(ConfigurationError, match=r"thesis\.tex"):
            await expand_directory(home, uri, [tmp_path / "thesis"])
        for _ in range(2):  # repeating it is harmless
            cookie = await expand_directory(home, uri, [extra])
            assert cookie.bookie == bookie
            assert [part.path for part in cookie.parts] == ["", str(extra)]
        other = tmp_path / "other"
        await format_directory(other, uri, journal=tmp_path / "fast")
        with pytest.raises(WrongBookieError):
            await expand_directory(home, uri, [other])
        with pytest.raises(ConfigurationError, match="is the bookie's journal"):
            await expand_directory(other, uri, [tmp_path / "fast"])
        disk = await open_directory(home)
        findings = await check_disk(disk)
        assert (findings.bookie, findings.damage) == (bookie, [])
        await disk.close()

    asyncio.run(main())


def test_a_directory_whose_name_is_no_text_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """Cookies are JSON. A name of other bytes ended in the middle of the change."""

    async def main() -> None:
        home, uri = tmp_path / "main", f"sqlite://{tmp_path}/m.db"
        strange = tmp_path / "\udcff"
        with pytest.raises(ConfigurationError, match=r"udcff.* is not UTF-8.*another name"):
            await format_directory(home, uri, journal=strange)
        with pytest.raises(ConfigurationError, match=r"udcff.* is not UTF-8.*another name"):
            await format_directory(home, uri, entries=[strange])
        assert not home.exists()
        await format_directory(home, uri)
        with pytest.raises(ConfigurationError, match=r"udcff.* is not UTF-8.*another name"):
            await expand_directory(home, uri, [strange])
        assert not strange.exists()

    asyncio.run(main())


def test_an_old_copy_of_the_main_directory_is_refused(tmp_path: Path) -> None:
    """It would not know the directories that hold what was acknowledged since."""

    async def main() -> None:
        home, uri = tmp_path / "main", f"sqlite://{tmp_path}/m.db"
        await format_directory(home, uri)
        old = (home / COOKIE).read_bytes()
        await expand_directory(home, uri, [tmp_path / "extra"])
        (home / COOKIE).write_bytes(old)
        with pytest.raises(WrongBookieError, match="extra"):
            await serve(home, uri)

    asyncio.run(main())


def test_a_twin_that_was_not_told_of_a_directory_is_told_at_the_next_start() -> None:
    async def main() -> None:
        scene = SpreadScene()
        await scene.start()
        store = MemoryStore(scene.tree)
        (name,) = await store.children(COOKIES)
        before = await store.get(cookie_path(name))
        await scene.close()
        await scene.start()
        told = await store.get(cookie_path(name))
        _, body = decode_record("", "cookie", told.value)
        assert len(body["parts"]) == 3
        await store.put(cookie_path(name), before.value, told.version)
        await scene.close()
        await scene.start()
        assert (await store.get(cookie_path(name))).value == told.value
        await scene.close()

    drive(main())


def test_a_directory_whose_disk_fails_ends_the_bookie_and_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        home, _, (big, more), _ = at(tmp_path)
        await formatted(tmp_path)
        disk = await open_directory(home)
        await disk.make_directory("entries")
        file = await disk.open("entries/0", create=True)

        def broken(*_: object) -> int:
            raise OSError(errno.EIO, "Input/output error")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.pwritev", broken)
            with pytest.raises(OSError, match=r"Input/output error: .*entries/0") as caught:
                await file.write(0, [b"x"], sync=True)
        assert Path(str(caught.value.filename)).parents[1] in (big, more)
        await disk.close()

    asyncio.run(main())


def test_a_disk_that_was_a_part_once_is_not_added_with_what_it_holds() -> None:
    """The next start would delete the entry logs on it: no checkpoint lists them."""

    async def main() -> None:
        scene, store = SpreadScene(), MemoryStore()
        mount = scene.disk.mount()
        disk, added = [SubDisk(mount, await scene._directory(name)) for name in ("main", "old")]
        await format_disk(disk, store, scene.rng)
        cookie = await identify(disk, store)
        await write_first_cookie(added, cookie.of_part(Part("1" * 32, Role.ENTRIES, "old")))
        await added.make_directory("entries")
        with pytest.raises(ConfigurationError, match=r"old.*holds entries"):
            await expand_disk(disk, store, scene.rng, [NewPart(Role.ENTRIES, "old", added)])
        assert await identify(disk, store) == cookie
        await mount.close()

    drive(main())


def test_a_start_that_is_cancelled_gives_every_lock_back(tmp_path: Path) -> None:
    async def main() -> None:
        uri = f"sqlite://{tmp_path}/metadata.db"
        bookie, big = tmp_path / "bookie", tmp_path / "big"
        await format_directory(bookie, uri, entries=[big])
        opened = asyncio.Event()

        class Hanging(LocalDisk):
            async def open(self, path: str, *, create: bool = False) -> LocalFile:
                opened.set()
                await asyncio.sleep(3600)
                raise AssertionError

        starting = asyncio.ensure_future(
            with_parts(LocalDisk(bookie), lambda path: Hanging(Path(path)))
        )
        await opened.wait()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await LocalDisk(big).close()

    asyncio.run(main())
