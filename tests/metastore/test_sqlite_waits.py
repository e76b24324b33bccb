"""However many wait for changes of a file, it is looked at once per change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from quire.errors import HandleClosedError, StoreUnavailableError
from quire.metastore.sqlite_waits import POLL_SECONDS, Mark, Seen, Waits
from tests.support.virtual import virtually


class File:
    """Versions by path, and every look at several of them."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.looks: list[int] = []
        self.asked: list[int] = []
        self.changes = 0
        self.error: Exception | None = None
        self.waits = Waits(self.look)

    def change(self, path: str, *, is_told: bool = True) -> None:
        self.changes += 1
        self.versions[path] = self.changes
        if is_told:
            self.waits.changed()

    async def look(self, mark: Mark | None, seen: Sequence[Seen]) -> tuple[Mark, list[bool]]:
        if self.error is not None:
            raise self.error
        self.asked.append(len(seen))
        now = Mark(0, self.changes)
        differ = [now != mark and self.versions.get(each.path) != each.version for each in seen]
        if seen and now != mark and mark is not None:
            self.looks.append(len(seen))
        await asyncio.sleep(0.001)
        return now, differ

    def wait(self, path: str) -> asyncio.Task[None]:
        return asyncio.create_task(
            self.waits.until_changed(Seen(path, version=self.versions.get(path)))
        )


def test_one_look_serves_all_who_wait() -> None:
    async def main() -> None:
        file = File()
        waiting = [file.wait(f"/{number}") for number in range(1000)]
        await asyncio.sleep(0.01)
        file.looks.clear()
        for number in (3, 5):
            file.change(f"/{number}")
            await asyncio.sleep(0.01)
            assert [at for at, each in enumerate(waiting) if each.done()][-1] == number
        assert file.looks == [1000, 999]
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1  # nobody looks any more

    virtually(main)


def test_a_look_without_news_costs_the_same_however_many_wait() -> None:
    async def main() -> None:
        file = File()
        waiting = [file.wait(f"/{number}") for number in range(1000)]
        await asyncio.sleep(10 * POLL_SECONDS)
        file.asked.clear()
        await asyncio.sleep(10 * POLL_SECONDS)
        assert len(file.asked) >= 5
        assert not any(file.asked)
        for each in waiting:
            each.cancel()

    virtually(main)


def test_changes_that_come_while_it_looks_are_seen_by_one_more_look() -> None:
    async def main() -> None:
        file = File()
        waiting = [file.wait(f"/{number}") for number in range(10)]
        await asyncio.sleep(0.01)
        file.looks.clear()
        for number in range(10):
            file.change(f"/{number}")
            await asyncio.sleep(0.0001)
        await asyncio.gather(*waiting)
        assert len(file.looks) <= 2

    virtually(main)


def test_a_change_of_somebody_else_is_noticed_by_the_poll() -> None:
    async def main() -> None:
        file = File()
        waiting = file.wait("/a")
        await asyncio.sleep(0.01)
        file.change("/a", is_told=False)
        async with asyncio.timeout(2 * POLL_SECONDS):
            await waiting

    virtually(main)


def test_what_changed_before_is_seen_at_once() -> None:
    async def main() -> None:
        file = File()
        file.change("/a")
        async with asyncio.timeout(0.005):
            await file.waits.until_changed(Seen("/a", version=None))

    virtually(main)


@pytest.mark.parametrize(
    "error", [StoreUnavailableError("sqlite:///x", "for the test"), RuntimeError("for the test")]
)
def test_who_waits_hears_of_an_error_and_the_next_may_wait_again(error: Exception) -> None:
    async def main() -> None:
        file = File()
        waiting = [file.wait(path) for path in "ab"]
        await asyncio.sleep(0.01)
        file.error = error
        file.waits.changed()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert outcomes == [error, error]
        with pytest.raises(type(error)):
            await file.wait("c")
        file.error = None
        waiting = [file.wait("a")]
        await asyncio.sleep(0.01)
        file.change("a")
        await asyncio.gather(*waiting)

    virtually(main)


def test_who_waits_hears_of_the_end() -> None:
    async def main() -> None:
        file = File()
        waiting = file.wait("/a")
        await asyncio.sleep(0.01)
        await file.waits.close(HandleClosedError("metadata store x"))
        with pytest.raises(HandleClosedError):
            await waiting
        assert len(asyncio.all_tasks()) == 1

    virtually(main)
