"""The bytes of one connection's answers within the budget of all, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from quire.errors import BookieBusyError
from quire.storage.serving.handing_over import UntakenAnswers
from quire.storage.serving.held_bytes import HeldBytes
from quire.storage.serving.refusals import Refusals
from tests.support.virtual import virtually

STALLED = 30.0


class Scene:
    """A budget of 100 bytes, and connections whose drops are written down."""

    def __init__(self) -> None:
        self.unread = HeldBytes("it stalls", "unread", 100, Refusals(), grace=1.0, seconds=STALLED)
        self.dropped: list[str] = []

    def connection(self, name: str) -> UntakenAnswers:
        def drop(_: str) -> None:
            self.dropped.append(name)

        return UntakenAnswers(self.unread, "b1", name, drop)


def test_answers_count_together() -> None:
    async def main() -> None:
        scene = Scene()
        answers = scene.connection("a")
        answers.add(30)
        answers.add(40)
        assert scene.unread.total == 70
        answers.remove(30)
        assert scene.unread.total == 40
        answers.remove(40)
        assert scene.unread.total == 0

    virtually(main)


def test_an_answer_without_space_is_refused_and_the_others_stay() -> None:
    async def main() -> None:
        scene = Scene()
        answers = scene.connection("a")
        answers.add(60)
        with pytest.raises(BookieBusyError):
            answers.add(50)
        assert (scene.unread.total, scene.dropped) == (60, [])
        with pytest.raises(BookieBusyError):
            scene.connection("b").add(50)
        assert (scene.unread.total, scene.dropped) == (60, [])

    virtually(main)


def test_one_that_lost_its_place_takes_none_again() -> None:
    async def main() -> None:
        scene = Scene()
        stalled, other, new = map(scene.connection, ("stalled", "other", "new"))
        for _ in range(10):
            stalled.add(5)
        other.add(49)
        await asyncio.sleep(2.0)
        new.add(20)
        assert (scene.unread.total, scene.dropped) == (69, ["stalled"])
        stalled.remove(5)
        stalled.progressed()
        with pytest.raises(BookieBusyError):
            stalled.add(1)
        stalled.close()
        assert (scene.unread.total, scene.dropped) == (69, ["stalled"])

    virtually(main)


def test_a_refusal_is_no_progress() -> None:
    async def main() -> None:
        scene = Scene()
        answers = scene.connection("a")
        answers.add(60)
        answers.add(10)
        for _ in range(10):
            await asyncio.sleep(0.05)
            with pytest.raises(BookieBusyError):
                answers.add(50)
        answers.remove(10)  # it was given up
        await asyncio.sleep(STALLED - 0.6)
        assert scene.dropped == []
        await asyncio.sleep(0.2)
        assert (scene.unread.total, scene.dropped) == (0, ["a"])

    virtually(main)


def test_what_is_taken_is_progress() -> None:
    async def main() -> None:
        scene = Scene()
        answers = scene.connection("a")
        answers.add(60)
        for _ in range(5):
            await asyncio.sleep(0.9 * STALLED)
            answers.progressed()
        assert scene.dropped == []
        answers.close()
        assert scene.unread.total == 0

    virtually(main)
