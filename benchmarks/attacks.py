"""Appends while a stranger attacks all bookies, beside appends without, in turns.

    python -m benchmarks.attacks [--rounds 3] [--seconds 3] [--attack NAME …] [--json FILE]

Three bookies of this machine. One writer keeps a window of appends under way. The stranger is a
process of its own, without a password. Over plain frames it comes from 127.0.0.2 where the system
allows that, so that it is another peer; over gRPC it comes from the writer's own address. The cores
are shared, so a part of the loss is the stranger's own work.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc.aio

import quire
from benchmarks.http2 import message_of, open_http2
from quire.cluster import LocalCluster
from quire.ledger.writer import LedgerWriter
from quire.ledgers import Replication
from quire.wire import bookie_pb2 as pb
from quire.wire import bookie_pb2_grpc as rpc
from quire.wire.framed import GREETING
from quire.wire.transport import MESSAGE_BYTES_MAX

BOOKIES: Final = 3
WINDOW: Final = 64
PAYLOAD: Final = bytes(1000)
LARGE: Final = bytes(1024 * 1024)
STRANGER: Final = "127.0.0.2"
HTTP2: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
NO_POOL: Final = [("grpc.use_local_subchannel_pool", 1)]


class Target(NamedTuple):
    """A bookie as a stranger knows it, and a ledger with large entries on it."""

    bookie: str
    address: str
    runs: str
    ledger: int


class Stranger:
    """Holds what it opened until its process ends."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.held: list[Any] = []

    async def _open(self, address: str, greeting: bytes) -> asyncio.StreamWriter:
        host, port = address.split(":")
        try:
            opened = await asyncio.open_connection(host, int(port), local_addr=(STRANGER, 0))
        except OSError:
            opened = await asyncio.open_connection(host, int(port))
        self.held.append(opened)
        opened[1].write(greeting)
        return opened[1]

    async def _hold(self, address: str, count: int, greeting: bytes) -> None:
        for _ in range(count):
            with contextlib.suppress(OSError):
                await self._open(address, greeting)

    async def silent_frames(self) -> None:
        await self._hold(self.target.runs, 4000, b"")

    async def greeted_frames(self) -> None:
        await self._hold(self.target.runs, 4000, GREETING)

    async def silent_grpc(self) -> None:
        await self._hold(self.target.address, 4000, b"")

    async def idle_grpc(self) -> None:
        await self._hold(self.target.address, 4000, HTTP2)

    async def unfinished(self) -> None:
        """All at once: a bookie that does not read one of them must not stop the others."""
        await asyncio.gather(*(self._begin_message() for _ in range(120)))

    async def _begin_message(self) -> None:
        with contextlib.suppress(OSError):
            size = struct.pack(">I", 8 * 1024 * 1024)
            writer = await self._open(self.target.runs, GREETING + size)
            for _ in range(7):
                writer.write(LARGE)
                await writer.drain()

    async def unfinished_runs_over_grpc(self) -> None:
        await self._unfinished_calls("/quire.v1.Bookie/Add")

    async def unfinished_reads_over_grpc(self) -> None:
        await self._unfinished_calls("/quire.v1.Bookie/Read")

    async def _unfinished_calls(self, path: str) -> None:
        """Send messages without their last kilobyte: 32 calls on each of four connections."""
        data = message_of(MESSAGE_BYTES_MAX) + bytes(MESSAGE_BYTES_MAX - 1024)
        for _ in range(4):
            calls = await open_http2(self.target.address)
            sending = [asyncio.create_task(calls.send(calls.begin(path), data)) for _ in range(32)]
            self.held += [calls, *sending]
            await asyncio.wait(sending, timeout=3.0)

    async def large_runs(self) -> None:
        await asyncio.gather(*(self._flood([LARGE]) for _ in range(8)))

    async def empty_runs(self) -> None:
        await asyncio.gather(*(self._flood([b""] * 30_000) for _ in range(4)))

    async def _flood(self, runs: list[bytes]) -> None:
        """Send runs of a wrong key as fast as they are taken."""
        many = [pb.AddRun(ledger=self.target.ledger, key=b"k" * 20, run=each) for each in runs]
        with contextlib.suppress(OSError):
            writer, first = await self._open(self.target.runs, GREETING), 1
            while True:
                message = pb.AddRequest(bookie=self.target.bookie, first=first, runs=many)
                data = message.SerializeToString()
                writer.write(struct.pack(">I", len(data)) + data)
                await writer.drain()
                first += len(many)

    async def unread(self) -> None:
        small = [*NO_POOL, ("grpc.http2.lookahead_bytes", 65536), ("grpc.http2.bdp_probe", 0)]
        wanted = pb.ReadRequest(
            bookie=self.target.bookie, ledger=self.target.ledger, last=79, bytes_max=4 << 20
        )
        for _ in range(4):
            channel = grpc.aio.insecure_channel(self.target.address, options=small)
            self.held += [channel, *(rpc.BookieStub(channel).Read(wanted) for _ in range(70))]

    async def polls(self) -> None:
        for _ in range(4):
            channel = grpc.aio.insecure_channel(self.target.address, options=NO_POOL)
            stub = rpc.BookieStub(channel)
            for number in range(2000):
                wanted = pb.WaitTailRequest(
                    bookie=self.target.bookie, ledger=10**9 + number, timeout_ms=600_000
                )
                self.held.append(stub.WaitTail(wanted))
            await asyncio.sleep(0.1)


