"""The key-value server on real processes: leader killed, leader paused, bookie killed, replicas cut
off from ZooKeeper, clients cut off from replicas; and every answer that clients got fits one order
of events.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from quire.cluster import LocalCluster
from tests.support.tcp_proxy import TcpProxy, ZooKeeperProxy, proxy
from tutorial.kv.history import Kind, Operation, check
from tutorial.pausing import pause

REPLICAS = 3
CLIENTS = 5
KEYS = tuple("abcdefgh")
"""Enough that one key's history stays short: checking it is exponential in what went unanswered."""
SCENE_SECONDS = 4.0


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Servers:
    """The replicas, as processes."""

    def __init__(self, stores: Sequence[str]) -> None:
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(REPLICAS)]
        self.stores = dict(zip(self.addresses, stores, strict=True))
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, address: str) -> None:
        self.processes[address] = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tutorial.kv.server", "--store", self.stores[address]),
            *("--listen", address, "--snapshot-records", "100"),
            stdin=asyncio.subprocess.DEVNULL,
        )

    async def leader(self, client: httpx.AsyncClient, but: str = "") -> str:
        """Wait for a leader other than `but`."""
        while True:
            for address in self.addresses:
                try:
                    status = (await client.get(f"http://{address}/status", timeout=0.5)).json()
                except httpx.HTTPError:
                    continue
                if status["role"] == "leader" and address != but:
                    return address
            await asyncio.sleep(0.1)

    def signal(self, address: str, number: signal.Signals) -> None:
        self.processes[address].send_signal(number)

    async def kill(self, address: str) -> None:
        self.signal(address, signal.SIGKILL)
        await self.processes[address].wait()

    async def end(self) -> None:
        for address, process in self.processes.items():
            if process.returncode is None:
                self.signal(address, signal.SIGCONT)
                await self.kill(address)


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[tuple[LocalCluster, Servers]]:
    async with (
        LocalCluster(directory, bookies=4) as cluster,
        serving([cluster.store_uri] * REPLICAS) as servers,
    ):
        yield cluster, servers


@asynccontextmanager
async def serving(stores: Sequence[str]) -> AsyncIterator[Servers]:
    servers = Servers(stores)
    try:
        for address in servers.addresses:
            await servers.start(address)
        yield servers
    finally:
        await servers.end()


@asynccontextmanager
async def behind_lines(directory: Path) -> AsyncIterator[tuple[Servers, dict[str, ZooKeeperProxy]]]:
    """Replicas that reach their ZooKeeper each by a line of its own."""
    async with (
        LocalCluster(directory, bookies=4, zookeeper=1) as cluster,
        AsyncExitStack() as stack,
    ):
        uri = urlsplit(cluster.store_uri)
        lines = [
            await stack.enter_async_context(proxy(ZooKeeperProxy, uri.netloc))
            for _ in range(REPLICAS)
        ]
        stores = [uri._replace(netloc=line.address).geturl() for line in lines]
        async with serving(stores) as servers:
            yield servers, dict(zip(servers.addresses, lines, strict=True))


class Client:
    """Sends random requests until it is told to stop, and notes what came of them."""

    def __init__(self, number: int, addresses: Sequence[str], history: list[Operation]) -> None:
        self.number = number
        self.addresses = addresses
        self.history = history
        self.rng = random.Random(number)
        self.values: Iterator[int] = iter(range(10**6))
        self.seen: str | None = None
        self.answered = 0
        self.sent_again = 0
        """Requests that were answered at last, and not the first time."""

    async def run(self, over: asyncio.Event) -> None:
        async with httpx.AsyncClient(follow_redirects=True, timeout=3.0) as http:
            while not over.is_set():
                await self.request(http)
                await asyncio.sleep(self.rng.random() * 0.05)

    async def request(self, http: httpx.AsyncClient) -> None:
        clock = asyncio.get_running_loop().time
        kind = self.rng.choice(list(Kind))
        value = None if kind is Kind.READ else f"{self.number}.{next(self.values)}"
        key = self.rng.choice(KEYS)
        operation = Operation(self.number, kind, key, value, clock(), expected=self.seen)
        self.history.append(operation)
        body = {"value": value, "id": f"{self.number}/{len(self.history)}"}
        if kind is Kind.SWAP:
            body["expected"] = self.seen
        for attempt in range(3):  # the same id again: it must not be done twice
            url = f"http://{self.rng.choice(self.addresses)}/kv/{key}"
            try:
                if kind is Kind.READ:
                    response = await http.get(url)
                else:
                    response = await http.put(url, json=body)
            except httpx.HTTPError:
                continue
            if response.status_code in (200, 404, 409):
                self.note(operation, response, clock())
                self.sent_again += attempt > 0
                return
            await asyncio.sleep(0.1)

    def note(self, operation: Operation, response: httpx.Response, now: float) -> None:
        answer = response.json()
        if operation.kind is Kind.READ:
            operation.value = answer["value"]
        operation.succeeded = response.status_code != 409
        operation.ended = now
        self.seen = answer["value"]
        self.answered += 1


