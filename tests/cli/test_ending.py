"""Signals that end a command, whenever they come."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from typing import Any

import pytest

from quire.cli import settings
from quire.cli.election import _end
from quire.cli.settings import run
from tests.support.command import quire


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

    async def main() -> None:
        ending = asyncio.create_task(_end(command))
        assert await asyncio.to_thread(output.readline) == b"told\n"
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # as the second Ctrl-C does
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert command.returncode == -signal.SIGKILL

    with subprocess.Popen(["sh", "-c", stubborn], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        output = command.stdout
        assert output.readline() == b"ready\n"
        asyncio.run(main())


def test_what_nohup_has_us_ignore_is_ignored_by_the_command_that_leads() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what is ignored is inherited
    try:
        script = "kill -HUP $$; echo survived"
        command = ("election", "lead", "x", "--store", "memory:", "--", "sh", "-c", script)
        done = quire(*command)
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert (done.code, done.out) == (0, "survived\n")