ATTACKS: Final[dict[str, Callable[[Stranger], Awaitable[None]]]] = {
    "silent-frames": Stranger.silent_frames,
    "greeted-frames": Stranger.greeted_frames,
    "silent-grpc": Stranger.silent_grpc,
    "idle-grpc": Stranger.idle_grpc,
    "unfinished": Stranger.unfinished,
    "unfinished-runs-over-grpc": Stranger.unfinished_runs_over_grpc,
    "unfinished-reads-over-grpc": Stranger.unfinished_reads_over_grpc,
    "large-runs": Stranger.large_runs,
    "empty-runs": Stranger.empty_runs,
    "unread": Stranger.unread,
    "polls": Stranger.polls,
}


async def attack(name: str, targets: list[Target]) -> None:
    """Be the stranger, until killed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 60_000), hard))
    works = [ATTACKS[name](Stranger(each)) for each in targets]
    print("ready", flush=True)
    await asyncio.gather(*works)
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def attacked(name: str, targets: list[Target]) -> AsyncIterator[None]:
    """Have a stranger attack in the block."""
    given = json.dumps([list(each) for each in targets])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.attacks", "--stranger", name, given),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class Load:
    """A writer with a window of appends under way; counts those that ended."""

    def __init__(self, writer: LedgerWriter) -> None:
        self._writer = writer
        self.done = 0
        self.slowest = 0.0

    async def run(self) -> None:
        async def one() -> None:
            while True:
                begun = time.perf_counter()
                await self._writer.append(PAYLOAD)
                self.slowest = max(self.slowest, time.perf_counter() - begun)
                self.done += 1

        await asyncio.gather(*(one() for _ in range(WINDOW)))

    async def rate(self, seconds: float) -> float:
        begun, before = time.perf_counter(), self.done
        await asyncio.sleep(seconds)
        return (self.done - before) / (time.perf_counter() - begun)


def memory(cluster: LocalCluster) -> int:
    """Return the resident MiB of the largest bookie."""
    sizes = []
    for index in range(BOOKIES):
        status = Path(f"/proc/{cluster.pid(index)}/status").read_text()
        sizes.append(int(status.split("VmRSS:")[1].split()[0]) // 1024)
    return max(sizes)


async def measure(names: list[str], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Return a row for each attack; print it as soon as it is there."""
    rows = []
    async with LocalCluster(None, BOOKIES) as cluster, quire.connect(cluster.store_uri) as client:
        replication = Replication(3, 3, 2)
        async with await client.create_ledger(replication) as prey:
            for _ in range(80):
                await prey.append(os.urandom(60_000))
        async with await client.create_ledger(replication) as writer:
            targets = [
                Target(each.bookie, each.address, each.runs, prey.ledger)
                for each in client.bookies()
                if each.runs is not None
            ]
            load = Load(writer)
            appending = asyncio.create_task(load.run())
            await asyncio.sleep(1)
            for name in names:
                calm, under, most = list[float](), list[float](), 0
                load.slowest = 0.0
                for _ in range(rounds):
                    calm.append(await load.rate(seconds))
                    async with attacked(name, targets):
                        await asyncio.sleep(0.5)
                        under.append(await load.rate(seconds))
                        most = max(most, memory(cluster))
                    await asyncio.sleep(1)
                if appending.done():
                    appending.result()
                pairs = [b / a for a, b in zip(calm, under, strict=True)]
                row = {
                    "attack": name,
                    "calm_per_second": round(statistics.median(calm)),
                    "attacked_per_second": round(statistics.median(under)),
                    "share": round(statistics.median(pairs), 2),
                    "slowest_seconds": round(load.slowest, 2),
                    "memory_mib": most,
                }
                rows.append(row)
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            appending.cancel()
            await asyncio.gather(appending, return_exceptions=True)
    return rows


def main() -> None:
    """Measure, or be the stranger."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--attack", action="append", choices=list(ATTACKS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--stranger", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stranger:
        name, targets = given.stranger
        asyncio.run(attack(name, [Target(*each) for each in json.loads(targets)]))
        return
    rows = asyncio.run(measure(given.attack or list(ATTACKS), given.rounds, given.seconds))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
