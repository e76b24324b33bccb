"""Drills on real processes: each fault of Jepsen's analysis of NATS 2.12.1, under load.

Five bookies, and a log on all of them: every record is on five, and acknowledged by three. Two
bookies are the minority that a drill may hurt. Two workers of the soak write and read meanwhile,
and record what they asked and were told, for the judges.

    bit flips          bits of files of a minority are turned over, of every kind of file in turn,
                       while its processes are dead and while they run
    truncation         the same with ends that are cut off
    power loss, pause  two bookies are paused, a third loses power with all that it had not synced,
                       the leader dies, the two go on, and the third comes back
    power loss of all  all bookies lose power at the same moment
    crash of all       all bookies and all workers are killed at the same moment
    membership         two bookies are added and two are removed for all time, one after the other

A bookie that refuses to start is repaired by its operator's command (`quire bookie repair`).
`power loss` rests on tests/judges/power.py. A drill ends with a read of the whole log.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from quire.cluster import LocalCluster
from quire.errors import BookieUnavailableError, QuireError
from tests.judges.power import cut_power
from tests.soak import WAIT_SECONDS_MAX, Workers, check, read_whole_log

BOOKIES: Final = 5
MINORITY: Final = (0, 1)
WORKER_OPTIONS: Final = ("--replication", "5/5/3", "--give-up", "10")
HONEST: Final = "honest"


class PowerCluster(LocalCluster):
    """A cluster whose bookies can lose power, be added, and be removed."""

    def __init__(self, directory: Path, mode: str) -> None:
        super().__init__(directory, BOOKIES)
        self.program = ("-m", "tests.judges.power", mode)

    async def add(self) -> int:
        """Add a bookie; return its number."""
        index = self.bookies
        self.bookies += 1
        await self._format(index)
        await self._start(index)
        return index

    async def kill_all(self, indexes: Sequence[int]) -> None:
        """Kill bookies at the same moment, and see them gone."""
        for index in indexes:
            self.kill(index)
        await asyncio.gather(*(self._watchers[index] for index in indexes))

    async def cut_power(self, indexes: Sequence[int]) -> None:
        """Kill bookies, and take from their disks all that was not synced."""
        await self.kill_all(indexes)
        for index in indexes:
            await asyncio.to_thread(cut_power, self.bookie_directory(index))

    async def remove(self, index: int) -> None:
        """Stop a bookie, never to start it again."""
        self._expected.add(index)
        await self._process(index).stop()


@dataclass
class Stage:
    """Where a drill plays. `size` is how many acks it waits for between faults, `rounds` how often
    a fault comes.
    """

    cluster: PowerCluster
    workers: Workers
    rng: random.Random
    size: int
    rounds: int
    notes: list[str] = field(default_factory=list)

    @property
    def acked(self) -> int:
        """How many records were acknowledged so far."""
        return sum(len(life.acked) for life in self.workers.lives)

    async def more(self) -> None:
        """Wait until more records were acknowledged."""
        goal = self.acked + self.size
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while self.acked < goal:
                    self.workers.changed.clear()
                    await self.workers.changed.wait()
        except TimeoutError:
            raise RuntimeError(f"{self.acked} records acknowledged, {goal} expected") from None

    async def revive(self, indexes: Sequence[int]) -> None:
        """Start bookies, and repair those that refuse."""
        await asyncio.gather(*(self._revive(index) for index in indexes))

    async def _revive(self, index: int) -> None:
        try:
            await self.cluster.restart(index)
        except BookieUnavailableError as error:
            self.notes.append(f"bookie {index} refused to start: {error}")
            await self._repair(index)
            await self.cluster.restart(index)

    async def _repair(self, index: int) -> None:
        directory = str(self.cluster.bookie_directory(index))
        command = [sys.executable, "-m", "quire", "bookie", "repair", directory, "--accept-loss"]
        process = await asyncio.create_subprocess_exec(
            *command,
            *("--store", self.cluster.store_uri),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"bookie {index} cannot be repaired: {said.decode()[-500:]}")


Drill: TypeAlias = Callable[[Stage], Awaitable[None]]
Hurt: TypeAlias = Callable[[Path, random.Random], None]


def flip(path: Path, rng: random.Random) -> None:
    """Turn over one bit of each 4 KiB of a file, at least one."""
    data = bytearray(path.read_bytes())
    for start in range(0, len(data), 4096):
        at = rng.randrange(start, min(start + 4096, len(data)))
        data[at] ^= 1 << rng.randrange(8)
    with path.open("r+b") as file:
        file.write(data)


def cut(path: Path, rng: random.Random) -> None:
    """Cut a file off at a random place."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(rng.randrange(size) if size else 0)


