"""The demo's stage: players as processes, what each of them printed, and a live picture of it."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import quire
from tutorial.pausing import pause

FACES: Final = "⚀⚁⚂⚃⚄⚅"
WAIT_SECONDS_MAX: Final = 30.0
_LINE = re.compile(r"(\S+)  Value = (\d), epoch = (\d+), (.+)")


@dataclass(frozen=True, slots=True)
class Roll:
    """One line of a player: where the value is in the log, and under which leader."""

    position: quire.Position
    value: int
    epoch: int


class State(StrEnum):
    PLAYING = "playing"
    PAUSED = "paused"
    KILLED = "killed"
    STOPPED = "stopped"


class Player:
    """A player process and everything it printed."""

    def __init__(self, name: str, changed: Callable[[], None]) -> None:
        self.name = name
        self.state = State.STOPPED
        self.rolls: list[Roll] = []
        self.labels: list[str] = []
        self.said: list[str] = []
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._store = ""

    async def start(self, store: str, interval: float) -> None:
        self._store = store
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tutorial.dice", "--store", store, "--name", self.name),
            *("--interval", str(interval)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.state = State.PLAYING
        self._listening = asyncio.create_task(self._listen(self._process))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for raw in process.stdout:
            text = raw.decode(errors="replace").rstrip()
            match = _LINE.fullmatch(text)
            if match:
                position = quire.Position.parse(match[1])
                self.rolls.append(Roll(position, int(match[2]), int(match[3])))
                self.labels.append(match[4])
            else:
                self.said.append(text)
            self._changed()

    def lines(self) -> list[tuple[Roll, str]]:
        """What it printed so far: rolls, and under which label."""
        return list(zip(self.rolls, self.labels, strict=True))

    @property
    def leads(self) -> bool:
        return self.state is State.PLAYING and self.labels[-1:] == ["leading"]

    def send(self, number: signal.Signals, state: State) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self.state = state

    async def pause(self) -> None:
        assert self._process is not None
        await pause(self._process, self._store)
        self.state = State.PAUSED

    async def end(self, number: signal.Signals, state: State) -> None:
        """End the process and read what it still had to say. Harmless when it never ran.

        RuntimeError when it goes on although it was told to stop.
        """
        if self._process is None or self._listening is None:
            return
        if self._process.returncode is None:
            self.send(number, state)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await self._process.wait()
        except TimeoutError:
            raise RuntimeError(
                f"{self.name} was told to stop {WAIT_SECONDS_MAX:.0f} s ago and goes on; "
                f"it said last: {self.said[-3:]}"
            ) from None
        await self._listening


class Stage:
    """The players together; draws a line for each roll once every player on stage has shown it."""

    def __init__(self, names: list[str]) -> None:
        self._event = asyncio.Event()
        self.players: list[Player] = []
        self._drawn = 0
        for name in names:
            self.add(name)

    def add(self, name: str) -> Player:
        """Let another player join; it is on stage once it was started."""
        player = Player(name, self._event.set)
        self.players.append(player)
        return player

    def on_stage(self) -> list[Player]:
        return [player for player in self.players if player.state is State.PLAYING]

    def leader(self) -> Player | None:
        """The player whose last line was its own roll, if that is the newest of all."""
        leading = [player for player in self.on_stage() if player.leads]
        return max(leading, key=lambda player: player.rolls[-1].position, default=None)

    def newest(self) -> int:
        return max(len(player.rolls) for player in self.players)

    async def until(self, what: str, happened: Callable[[], bool]) -> None:
        """Draw what comes until something happened; RuntimeError when it does not in time."""
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while True:
                    self.draw()
                    if happened():
                        return
                    self._event.clear()
                    await self._event.wait()
        except TimeoutError:
            said = "; ".join(f"{player.name}: {player.said[-3:]}" for player in self.players)
            raise RuntimeError(f"waited {WAIT_SECONDS_MAX:.0f} s for {what} ({said})") from None

    async def until_rolls(self, more: int) -> None:
        goal = self.newest() + more
        await self.until(
            f"{more} more rolls",
            lambda: min((len(player.rolls) for player in self.on_stage()), default=0) >= goal,
        )

    def heading(self) -> str:
        names = "".join(f"{player.name:<14}" for player in self.players)
        return f"      {'position':<10}{'roll':<7}{'epoch':<8}{names}".rstrip()

    def draw(self) -> None:
        """Print the rolls that all players on stage have shown and that were not drawn yet."""
        shown = min((len(player.rolls) for player in self.on_stage()), default=0)
        while self._drawn < shown:
            index = self._drawn
            roll = next(p.rolls[index] for p in self.players if len(p.rolls) > index)
            face = f"{FACES[roll.value - 1]} {roll.value}"
            cells = "".join(f"{self._cell(player, index):<14}" for player in self.players)
            print(
                f"      {roll.position!s:<10}{face:<7}{roll.epoch:<8}{cells}".rstrip(), flush=True
            )
            self._drawn += 1

    @staticmethod
    def _cell(player: Player, index: int) -> str:
        if index < len(player.labels):
            return player.labels[index]
        return {State.PAUSED: "(paused)", State.KILLED: "(killed)"}.get(player.state, "")

    async def end(self) -> None:
        """End every process that is still there."""
        for player in self.players:
            if player.state is State.PAUSED:
                player.send(signal.SIGCONT, State.PLAYING)
            await player.end(signal.SIGKILL, State.STOPPED)
