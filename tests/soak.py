"""Real processes, random kills and pauses, one history: `make soak MINUTES=n ZOOKEEPER=3 TLS=1`.

Three workers share one log over six bookies. Again and again the driver kills or pauses the leader
(and now and then kills and restarts a bookie), waits for the next leader, and starts what it killed
again. With `--zookeeper n` the metadata is in n ZooKeeper servers, which are killed and started
again in turn meanwhile, and now and then all paused for longer than any session lasts. At the end
everybody alive must catch up; then the driver reads the log itself and holds everything that was
printed against it:

  * every acknowledged record is in the log exactly once, where its writer was told;
  * what every incarnation of every worker read is a run of the log from its beginning on;
  * offsets are dense and epochs never fall.

Every process writes down what took effect in it (quire/event_log.py). When all have ended, the
events must be a behaviour of the specification of the ledger protocol (tests/spec/files.py).

With `--tls` bookies and clients have certificates, and neither talks to a peer without one.

With `--history DIRECTORY` every process keeps there what it asked and was told, for the judges
(tests/judges): one file for each life of a worker, and one of the driver for the last read.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import quire
from quire.cli.settings import run
from quire.cluster import LocalCluster
from tests.judges.history import last_read, save
from tests.soak_worker import LOG, SESSION_SECONDS, now
from tests.spec.files import observed, validate
from tutorial.pausing import pause

WAIT_SECONDS_MAX: Final = 60.0
BOOKIES: Final = 6
SHOWN_MAX: Final = 20


@dataclass
class Incarnation:
    """One life of one worker, and what it printed."""

    name: str
    acked: list[tuple[str, str]] = field(default_factory=list)
    read: list[tuple[str, str]] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    leads: bool = False
    paused: bool = False
    other: list[str] = field(default_factory=list)

    def heard(self, text: str) -> None:
        kind, _, rest = text.partition(" ")
        if kind in ("acked", "read"):
            position, payload = rest.split(" ")
            (self.acked if kind == "acked" else self.read).append((position, payload))
        elif kind == "leading":
            self.epochs.append(int(rest))
            self.leads = True
        else:
            self.leads = self.leads and kind != "deposed"
            self.other.append(text)


class Workers:
    """The worker processes, alive and dead."""

    def __init__(
        self,
        store: str,
        options: tuple[str, ...] = (),
        history: Path | None = None,
        cluster: str | None = None,
    ) -> None:
        self.store = store
        self.cluster = cluster or store
        """Where a worker connects to: the directory of a cluster has its certificates too."""
        self.options = options
        self.history = history
        """The directory for what the workers record for the judges, if they are to."""
        self.prefixes: dict[str, tuple[str, ...]] = {}
        """What to put before the command of a slot, to run it on another host."""
        self.lives: list[Incarnation] = []
        self.processes: dict[str, tuple[asyncio.subprocess.Process, Incarnation]] = {}
        self.changed = asyncio.Event()
        self._listening: list[asyncio.Task[None]] = []

    async def start(self, slot: str) -> None:
        life = Incarnation(f"{slot}.{len(self.lives)}")
        history = self.history and self.history / f"{life.name}.ndjson"
        process = await asyncio.create_subprocess_exec(
            *self.prefixes.get(slot, ()),
            *(sys.executable, "-m", "tests.soak_worker"),
            *("--store", self.cluster, "--name", life.name, *self.options),
            *("--history", str(history or os.devnull)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.lives.append(life)
        self.processes[slot] = (process, life)
        self._listening.append(asyncio.create_task(self._listen(process, life)))

    async def _listen(self, process: asyncio.subprocess.Process, life: Incarnation) -> None:
        assert process.stdout is not None
        async for raw in process.stdout:
            life.heard(raw.decode().rstrip("\n"))
            self.changed.set()
        life.leads = False
        self.changed.set()

    async def kill(self, slot: str) -> None:
        process, _ = self.processes.pop(slot)
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def pause(self, slot: str) -> None:
        process, life = self.processes[slot]
        life.paused = True
        await pause(process, self.store)

    def resume(self, slot: str) -> None:
        process, life = self.processes[slot]
        life.paused = False
        process.send_signal(signal.SIGCONT)

    def leader(self) -> str | None:
        leading = [
            (life.epochs[-1], slot)
            for slot, (_, life) in self.processes.items()
            if life.leads and not life.paused
        ]
        return max(leading)[1] if leading else None

    async def new_leader(self, above: int) -> str:
        """Wait for a leader with an epoch above `above` that had something acknowledged."""

        def found() -> str | None:
            slot = self.leader()
            if slot is None:
                return None
            life = self.processes[slot][1]
            return slot if life.epochs[-1] > above and life.acked else None

        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while (slot := found()) is None:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            said = {life.name: life.other[-3:] for _, life in self.processes.values()}
            raise RuntimeError(
                f"no leader within {WAIT_SECONDS_MAX:.0f} s; last words {said}"
            ) from None
        return slot

    async def caught_up(self) -> None:
        """Wait until each living worker has read all that is acknowledged now.

        A worker may take as long as it needs while it makes progress: a worker that was just
        started reads the whole log first.
        """
        goal = {payload for life in self.lives for _, payload in life.acked}
        for _, life in self.processes.values():
            missing, seen = set(goal), 0
            while missing:
                try:
                    async with asyncio.timeout(WAIT_SECONDS_MAX):
                        while len(life.read) == seen:
                            self.changed.clear()
                            await self.changed.wait()
                except TimeoutError:
                    raise RuntimeError(
                        f"{life.name} has not read {len(missing)} records, and read none "
                        f"for {WAIT_SECONDS_MAX:.0f} s"
                    ) from None
                missing.difference_update(payload for _, payload in life.read[seen:])
                seen = len(life.read)

    def epoch(self) -> int:
        return max((life.epochs[-1] for life in self.lives if life.epochs), default=0)

    async def end(self) -> None:
        for slot in list(self.processes):
            await self.kill(slot)
        await asyncio.gather(*self._listening)


class Storm:
    """What befalls the servers, beside what befalls the leaders."""

    def __init__(self, cluster: LocalCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.restarted = self.expired = 0
        self._turn = 0

    async def strike(self) -> None:
        """Kill a server and start it again, or cut everybody off from ZooKeeper for a while."""
        if self.rng.random() < 0.2:
            bookie = self.rng.randrange(BOOKIES)
            self.cluster.kill(bookie)
            await self.cluster.restart(bookie)
        zookeeper = self.cluster.zookeeper
        if zookeeper is None:
            return
        chance = self.rng.random()
        count = len(zookeeper.ensemble.servers)
        if chance < 0.3:
            self._turn = self._turn % count + 1
            zookeeper.kill(self._turn)
            await asyncio.sleep(self.rng.uniform(0, 1))
            await zookeeper.restart(self._turn)
            self.restarted += 1
        elif chance < 0.4:
            for number in range(1, count + 1):
                zookeeper.pause(number)
            await asyncio.sleep(SESSION_SECONDS * self.rng.uniform(1, 2))
            for number in range(1, count + 1):
                zookeeper.resume(number)
            self.expired += 1


async def torment(workers: Workers, storm: Storm, seconds: float, kills: int) -> int:
    """Kill and pause until both bounds are met; returns how many leaders were deposed."""
    clock = asyncio.get_running_loop()
    rng = storm.rng
    end = clock.time() + seconds
    deposed = 0
    while clock.time() < end or deposed < kills:
        slot = await workers.new_leader(0)
        epoch = workers.epoch()
        await asyncio.sleep(rng.uniform(0, 0.5))
        async with asyncio.TaskGroup() as group:
            group.create_task(storm.strike())
            group.create_task(depose(workers, slot, epoch, rng))
        deposed += 1
        if sys.stderr.isatty() or deposed % 10 == 0:
            acked = sum(len(life.acked) for life in workers.lives)
            print(f"{deposed} leaders deposed, {acked} records acknowledged", file=sys.stderr)
    return deposed


async def depose(workers: Workers, slot: str, epoch: int, rng: random.Random) -> None:
    """Pause a leader and wake it when it was replaced, or kill it and start it again."""
    if rng.random() < 0.3:
        try:
            await workers.pause(slot)
            await workers.new_leader(epoch)
        finally:
            workers.resume(slot)
    else:
        await workers.kill(slot)
        await workers.start(slot)
        await workers.new_leader(epoch)


class Kept(Protocol):
    """A record as the log kept it."""

    @property
    def position(self) -> object: ...
    @property
    def offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def payload(self) -> bytes: ...


def check(lives: list[Incarnation], log: Sequence[Kept]) -> list[str]:
    """Return what is wrong; empty when the log kept every promise."""
    wrong: list[str] = []
    whole = [(str(record.position), record.payload.decode()) for record in log]
    at = {payload: position for position, payload in whole}
    if len(at) != len(whole):
        wrong.append(f"{len(whole) - len(at)} records are in the log twice")
    if [record.offset for record in log] != list(range(len(log))):
        wrong.append("offsets are not dense")
    epochs = [record.epoch for record in log]
    if epochs != sorted(epochs):
        wrong.append("epochs fall")
    for life in lives:
        for position, payload in life.acked:
            if at.get(payload) != position:
                wrong.append(f"{payload}, acked at {position}, is at {at.get(payload)}")
        if life.read != whole[: len(life.read)]:
            wrong.append(f"{life.name} read something that is not the log's beginning")
    return wrong


def conforms(directory: Path) -> bool:
    """Tell whether the events of all processes are a behaviour of the specification, and say so."""
    verdict = validate(directory)
    for refusal in verdict.refusals[:SHOWN_MAX]:
        print(f"✗ {refusal}")
    print(verdict)
    return not verdict.refusals and verdict.recoveries > 0


async def read_whole_log(store: str, history: Path | None) -> list[quire.Record]:
    """Close the log, whose leaders are gone, and read all of it; record that for the judges."""
    async with quire.connect(store) as client:
        final = await client.open_log(LOG)
        await final.close()
        called = now()
        log = [record async for record in await client.read_log(LOG)]
    if history is not None:
        save(history / "driver.ndjson", last_read(log, called, now()))
    return log


async def soak(
    seconds: float,
    kills: int,
    seed: int,
    zookeeper: int | None,
    events: Path,
    history: Path | None = None,
    *,
    tls: bool = False,
) -> bool:
    """Run a soak, with its events and, for the judges, its history in two directories."""
    with tempfile.TemporaryDirectory(prefix="quire-soak-") as directory, observed(events):
        made = LocalCluster(Path(directory), BOOKIES, zookeeper=zookeeper, tls=tls)
        async with made as cluster:
            workers = Workers(cluster.store_uri, history=history, cluster=directory)
            storm = Storm(cluster, random.Random(seed))
            try:
                for slot in ("a", "b", "c"):
                    await workers.start(slot)
                deposed = await torment(workers, storm, seconds, kills)
                await workers.caught_up()
            finally:
                await workers.end()
            log = await read_whole_log(directory, history)
    wrong = check(workers.lives, log)
    acked = sum(len(life.acked) for life in workers.lives)
    for line in wrong[:SHOWN_MAX]:
        print(f"✗ {line}")
    print(
        f"{'FAILED' if wrong else 'PASSED'}: seed {seed}, {deposed} leaders deposed, "
        f"{acked} records acknowledged, {len(log)} in the log, {len(wrong)} violations"
    )
    if zookeeper:
        print(
            f"{zookeeper} ZooKeeper servers: restarted {storm.restarted} times, "
            f"all silent for longer than a session {storm.expired} times"
        )
    return conforms(events) and not wrong and acked > 0 and deposed > 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--minutes", type=float, default=0.0)
    arguments.add_argument("--kills", type=int, default=3, help="depose at least so many leaders")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--zookeeper", type=int, help="keep the metadata in so many servers")
    arguments.add_argument("--tls", action="store_true", help="mutual TLS on both ports")
    arguments.add_argument("--events", type=Path, help="keep the event files in this directory")
    arguments.add_argument("--history", type=Path, help="keep what the judges want in a directory")
    options = arguments.parse_args()
    print(f"soak: sessions of {SESSION_SECONDS} s, seed {options.seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="quire-events-") as directory:
        places = (options.events or Path(directory), options.history)
        good = run(
            lambda: soak(
                options.minutes * 60,
                options.kills,
                options.seed,
                options.zookeeper,
                *places,
                tls=options.tls,
            )
        )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
