"""`async def test_…` runs: on virtual time, or with `real_time` on a loop of asyncio."""

from __future__ import annotations

import asyncio
import textwrap

import pytest

from quire.testing.sim.loop import SimLoop
from quire.testing.sim.sealed import SimEscape, SimUnhandled
from tests.support.async_tests import SECONDS_MAX, run_virtually
from tests.support.convert import converted
from tests.support.log_cluster import LogCluster


async def test_a_wait_takes_no_time() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    before = loop.time()
    await asyncio.sleep(SECONDS_MAX - 1)
    assert loop.time() == before + SECONDS_MAX - 1


@pytest.mark.real_time
async def test_a_marker_gives_threads() -> None:
    assert not isinstance(asyncio.get_running_loop(), SimLoop)
    assert await asyncio.to_thread(lambda: 1) == 1


@pytest.mark.parametrize("count", [1, 3])
async def test_a_cluster_is_entered_and_parameters_are_passed(
    cluster: LogCluster, count: int
) -> None:
    assert len(cluster.roster.known()) == 3
    async with await cluster.new_client().open() as log:
        for number in range(count):
            assert (await log.append(b"record")).offset == number


async def _escape() -> None:
    await asyncio.to_thread(print)


async def _wait() -> None:
    await asyncio.Event().wait()


async def _forget() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    task = asyncio.create_task(fail())
    await asyncio.wait([task])


@pytest.mark.parametrize(
    ("wrong", "error"), [(_escape, SimEscape), (_wait, TimeoutError), (_forget, SimUnhandled)]
)
def test_what_a_test_does_wrong_is_an_error(wrong, error) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error):
        run_virtually(wrong)


def test_a_wrapped_test_is_converted() -> None:
    before = '''
        @mark("x")
        def test_one(x: int) -> None:
            """Why."""

            async def main() -> None:
                async with LogCluster() as cluster:
                    # first
                    await cluster.go(x)

            run(main)


        def test_another() -> None:
            async def main() -> None:
                async with LogCluster(5) as cluster:
                    await cluster.go()

            run(main)


        def test_real() -> None:
            async def main() -> None:
                await real()

            asyncio.run(main())


        def test_text() -> None:
            async def main() -> None:
                """One
                two."""

            run(main)
        '''
    after = '''
        @mark("x")
        async def test_one(cluster: LogCluster, x: int) -> None:
            """Why."""
            # first
            await cluster.go(x)


        async def test_another() -> None:
            async with LogCluster(5) as cluster:
                await cluster.go()


        def test_real() -> None:
            async def main() -> None:
                await real()

            asyncio.run(main())


        def test_text() -> None:
            async def main() -> None:
                """One
                two."""

            run(main)
        '''
    assert converted(textwrap.dedent(before)) == textwrap.dedent(after)
