"""Each step of the dice tutorial runs, and shows the one idea that it adds."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quire.cluster import LocalCluster
from tutorial.pausing import pause


class Program:
    """A step as a process, and the lines it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._changed = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip())
            self._changed.set()
        self._changed.set()

    async def until(self, holds: Callable[[list[str]], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds(self.lines):
                self._changed.clear()
                await self._changed.wait()
                assert not self._reading.done() or holds(self.lines), self.lines

    async def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        code = await self.process.wait()
        await self._reading
        return code


class Scene:
    def __init__(self, step: str, store: str | None) -> None:
        self.step, self.store = step, store
        self.programs: list[Program] = []

    async def start(self, name: str) -> Program:
        store = ("--store", self.store) if self.store else ()
        arguments = ("-m", f"tutorial.{self.step}", "--name", name, "--interval", "0.1", *store)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.programs.append(Program(process))
        return self.programs[-1]

    async def pause(self, program: Program) -> None:
        assert self.store is not None
        await pause(program.process, self.store)


@asynccontextmanager
async def scene(step: str, directory: Path) -> AsyncIterator[Scene]:
    async with LocalCluster(directory, bookies=3) as cluster:
        playing = Scene(step, cluster.store_uri)
        try:
            yield playing
        finally:
            for program in playing.programs:
                await program.end()


def values(lines: list[str]) -> list[str]:
    return [line for line in lines if "Value = " in line]


def sequence(lines: list[str]) -> list[str]:
    return [line.rpartition(", ")[0] for line in values(lines)]


def at_least(count: int) -> Callable[[list[str]], bool]:
    return lambda lines: len(values(lines)) >= count


def test_step_1_throws_and_ends_quietly() -> None:
    async def main() -> None:
        program = await Scene("step1_dice", None).start("alice")
        await program.until(at_least(3))
        assert await program.end(signal.SIGTERM) == 0
        assert all(line.startswith("Value = ") for line in program.lines)

    asyncio.run(main())


@pytest.mark.parametrize("program", ["step2_election", "dice"])
def test_a_store_that_is_none_is_told_in_a_line(program: str, tmp_path: Path) -> None:
    async def main() -> None:
        player = await Scene(program, str(tmp_path / "nowhere")).start("alice")
        assert await player.process.wait() == 1
        await player.end()
        (line,) = player.lines
        assert line.startswith("error: ")
        assert "quire cluster up" in line

    asyncio.run(main())


@pytest.mark.parametrize("step", ["step2_election", "step3_storing"])
def test_steps_2_and_3_go_on_elsewhere_when_the_leader_dies(step: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(step, tmp_path) as playing:
            alice = await playing.start("alice")
            await alice.until(at_least(2))
            bob = await playing.start("bob")
            await alice.until(at_least(6))
            assert values(bob.lines) == [], "only the leader plays"
            await alice.end()
            await bob.until(at_least(3))

    asyncio.run(main())


def test_step_2_has_the_flaw_that_the_later_steps_mend(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene("step2_election", tmp_path) as playing:
            alice = await playing.start("alice")
            await alice.until(at_least(2))
            bob = await playing.start("bob")
            await asyncio.sleep(1)
            await playing.pause(alice)
            await bob.until(at_least(2))
            before = len(alice.lines)
            alice.process.send_signal(signal.SIGCONT)
            await alice.until(lambda lines: len(values(lines)) > len(values(lines[:before])))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("step", "repeats"),
    [("step4_sharing", True), ("step5_tracking", False), ("step6_tailing", False)],
)
def test_steps_4_to_6_share_one_sequence(step: str, repeats: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(step, tmp_path) as playing:
            alice = await playing.start("alice")
            await alice.until(at_least(3))
            bob = await playing.start("bob")
            await asyncio.sleep(1)
            await playing.pause(alice)
            await bob.until(lambda lines: sum("leading" in line for line in lines) >= 3)
            alice.process.send_signal(signal.SIGCONT)
            await alice.until(lambda lines: any("no longer leading" in line for line in lines))
            before = len(alice.lines)
            await bob.end()
            await alice.until(
                lambda lines: sum("leading" in line for line in values(lines[before:])) >= 2
            )
            first, second = sequence(alice.lines), sequence(bob.lines)
            assert (len(set(first)) < len(first)) is repeats
            if not repeats:
                assert first[: len(second)] == second
            whole = list(dict.fromkeys(first))
            assert whole[: len(second)] == second
            labels = {line.rpartition(", ")[2] for line in values(bob.lines)}
            assert ("following" in labels) is (step == "step6_tailing")

    asyncio.run(main())
