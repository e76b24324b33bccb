"""A quire cluster over several hosts: ZooKeeper, bookies, and two players of the soak."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.netns.hosts import Network, network
from tests.netns.read_log import Line, parse
from tests.soak import Workers, check
from tests.soak_worker import LOG
from tests.spec.files import observed, validate

ZOOKEEPER = "zoo"
BOOKIES = ("b0", "b1", "b2", "b3")
PLAYERS = ("p0", "p1")
ZOOKEEPER_PORT = 2181
BOOKIE_PORT = 4181
RUNS_PORT = 4182
GIVE_UP_SECONDS = 5.0
"""A leader that reaches no bookies resigns after appending for so long, and repairing as long."""
STOP_SECONDS = 20.0
REPOSITORY = Path(__file__).parents[2]
ZOO_CFG = REPOSITORY / "deploy" / "zookeeper" / "zoo.cfg"


@dataclass
class Site:
    """What runs where."""

    network: Network
    store: str
    bookies: dict[str, str]
    """Which host a bookie is on, by its id."""

    def on_host(self, host: str, *command: str) -> subprocess.Popen[str]:
        """Start a Python module on a host; it prints one line when it is ready."""
        return subprocess.Popen(
            [*self.network[host].prefix, sys.executable, "-m", *command],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @asynccontextmanager
    async def players(self, name: str) -> AsyncIterator[Workers]:
        """Two players on a host each. At the end both must have caught up, and agree."""
        workers = Workers(self.store, ("--give-up", str(GIVE_UP_SECONDS)))
        try:
            for host in PLAYERS:
                slot = f"{name}-{host}"
                workers.prefixes[slot] = self.network[host].prefix
                await workers.start(slot)
            yield workers
            self.network.heal()
            await workers.caught_up()
        finally:
            self.network.heal()
            await workers.end()
        assert check(workers.lives, await self.read()) == []

    def quire(self, *arguments: str) -> str:
        """Run the `quire` command on a host of the network and return what it prints."""
        done = subprocess.run(
            [*self.network[BOOKIES[0]].prefix, sys.executable, "-m", "quire", *arguments],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    async def read(self) -> list[Line]:
        """Return the log, taken over and read on a host of the network."""
        command = (*self.network[BOOKIES[0]].prefix, sys.executable, "-m", "tests.netns.read_log")
        process = await asyncio.create_subprocess_exec(
            *command, self.store, LOG, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode == 0
        return [parse(line) for line in said.decode().splitlines()]


@contextmanager
def site(directory: Path, zookeepers: tuple[str, ...] = (ZOOKEEPER,)) -> Iterator[Site]:
    """Build the hosts and start ZooKeeper and the bookies; end and remove everything after.

    Several ZooKeepers are an ensemble, configured as deploy/zookeeper/zoo.cfg says. At the end the
    events of all processes must be a behaviour of the specification.
    """
    events = directory / "events"
    with network(*zookeepers, *BOOKIES, *PLAYERS) as hosts, ExitStack() as stack, observed(events):
        servers = ",".join(f"{hosts[name].address}:{ZOOKEEPER_PORT}" for name in zookeepers)
        store = f"zk://{servers}/quire"
        built = Site(hosts, store, {})
        started = [_start_zookeeper(built, directory, name, zookeepers) for name in zookeepers]
        for process in started:
            _ready(stack, process)
        for name in BOOKIES:
            disk = ("bookie", "format", str(directory / name), f"--store={store}")
            subprocess.run(
                [*hosts[name].prefix, sys.executable, "-m", "quire", *disk],
                cwd=REPOSITORY,
                check=True,
                capture_output=True,
            )
            serve = ("bookie", "serve", str(directory / name), f"--store={store}", "--json")
            listen = f"--listen={hosts[name].address}:{BOOKIE_PORT}"
            runs = f"--listen-runs={hosts[name].address}:{RUNS_PORT}"
            last = ("--insecure-network", "--exit-with-parent")
            process = built.on_host(name, "quire", *serve, listen, runs, *last)
            built.bookies[json.loads(_ready(stack, process))["bookie"]] = name
        yield built
    verdict = validate(events)
    print(f"{directory.name}: {verdict}")
    assert verdict.refusals == []
    assert verdict.recoveries > 0


def _start_zookeeper(
    built: Site, directory: Path, name: str, zookeepers: tuple[str, ...]
) -> subprocess.Popen[str]:
    place = directory / name
    place.mkdir()
    command = ("tests.netns.zookeeper_host", str(place), str(ZOOKEEPER_PORT))
    if len(zookeepers) == 1:
        return built.on_host(name, *command)
    config = ZOO_CFG.read_text().replace("dataDir=/var/lib/zookeeper", f"dataDir={place}")
    for each in zookeepers:
        config = config.replace(f"={each}:", f"={built.network[each].address}:")
    (place / "zoo.cfg").write_text(config)
    return built.on_host(name, *command, str(zookeepers.index(name) + 1))


def _ready(stack: ExitStack, process: subprocess.Popen[str]) -> str:
    """Return the first line a process prints; from now on it ends with the stack."""
    stack.callback(_end, process)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"{process.args!r} ended with code {process.wait()}"
    return line


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
