"""Signals that end a command, whenever they come."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from quire.cli import settings
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