def hurt(directory: Path, harm: Hurt, rng: random.Random) -> list[str]:
    """Harm one file of each kind of a bookie's disk; return which."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != "LOCK":
            kinds.setdefault(path.suffix or path.stem.partition("-")[0], []).append(path)
    chosen = [rng.choice(paths) for paths in kinds.values()]
    chosen = [path for path in chosen if path.name != "cookie" or rng.random() < 0.3]
    for path in chosen:
        harm(path, rng)
    return [path.name for path in chosen]


async def _harm_a_minority(stage: Stage, harm: Hurt) -> None:
    for _ in range(stage.rounds):
        await stage.more()
        await stage.cluster.kill_all(MINORITY)
        for index in MINORITY:
            files = hurt(stage.cluster.bookie_directory(index), harm, stage.rng)
            stage.notes.append(f"bookie {index}: harmed {', '.join(files)}")
        await stage.revive(MINORITY)
    await stage.more()
    for index in MINORITY:  # and while it runs
        hurt(stage.cluster.bookie_directory(index) / "entries", harm, stage.rng)
    await stage.more()


async def bit_flips(stage: Stage) -> None:
    """Turn bits over on the disks of a minority."""
    await _harm_a_minority(stage, flip)


async def truncation(stage: Stage) -> None:
    """Cut files of a minority off."""
    await _harm_a_minority(stage, cut)


async def power_loss_with_a_pause(stage: Stage) -> None:
    """One machine loses power while two others lag; then a new leader finds what is left."""
    await stage.more()  # five bookies have to be there when the first ledger is made
    for lost in range(stage.rounds):
        paused = [index for index in range(BOOKIES) if index != lost][-2:]
        for index in paused:
            stage.cluster.pause(index)
        await stage.more()
        await stage.cluster.cut_power([lost])
        slot = await stage.workers.new_leader(0)
        epoch = stage.workers.epoch()  # the next leader may come at any moment from here on
        await stage.workers.kill(slot)
        for index in paused:
            stage.cluster.resume(index)
        await stage.revive([lost])  # a segment needs all five: without it no leader begins one
        await stage.workers.start(slot)
        await stage.workers.new_leader(epoch)
        await stage.more()


async def power_loss_of_all(stage: Stage) -> None:
    """Every machine loses power at the same moment."""
    for _ in range(stage.rounds):
        await stage.more()
        await stage.cluster.cut_power(range(BOOKIES))
        await stage.revive(range(BOOKIES))
    await stage.more()


async def crash_of_all(stage: Stage) -> None:
    """Every process dies at the same moment."""
    for _ in range(stage.rounds):
        await stage.more()
        await stage.cluster.kill_all(range(BOOKIES))
        for slot in list(stage.workers.processes):
            await stage.workers.kill(slot)
        await stage.revive(range(BOOKIES))
        for slot in ("a", "b"):
            await stage.workers.start(slot)
    await stage.more()


async def membership(stage: Stage) -> None:
    """Bookies come, and bookies go and do not come back."""
    for removed in MINORITY:
        await stage.more()
        await stage.cluster.add()
        await stage.more()
        await stage.cluster.remove(removed)
        await stage.more()
        slot = await stage.workers.new_leader(0)
        epoch = stage.workers.epoch()  # the next leader may come at any moment from here on
        await stage.workers.kill(slot)
        await stage.workers.start(slot)
        await stage.workers.new_leader(epoch)


DRILLS: Final[dict[str, Drill]] = {
    "bit-flips": bit_flips,
    "truncation": truncation,
    "power-loss-pause": power_loss_with_a_pause,
    "power-loss-of-all": power_loss_of_all,
    "crash-of-all": crash_of_all,
    "membership": membership,
}


@asynccontextmanager
async def _stage(
    history: Path, size: int, rounds: int, seed: int, mode: str
) -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="quire-drill-") as directory:
        async with PowerCluster(Path(directory), mode) as cluster:
            workers = Workers(cluster.store_uri, WORKER_OPTIONS, history)
            try:
                for slot in ("a", "b"):
                    await workers.start(slot)
                yield Stage(cluster, workers, random.Random(seed), size, rounds)
            finally:
                await workers.end()


@dataclass(frozen=True)
class Report:
    """What a drill came to, before the judges looked."""

    name: str
    acked: int
    wrong: list[str]
    """By the checks of the soak."""
    notes: list[str]

    def __str__(self) -> str:
        text = f"drill {self.name}: {self.acked} records acknowledged, {len(self.wrong)} violations"
        return "\n".join([text, *(f"    {note}"[:300] for note in self.notes + self.wrong[:5])])


async def run_drill(
    name: str, history: Path, *, size: int = 200, rounds: int = 3, seed: int = 1, mode: str = HONEST
) -> Report:
    """Run a drill, with its history in a directory."""
    async with _stage(history, size, rounds, seed, mode) as stage:
        wrong = []
        try:
            await DRILLS[name](stage)
            await stage.workers.caught_up()
        except RuntimeError as error:  # the judges say what is lost, also of a drill that stalls
            wrong.append(str(error))
        await stage.workers.end()
        try:
            log = await read_whole_log(stage.cluster.store_uri, history)
            wrong += check(stage.workers.lives, log)
        except QuireError as error:
            wrong.append(f"the log cannot be read: {error}")
        return Report(name, stage.acked, wrong, stage.notes)
