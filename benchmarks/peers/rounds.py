"""The rounds: start and warm up all peers, let them take turns, and end them."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.peers.machine import memory, settle, spent
from benchmarks.peers.others import left_out
from benchmarks.peers.peer import Peer, PeerError, Took, UnavailableError
from benchmarks.peers.report import Limit, Results, Run
from benchmarks.peers.watch import Watch
from benchmarks.peers.workloads import READ_FROM, Workload
from quire.bench import raw
from quire.bench.figures import RawLimits
from quire.errors import QuireError

WARM_UP_SECONDS: Final = 15.0
"""Java's programs become no quicker after so long, at most."""

Limits: TypeAlias = Callable[[Callable[[str], None]], Awaitable[RawLimits]]


def warm_up(peer: Peer) -> Workload:
    """Return the workload that a peer's readings read back."""
    return Workload(peer.kinds[0], *READ_FROM)


async def measure(peer: Peer, workload: Workload, number: int, seconds: float) -> Run:
    """Run a workload, and read the counters before and after."""
    pids = peer.servers()
    before, begun = spent(pids), time.perf_counter()
    took: Took = await peer.run(workload, seconds)
    lasted = time.perf_counter() - begun
    used = spent(pids) - before
    return Run(
        round=number,
        peer=peer.name,
        kind=workload.kind,
        workload=workload.name,
        per_second=took.entries / took.seconds,
        p50_ms=took.p50_ms,
        p99_ms=took.p99_ms,
        client_us=1e6 * took.cpu_seconds / took.entries,
        servers_us=1e6 * used.cpu_seconds / took.entries,
        flushes_per_second=used.flushes / lasted,
        written_per_byte=used.written / took.entries / workload.size,
        memory_mb=memory(pids) / 1e6,
    )


class Rounds:
    """One run of the comparison.

    Args:
        peers: in the order of their start.
        workloads: of a round, in order.
        seconds: of a workload.
        limits: measures the raw limits, and tells each step's name as it begins.
        results: takes the runs in; by default new ones.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        workloads: Sequence[Workload],
        seconds: float,
        limits: Limits,
        results: Results | None = None,
    ) -> None:
        self.results = Results([]) if results is None else results
        self._peers = peers
        self._workloads = workloads
        self._seconds = seconds
        self._limits = limits
        self._watch = Watch()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
        )
        self._task = self._progress.add_task("starting")

    async def run(self, rounds: int) -> None:
        """Start all, warm up, and run so many rounds into `results`. Ends everything, however it
        goes.
        """
        a_round = raw.STEPS + sum(w.kind in p.kinds for w in self._workloads for p in self._peers)
        self._progress.update(self._task, total=2 * len(self._peers) + rounds * a_round)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._progress)
            ready = await self._start(stack)
            for number in range(rounds):
                await self._measure_limits(ready, number)
                for workload in self._workloads:
                    await self._take_turns(ready, workload, number)

    async def _start(self, stack: AsyncExitStack) -> list[Peer]:
        started, ready = [], []
        for peer in self._peers:
            self._advance(f"starting {peer.name}")
            stack.push_async_callback(peer.stop)
            if await self._takes_part(peer, peer.start()):
                started.append(peer)
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        for peer in started:
            self._advance(f"warming up {peer.name}")
            if await self._takes_part(peer, self._warm_up(peer)):
                self._watch.see(peer)
                ready.append(peer)
        return ready

    async def _warm_up(self, peer: Peer) -> None:
        """Append for long, then append a little and read it: readings read what came last."""
        appended = warm_up(peer)
        await peer.run(appended, min(WARM_UP_SECONDS, 10 * self._seconds))
        await peer.run(appended, min(1.0, self._seconds))
        await peer.run(appended._replace(in_flight=0), 0.0)

    async def _takes_part(self, peer: Peer, step: Awaitable[object]) -> bool:
        """Start or warm up a peer. Returns whether that went well; else it ends with a line."""
        try:
            await step
        except (UnavailableError, PeerError) as error:
            self._say(left_out(peer.name, error))
            await peer.stop()
            return False
        return True

    async def _drop_ended(self, peers: list[Peer]) -> None:
        """Leave out the peers from here that have lost a server: no figure of theirs is fair."""
        for peer in list(peers):
            if line := self._watch.ended(peer):
                self._say(left_out(peer.name, PeerError(line)))
                peers.remove(peer)
                await peer.stop()

    async def _settle(self, peers: list[Peer]) -> None:
        await self._drop_ended(peers)
        # One that ends now is left out before the next run.
        with suppress(PeerError):
            await settle(_pids(peers))

    async def _measure_limits(self, peers: list[Peer], number: int) -> None:
        await self._settle(peers)
        found = await self._limits(lambda what: self._advance(f"round {number + 1}: {what}"))
        self.results.limits += [Limit.of(number, each) for each in found.all()]

    async def _take_turns(self, peers: list[Peer], workload: Workload, number: int) -> None:
        turns = [peer for peer in peers if workload.kind in peer.kinds]
        random.shuffle(turns)
        for peer in turns:
            what = f"round {number + 1}: {peer.name}, {workload.name}"
            self._advance(what)
            await self._settle(peers)
            if peer not in peers:
                continue
            try:
                self.results.runs.append(await measure(peer, workload, number, self._seconds))
            except (QuireError, PeerError) as error:
                self._say(f"{what}: {error}")

    def _advance(self, what: str) -> None:
        self._progress.update(self._task, description=what, advance=1)

    def _say(self, line: str) -> None:
        self._progress.console.print(line, markup=False, soft_wrap=True)


def _pids(peers: Sequence[Peer]) -> list[int]:
    """Return the pids of all servers, each once: peers may share some."""
    return list(dict.fromkeys(pid for each in peers for pid in each.servers()))
