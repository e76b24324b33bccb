"""The program before and the present one, together: bookies and clients of both, under load.

A cluster that the program before made is rolled to the present program and back, one bookie at a
time, while a leader appends. Leaders of both programs take turns, and every second one is killed:
so each program recovers what the other wrote, over bookies of both. At the end the upgrade is
finished, which it cannot be before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from quire.cluster import LocalCluster
from quire.cluster.process import PROGRAM
from quire.metadata.upgrade import upgrade_status
from quire.metastore import open_store
from quire.metastore.levels import SPEAKS
from tests.golden.previous.run_previous import unpack
from tests.support.command import environment

NOW, BEFORE = "now", "before"
ROLLS = ((0, NOW), (1, NOW), (2, NOW), (1, BEFORE), (1, NOW))
"""The bookie that is replaced, and its next program; a bookie goes back before the finish."""

LEADERS = (BEFORE, NOW)
LOG = "orders"
SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.05
"""Between two looks whether a bookie is back: the load must leave something to read in time."""

RECORDS_MIN = 200
"""A leader appends as many before and after its bookie is replaced."""


async def command(program: Sequence[str], store: str, *arguments: str, code: int = 0) -> str:
    """Run a command of a program to its end, and return what it printed, and what it complained."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", *program, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(store),
    )
    async with asyncio.timeout(SECONDS_MAX):
        out, complaint = await process.communicate()
    assert process.returncode == code, complaint.decode()
    return (out or complaint).decode()


class Leader:
    """A process that leads the log, and a writer of its standard input that never pauses."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name
        self.submitted = 0
        self.confirmed = 0

    async def write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            while True:
                lines = [f"{self._name}-{self.submitted + at}\n" for at in range(20)]
                self._process.stdin.write("".join(lines).encode())
                self.submitted += len(lines)
                await self._process.stdin.drain()
                while self.submitted > self.confirmed + 400:
                    await self._confirm()

    async def _confirm(self) -> None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise ConnectionResetError
        self.confirmed += 1

    async def has_confirmed(self, count: int) -> None:
        """Return when so many more records are confirmed."""
        wanted = self.confirmed + count
        writing = asyncio.create_task(self.write())
        async with asyncio.timeout(SECONDS_MAX):
            while self.confirmed < wanted and not writing.done():
                await asyncio.wait([writing], timeout=0.01)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert self.confirmed >= wanted, "the leader ended"

    async def end(self, how: str) -> None:
        """Let the leader close its log in order, or kill it; then count what it confirmed."""
        assert self._process.stdin is not None
        if how == "killed":
            self._process.send_signal(signal.SIGKILL)
        self._process.stdin.close()
        with contextlib.suppress(ConnectionError):
            while True:
                await self._confirm()
        assert await self._process.wait() == (0 if how == "closed" else -signal.SIGKILL)

    @property
    def confirmed_records(self) -> list[str]:
        return [f"{self._name}-{at}" for at in range(self.confirmed)]


@contextlib.asynccontextmanager
async def leading(program: Sequence[str], store: str, name: str) -> AsyncIterator[Leader]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", *program, "log", "append", LOG),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(store),
    )
    try:
        yield Leader(process, name)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Rolling:
    """A cluster that is rolled, and the programs."""

    def __init__(self, home: Path) -> None:
        self.programs = {NOW: PROGRAM, BEFORE: unpack(home / "before")}
        self.directory = home / "cluster"
        self.confirmed: list[str] = []

    async def command(self, program: str, *arguments: str, code: int = 0) -> str:
        return await command(self.programs[program], str(self.directory), *arguments, code=code)

    async def make(self) -> None:
        """Let the program before make the cluster."""
        up = ("cluster", "up", "--bookies=3", f"--data={self.directory}", "--json")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", *self.programs[BEFORE], *up),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(),
        )
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS_MAX):
            said = await process.stdout.readline()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):  # it just ended
                    process.send_signal(signal.SIGTERM)
            _, err = await process.communicate()
        assert said, err.decode()
        assert len(json.loads(said)["bookies"]) == 3

    async def check(self) -> None:
        """Both programs read the same, with all that was confirmed in its order."""
        first, second = await asyncio.gather(
            *(self.command(program, "log", "read", LOG) for program in LEADERS)
        )
        assert first == second
        kept = set(self.confirmed)
        assert [each for each in first.splitlines() if each in kept] == self.confirmed

    async def replace(self, cluster: LocalCluster, number: int) -> None:
        """Replace a bookie while a leader appends."""
        bookie, program = ROLLS[number]
        leader_program = self.programs[LEADERS[number % 2]]
        async with leading(leader_program, cluster.store_uri, f"leader{number}") as leader:
            await leader.has_confirmed(RECORDS_MIN)
            cluster.program = self.programs[program]
            replacing = asyncio.create_task(cluster.restart(bookie))
            while not replacing.done():
                await leader.has_confirmed(1)
                await asyncio.wait([replacing], timeout=PAUSE_SECONDS)
            await replacing
            await leader.has_confirmed(RECORDS_MIN)
            await leader.end("killed" if number % 2 else "closed")
        self.confirmed += leader.confirmed_records

    async def set_standings(self, cluster: LocalCluster) -> None:
        """Write records that the program before does not know, for bookies of both programs."""
        for bookie in range(cluster.bookies):
            ready = cluster.ready(bookie)
            assert ready is not None
            await self.command(NOW, "bookie", "recommission", ready.bookie)
        told = json.loads(await self.command(NOW, "cluster", "health", "--json", code=10))
        assert [each["code"] for each in told["reasons"]].count("no-heartbeat") == 2, told

    async def roll(self) -> None:
        """Replace the bookies one by one under load, then finish the upgrade."""
        await self.make()
        cluster = LocalCluster(self.directory, bookies=3)
        cluster.program = self.programs[BEFORE]
        async with cluster:
            for number in range(len(ROLLS)):
                await self.replace(cluster, number)
                if number == 0:
                    await self.set_standings(cluster)
                if number % 2 == 0:  # a plain read may miss the end of a leader that was killed
                    await self.check()
                if number == 1:
                    refusal = await self.command(NOW, *FINISH, code=7)
                    assert (await obstacles(cluster.store_uri))[0] in refusal
                assert len(await obstacles(cluster.store_uri)) == mixture(number).count(BEFORE)
            finished = json.loads(await self.command(NOW, *FINISH, "--json"))
            assert (finished["level"], finished["is_finished"]) == (SPEAKS.highest, True)
            await self.check()


FINISH = ("cluster", "upgrade", "--finish")


async def obstacles(uri: str) -> list[str]:
    """Return the bookies that stand in the way of the finish."""
    store = await open_store(uri)
    try:
        return [each.name for each in (await upgrade_status(store)).obstacles]
    finally:
        await store.close()


def mixture(number: int) -> list[str]:
    """Return the programs of the bookies after some rolls."""
    programs = [BEFORE] * 3
    for bookie, program in ROLLS[: number + 1]:
        programs[bookie] = program
    return programs
