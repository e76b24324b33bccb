"""The servers that the raw limits are measured against."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Any

import pytest

from quire.bench import raw


def test_ctrl_c_at_the_terminal_does_not_reach_the_echo_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would die of it amid an answer, and say so on the terminal; its pipe ends it anyway."""
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remember(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **named))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remember)

    async def main() -> None:
        async with raw._echo_server():
            assert os.getsid(started[0].pid) != os.getsid(0)
        assert started[0].returncode == 0

    asyncio.run(main())
