"""A shell with job control at a terminal of its own, for Ctrl-Z and fg as people type them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_SPAWN = "import pty; pty.spawn(['/bin/bash', '--norc', '--noprofile', '-i'])"

CTRL_C = "\x03"
CTRL_Z = "\x1a"


class Terminal:
    """What was typed goes in, lines come out. Made by `terminal`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._changed = asyncio.Event()
        self.lines: list[str] = []

    def type(self, keys: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(keys.encode())

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            self.lines.append(raw.decode(errors="replace").strip())
            self._changed.set()

    async def until(self, wanted: str, start: int = 0) -> int:
        """Wait for a line with some text, from line `start` on; return the number of the next."""
        while True:
            for number in range(start, len(self.lines)):
                if wanted in self.lines[number]:
                    return number + 1
            start = len(self.lines)
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def terminal() -> AsyncIterator[Terminal]:
    """Open a terminal with a shell; everything that runs in it ends with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SPAWN),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    screen = Terminal(process)
    listening = asyncio.create_task(screen.listen())
    try:
        yield screen
    finally:
        # The terminal hangs up with the process that holds it, and its jobs get SIGHUP.
        process.kill()
        await process.wait()
        await listening
