"""The budget of bytes that peers make a bookie hold, in virtual time; and the log of refusals."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.storage.serving.held_bytes import STALLED_SECONDS, HeldBytes
from quire.storage.serving.refusals import LOG_SECONDS, Refusals
from tests.support.virtual import virtually


class Scene:
    """A budget of 100 bytes whose drops are written down."""

    def __init__(self, grace: float = 0.0) -> None:
        self.refusals = Refusals()
        self.held = HeldBytes("it stalls", "stalled", 100, self.refusals, grace=grace)
        self.dropped: list[str] = []

    def hold(self, name: str, size: int) -> bool:
        return self.held.hold(name, size, lambda reason: self.dropped.append(f"{name}: {reason}"))


def test_the_oldest_loses_its_place_to_the_newest() -> None:
    async def main() -> None:
        scene = Scene()
        assert all(scene.hold(name, 40) for name in "abc")
        assert scene.dropped == ["a: it stalls, and others need the space"]
        scene.held.release("b")
        assert scene.hold("d", 60)
        assert (len(scene.dropped), scene.held.total) == (1, 100)
        assert scene.refusals.counts == {"stalled": 1}

    virtually(main)


def test_a_holder_that_grows_keeps_its_age() -> None:
    async def main() -> None:
        scene = Scene()
        scene.hold("a", 10)
        scene.hold("b", 10)
        scene.hold("a", 95)
        assert [each[0] for each in scene.dropped] == ["a"]
        assert scene.held.total == 10

    virtually(main)


def test_within_its_grace_nothing_is_dropped() -> None:
    async def main() -> None:
        scene = Scene(grace=1.0)
        assert scene.hold("a", 80)
        assert not scene.hold("b", 80)
        assert (scene.dropped, scene.held.total) == ([], 80)
        await asyncio.sleep(1.0)
        assert scene.hold("b", 80)
        assert [each[0] for each in scene.dropped] == ["a"]

    virtually(main)


def test_without_progress_a_holder_is_dropped_in_time() -> None:
    async def main() -> None:
        scene = Scene()
        scene.hold("slow", 10)
        await asyncio.sleep(STALLED_SECONDS - 1)
        scene.hold("slow", 20)
        scene.hold("quick", 10)
        scene.held.release("quick")
        scene.hold("quick", 10)
        await asyncio.sleep(2)
        assert scene.dropped == ["slow: it stalls for 30 s"]
        await asyncio.sleep(STALLED_SECONDS)
        assert scene.dropped[1:] == ["quick: it stalls for 30 s"]
        assert scene.held.total == 0

    virtually(main)


STEPS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 100), st.sampled_from([0, 7])),
    max_size=40,
)


@given(STEPS, st.sampled_from([0.0, 1.0]))
def test_the_budget_holds_whatever_peers_do(
    steps: list[tuple[str, int | None, int]], grace: float
) -> None:
    async def main() -> None:
        scene, last = Scene(grace), dict[str, float]()
        now = asyncio.get_running_loop().time
        for name, size, pause in steps:
            if size is None:
                scene.held.release(name)
                last.pop(name, None)
            elif scene.hold(name, size):
                last.setdefault(name, now())
            else:
                last.pop(name, None)
            for each in scene.dropped:
                last.pop(each[0], None)
            scene.dropped.clear()
            assert 0 <= scene.held.total <= scene.held.bytes_max
            await asyncio.sleep(pause)
            assert all(now() - since <= STALLED_SECONDS + 7 for since in last.values())
        for name in "abcdef":
            scene.held.release(name)
        assert scene.held.total == 0

    virtually(main)


def test_refusals_are_counted_each_and_logged_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        refusals = Refusals()
        for _ in range(500):
            refusals.count("unread", "it takes no answers")
        refusals.count("silent", "it says nothing")
        await asyncio.sleep(LOG_SECONDS)
        refusals.count("unread", "it takes no answers")
        assert refusals.counts == {"unread": 501, "silent": 1}

    caplog.set_level(logging.WARNING)
    virtually(main)
    assert [each.getMessage() for each in caplog.records] == [
        "refused 1 since the last warning (unread): it takes no answers",
        "refused 1 since the last warning (silent): it says nothing",
        "refused 500 since the last warning (unread): it takes no answers",
    ]


def test_the_greediest_owner_loses_a_place_first() -> None:
    async def main() -> None:
        held = HeldBytes("it stalls", "stalled", 100, Refusals())
        dropped: list[str] = []

        def hold(name: str, size: int, owner: str) -> bool:
            return held.hold(name, size, lambda _: dropped.append(name), owner)

        hold("patient", 20, "client")
        for number in range(20):
            hold(f"greedy {number}", 20, "stranger")
        assert "patient" not in dropped, "it is the oldest, and holds least"
        assert dropped[0] == "greedy 0"
        assert held.total == 100
        held.release("patient")
        hold("last", 60, "client")
        assert held.total == 100
        for name in ("last", *(f"greedy {number}" for number in range(20))):
            held.release(name)
        assert (held.total, len(held._owned)) == (0, 0)

    virtually(main)
