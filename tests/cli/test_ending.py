"""Signals that end a command, whenever they come."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from quire.cli import settings
from quire.cli.election import _end
from quire.cli.settings import run


def test_a_signal_that_comes_before_the_work_has_begun_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Early(settings._Ending):
        async def watch(self, work: Any) -> Any:
            self.come(signal.SIGTERM, None)  # as if it had come before the task's first step
            await asyncio.sleep(0)
            return await super().watch(work)

    async def work() -> str:
        await asyncio.sleep(0.2)
        return "it went on"

    monkeypatch.setattr(settings, "_Ending", Early)
    with pytest.raises(KeyboardInterrupt):
        run(work)


def test_a_second_ctrl_c_leaves_no_command_behind_that_thinks_it_leads() -> None:
    stubborn = "trap 'echo told' TERM; echo ready; while :; do sleep 0.1; done"

    async def main() -> int | None:
        command = await asyncio.create_subprocess_exec(
            "sh", "-c", stubborn, stdout=asyncio.subprocess.PIPE
        )
        assert command.stdout is not None
        assert await command.stdout.readline() == b"ready\n"
        ending = asyncio.create_task(_end(command))
        assert await command.stdout.readline() == b"told\n"
        ending.cancel()  # as the second Ctrl-C does
        with pytest.raises(asyncio.CancelledError):
            await ending
        ended_with = command.returncode
        if ended_with is None:
            command.kill()
            await command.wait()
        return ended_with

    assert asyncio.run(main()) == -signal.SIGKILL
