"""Seeds in the default test run, and the proof that a seed says all there is to say about a run."""

from __future__ import annotations

import asyncio
import gc
import math
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.sim.chunks import Chunk, Chunks, explain
from tests.sim.damage import DAMAGE
from tests.sim.determinism import HASH_SEEDS, traces
from tests.sim.faults import KINDS
from tests.sim.ledger_workload import LedgerWorkload
from tests.sim.regressions import SEEDS
from tests.sim.run import WORKLOADS, run_seed

SEEDS_EACH = {
    "service": (10, 30),
    "election": (15, 45),
    "gap": (5, 15),
    "healing": (10, 30),
    "exile": (5, 15),
    "log": (30, 75),
    "ledger": (150, 400),
}
"""Of each workload in `make test`, and in `make campaigns`: 245 seeds, 100 s of processor, and 650.
The campaign of each night has 5,000.
"""
HEALED_SEEDS = (2, 4)
"""The same of each workload that healers accompany."""
CHUNK = 15
LEDGER_CHUNK = 50
VOID_MAX = 0.3
"""A share of void runs above this means that the faults leave no room for work."""
DEVIATIONS = 2.3
"""How far chance takes the share of a few seeds: of a hundred chunks with it, one has more."""

DETERMINISM_SEEDS = 1
"""Of each workload, once more in a process of its own. `make determinism` has 200 under three hash
seeds, and 10 each night.
"""

CONSEQUENCES = {
    "amnesia",
    "answer lost",
    "request lost",
    "request repeated",
    "late message of a stream",
    "stream given up",
    "add cancelled",
    "request cancelled",
    "stream broken",
    "message at a cut",
    "line clogged",
    "slow message",
    "store answer lost",
    "store change lost",
    "store unavailable",
    "watch lost",
    "watch late",
    "spurious wake",
    "bookie gave up",
    "second process refused",
    "bookie ended in order",
    "client ended in order",
    "client told to stop twice",
    "damaged bookie refused to start",
    "bookie repaired",
    "damage repaired",
    "rot of journal",
    "rot of entries",
    "intruder refused",
    "replacement refused",
    "squatter refused",
    "fragment begun while open",
    "fragment replaced while open",
    "fragment begun while in-recovery",
    "retention trimmed",
    "log rests",
    "owner trimmed",
    "manifest rebuilt",
    "snapshot read",
    "linearizable tail",
    "take-over",
    "roll",
    "successor named",
    "successor followed",
    "no such successor",
    "log handed over",
    "leadership lost",
    "leader removed",
    "parts adopted",
    "stream begun again",
    "barrier",
    "service handed over",
    "snapshot restored",
    "snapshot trimmed the log",
    "late snapshot",
    "snapshot overtaken",
    "snapshot swept",
    "ledger dropped by all bookies",
    "entry lost",
    "gap",
    "bookie lost",
    "bookie silent",
    "bookie returned",
    "healing planned",
    "asked at random",
    "auditor asks",
    "place taken",
    "target: power cut",
}
"""Besides the kinds of the mix: what must have happened in the default seeds."""


HEALED = [name for name in WORKLOADS if name.startswith("healed ")]


RARE = {
    "asked at random",
    "client told to stop twice",
    "late snapshot",
    "leadership lost",
    "owner trimmed",
    "snapshot overtaken",
    "snapshot swept",
    "stream begun again",
    "target: power cut",
}
"""What a few of the seeds of `make campaigns` have, and perhaps none of those of `make test`."""


def chunks_of(workload: str, start: int, stop: int) -> list[Chunk]:
    size = LEDGER_CHUNK if workload == "ledger" else CHUNK
    return [Chunk(workload, at, min(at + size, stop)) for at in range(start, stop, size)]


EACH = {**SEEDS_EACH, **dict.fromkeys(HEALED, HEALED_SEEDS)}
CHUNKS = [chunk for name, (few, _) in EACH.items() for chunk in chunks_of(name, 0, few)]
MORE_CHUNKS = [chunk for name, (few, all_) in EACH.items() for chunk in chunks_of(name, few, all_)]


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Chunks]:
    """The chunks this run of pytest has selected, under way in two processes."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    found = [spec.params.get("chunk") for spec in specs if spec is not None]
    selected = [each for each in found if isinstance(each, Chunk)]
    with Chunks(selected) as chunks:
        yield chunks


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "chunk",
    [*CHUNKS, *(pytest.param(each, marks=pytest.mark.campaign) for each in MORE_CHUNKS)],
    ids=str,
)
def test_seeds(running: Chunks, chunk: Chunk) -> None:
    outcome = running.outcome(chunk)
    assert not outcome.failures, "\n\n".join(outcome.failures)
    seeds = chunk.stop - chunk.start
    spread = math.sqrt(seeds * VOID_MAX * (1 - VOID_MAX))
    assert outcome.verdicts["void"] <= VOID_MAX * seeds + DEVIATIONS * spread


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("chunks", "but"),
    [
        pytest.param(CHUNKS, RARE, id="test"),
        pytest.param([*CHUNKS, *MORE_CHUNKS], set(), id="campaigns", marks=pytest.mark.campaign),
    ],
)
def test_every_fault_happened_in_these_seeds(
    running: Chunks, chunks: list[Chunk], but: set[str]
) -> None:
    fired: Counter[str] = Counter()
    for chunk in chunks:
        fired += running.outcome(chunk).counters
    assert {*KINDS, *DAMAGE, *CONSEQUENCES} - set(fired) - but == set()


@pytest.mark.parametrize(("seed", "workload", "found"), SEEDS)
def test_regression(seed: int, workload: str, found: str) -> None:
    result = run_seed(seed, workload)
    assert not result.failed, f"{found}\n{explain(result)}"


@pytest.mark.timeout(600)
def test_equal_seeds_give_equal_traces_in_other_processes(running: Chunks) -> None:
    """Each process that runs the chunks has a hash seed of its own, and other runs before."""
    found = traces(DETERMINISM_SEEDS, HASH_SEEDS[0])
    assert len(found) == len(WORKLOADS) * DETERMINISM_SEEDS
    assert found == [
        running.line(workload, seed) for seed in range(DETERMINISM_SEEDS) for workload in WORKLOADS
    ]


def test_a_run_is_the_same_with_and_without_its_event_log() -> None:
    quiet, loud = run_seed(5, "ledger"), run_seed(5, "ledger", events=True)
    assert quiet.trace == loud.trace
    assert loud.events


def test_a_coroutine_that_is_collected_after_its_run_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: said.append(unraisable.exc_value))

    async def close() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            asyncio.get_running_loop()  # as production does on its way out

    def leave_behind() -> None:
        work = close()
        work.send(None)
        cycle: list[object] = [work]
        cycle.append(cycle)

    leave_behind()
    gc.collect()
    assert len(said) == 1, "it is loud when nobody silences it"
    said.clear()
    with monkeypatch.context() as patched:
        whole = LedgerWorkload.run

        async def untidy(self: LedgerWorkload) -> None:
            leave_behind()
            await whole(self)

        patched.setattr(LedgerWorkload, "run", untidy)
        run_seed(5, "ledger")
    gc.collect()
    assert not said