@pytest.mark.timeout(120)
def test_answers_are_linearizable_while_leaders_die_and_sleep(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(100), running(tmp_path) as (cluster, servers):
            history: list[Operation] = []
            over = asyncio.Event()
            clients = [Client(number, servers.addresses, history) for number in range(CLIENTS)]
            async with httpx.AsyncClient() as http:
                first = await servers.leader(http)
                tasks = [asyncio.create_task(client.run(over)) for client in clients]
                await asyncio.sleep(SCENE_SECONDS)
                await servers.kill(first)
                second = await servers.leader(http, but=first)
                await servers.start(first)
                await asyncio.sleep(SCENE_SECONDS)
                await pause(servers.processes[second], servers.stores[second])
                await servers.leader(http, but=second)
                await asyncio.sleep(SCENE_SECONDS / 2)
                servers.signal(second, signal.SIGCONT)
                cluster.kill(0)
                await asyncio.sleep(SCENE_SECONDS)
                over.set()
                await asyncio.gather(*tasks)
            assert all(client.answered > 20 for client in clients)
            assert check(history) == []

    asyncio.run(main())


@pytest.mark.timeout(170)
def test_answers_are_linearizable_while_lines_are_cut(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(150), behind_lines(tmp_path) as (servers, lines):
            history: list[Operation] = []
            over = asyncio.Event()
            clients = [Client(number, servers.addresses, history) for number in range(CLIENTS)]
            async with httpx.AsyncClient() as http:
                first = await servers.leader(http)
                tasks = [asyncio.create_task(client.run(over)) for client in clients]
                await asyncio.sleep(SCENE_SECONDS / 2)
                silence(lines[first])  # it leads on, for all it knows, and reaches every bookie
                second = await servers.leader(http, but=first)
                await asyncio.sleep(SCENE_SECONDS / 2)
                reconnect(lines[first])
                lines[second].drop_answers()  # its session lives; what it asks is done, unheard of
                await asyncio.sleep(SCENE_SECONDS)
                reconnect(lines[second])
                for line in lines.values():
                    silence(line)
                await asyncio.sleep(SCENE_SECONDS)
                for line in lines.values():
                    reconnect(line)
                await servers.leader(http)
                await asyncio.sleep(SCENE_SECONDS / 2)
                over.set()
                await asyncio.gather(*tasks)
            assert second != first
            assert all(client.answered > 5 for client in clients)
            assert check(history) == []

    asyncio.run(main())


@pytest.mark.timeout(120)
def test_answers_are_linearizable_while_clients_are_cut_off(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(100),
            running(tmp_path) as (_, servers),
            AsyncExitStack() as stack,
            httpx.AsyncClient() as http,
        ):
            names = servers.addresses
            doors = [await stack.enter_async_context(proxy(TcpProxy, name)) for name in names]
            history: list[Operation] = []
            over = asyncio.Event()
            clients = [
                Client(number, [door.address for door in doors], history)
                for number in range(CLIENTS)
            ]
            leader = await servers.leader(http)
            at_leader = doors[names.index(leader)]
            tasks = [asyncio.create_task(client.run(over)) for client in clients]
            for trouble in (lose_answers, silence, TcpProxy.cut):
                await asyncio.sleep(SCENE_SECONDS / 2)
                trouble(at_leader)
                await asyncio.sleep(SCENE_SECONDS)
                reconnect(at_leader)
            await asyncio.sleep(SCENE_SECONDS / 2)
            over.set()
            await asyncio.gather(*tasks)
            assert all(client.answered > 5 for client in clients)
            assert sum(client.sent_again for client in clients) > 0
            assert check(history) == []

    asyncio.run(main())


def lose_answers(line: TcpProxy) -> None:
    """Let requests through; nobody hears what came of them."""
    line.down.block()


def silence(line: TcpProxy) -> None:
    """Let nothing through in either direction; nobody is told."""
    line.up.block()
    line.down.block()


def reconnect(line: TcpProxy) -> None:
    """End what was silent, and take new connections."""
    line.cut()
    line.heal()
