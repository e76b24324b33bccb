"""One timer calls many back, each in its time."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from quire.aio.later import Later
from tests.support.virtual import virtually


def test_each_is_called_back_once_and_in_its_time() -> None:
    async def main() -> None:
        loop, called = asyncio.get_running_loop(), list[tuple[str, float]]()
        later = Later(0.5)

        def note(name: str) -> None:
            called.append((name, round(loop.time(), 6)))

        for name in ("a", "b"):
            later.call(loop, partial(note, name))
        await asyncio.sleep(0.2)
        later.call(loop, partial(note, "c"))
        await asyncio.sleep(2)
        assert called == [("a", 0.5), ("b", 0.5), ("c", 0.7)]
        later.call(loop, partial(note, "d"))
        await asyncio.sleep(2)
        assert called[3:] == [("d", 2.7)]

    virtually(main)


def test_a_defect_of_one_costs_no_other_call() -> None:
    async def main() -> None:
        loop, called, defects = asyncio.get_running_loop(), list[int](), list[dict[str, Any]]()
        loop.set_exception_handler(lambda _, context: defects.append(context))
        later, over = Later(0.01), asyncio.Event()

        def fails() -> None:
            raise RuntimeError("a defect")

        later.call(loop, partial(called.append, 1))
        later.call(loop, fails)
        later.call(loop, partial(called.append, 3))
        later.call(loop, over.set)
        await over.wait()
        assert called == [1, 3]
        assert [str(each["exception"]) for each in defects] == ["a defect"]

    asyncio.run(main())


def test_a_call_back_may_ask_again() -> None:
    async def main() -> None:
        loop, called = asyncio.get_running_loop(), list[float]()
        later = Later(0.5)

        def again() -> None:
            called.append(round(loop.time(), 6))
            if len(called) < 3:
                later.call(loop, again)

        later.call(loop, again)
        await asyncio.sleep(5)
        assert called == [0.5, 1.0, 1.5]

    virtually(main)
