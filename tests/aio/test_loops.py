"""The event loop that programs run on."""

from __future__ import annotations

import asyncio
import sys
import warnings

import pytest
import uvloop

import quire


async def _kind() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_a_program_runs_on_uvloop_where_it_is_installed() -> None:
    usual = asyncio.run(_kind())
    assert usual is not uvloop.Loop
    assert quire.run_async(_kind()) is uvloop.Loop
    assert asyncio.run(_kind()) is usual, "the choice of the process is its own"


def test_a_program_runs_on_the_loop_of_asyncio_without_uvloop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)  # its import fails
    assert issubclass(quire.run_async(_kind()), asyncio.BaseEventLoop)


def test_the_error_of_a_program_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError, match="a defect"):
        quire.run_async(fail())


async def test_in_a_running_loop_the_program_is_refused_and_closed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="await the coroutine there"):
            quire.run_async(_kind())
