"""Removing safeguards one by one, to prove that the checkers bite.

Each ablation patches one safeguard of production code away, on the test side, and runs seeds until
one fails. "No violation in N seeds" means something only because of this table:

    python -m tests.sim.ablations [--seeds 3000] [--only NAME]

prints the first seed that notices, the density per thousand seeds and the checker that spoke. An
ablation that nothing notices is either redundant (another safeguard covers it) or not covered; the
table says which we believe, in `note`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

import click
from rich.console import Console
from rich.table import Table

from quire.bookie import LedgerTail
from quire.entry import NO_ENTRY, EntryId
from quire.ledger import (
    completion,
    lane,
    proof,
    recovery,
    recovery_plan,
    tail,
    tails,
    window,
    write_back,
)
from quire.ledger.ledger_record import LedgerRecord
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.log import pipeline, takeover
from quire.storage import node, segments
from tests.sim.disk import SimFile, SimMount
from tests.sim.faults import FaultMix
from tests.sim.history import Violation
from tests.sim.run import run_seed

Patch = tuple[Any, str, Any]
FAILURES_SHOWN: Final = 3


@dataclass(frozen=True)
class Ablation:
    """A safeguard, and what replaces it."""

    name: str
    workload: str
    patches: Callable[[], list[Patch]]
    note: str = ""
    adjust: Callable[[FaultMix], None] | None = None

    @contextmanager
    def removed(self) -> Iterator[None]:
        """Production code without the safeguard."""
        with ExitStack() as stack:
            for target, attribute, value in self.patches():
                stack.enter_context(patch.object(target, attribute, value))
            yield


# -- bookies ---------------------------------------------------------------------------------------


def ignore_fence() -> list[Patch]:
    async def check_fence(self: Any, state: Any) -> None:
        return None

    return [(node.BookieNode, "_check_fence", check_fence)]


def answer_before_fence_is_durable() -> list[Patch]:
    async def fence(self: Any, ledger: int, key: bytes) -> None:
        state = await self._authorize(ledger, key)
        if not state.is_fenced and state.fence is None:
            state.fence = self._engine.append_fence(ledger, key)
            state.key = key
            state.is_fenced = True

    return [(node.BookieNode, "_fence", fence)]


def forget_fences_at_restart() -> list[Patch]:
    async def fence(self: Any, ledger: int, key: bytes) -> None:
        state = await self._authorize(ledger, key)
        self._note_key(state, key)
        await self._engine.settle()
        state.is_fenced = True
        state.wake()

    return [(node.BookieNode, "_fence", fence)]


def ack_before_sync() -> list[Patch]:
    whole = SimFile.write

    async def write(self: Any, offset: int, data: Any, *, sync: bool = False) -> None:
        is_journal = self._path.endswith(segments.SEGMENT_SUFFIX) or offset > 0
        await whole(self, offset, data, sync=sync and not is_journal)

    return [(SimFile, "write", write)]


def never_sync_directories() -> list[Patch]:
    async def sync_directory(self: Any, directory: str = "") -> None:
        await self.disk.turn(self)

    return [(SimMount, "sync_directory", sync_directory)]


# -- recovery --------------------------------------------------------------------------------------


def read_without_fence() -> list[Patch]:
    whole = recovery.LedgerRecovery._batches

    def batches(self: Any, frozen: LedgerMetadata, first: EntryId) -> Any:
        if not isinstance(self._bookies, _Unfenced):
            self._bookies = _Unfenced(self._bookies)
        return whole(self, frozen, first)

    return [(recovery.LedgerRecovery, "_batches", batches)]


class _Unfenced:
    """A roster whose bookies read without fencing."""

    def __init__(self, bookies: Any) -> None:
        self._bookies = bookies

    def writable(self) -> list[str]:
        found: list[str] = self._bookies.writable()
        return found

    def bookie(self, bookie: str) -> Any:
        return _UnfencedBookie(self._bookies.bookie(bookie))


class _UnfencedBookie:
    def __init__(self, link: Any) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    async def read(self, ledger: int, first: int, last: int, **options: Any) -> Any:
        options.pop("fence_key", None)
        return await self._link.read(ledger, first, last, **options)


def believe_one_negative() -> list[Patch]:
    def judge(
        replication: Replication, entry: EntryId, answers: Mapping[int, Any]
    ) -> recovery_plan.Verdict:
        said = [answers.get(position) for position in replication.write_set(entry)]
        if recovery_plan.Answer.OK in said:
            return recovery_plan.Verdict.RECOVER
        if recovery_plan.Answer.ABSENT in said:
            return recovery_plan.Verdict.END
        waiting = None in said
        return recovery_plan.Verdict.UNDECIDED if waiting else recovery_plan.Verdict.FAIL

    return [(recovery_plan, "judge", judge)]


def take_errors_for_absence() -> list[Patch]:
    def doubt(self: Any, position: int, entry: EntryId) -> None:
        self.deny(position, entry, entry)

    return [(recovery_plan.Evidence, "doubt", doubt)]


def start_below_the_last_fragment() -> list[Patch]:
    def start(replication: Replication, fragment: Fragment, found: Mapping[int, Any]) -> Any:
        proven = {position: lac for position, lac in found.items() if lac is not None}
        if not replication.is_covered(proven):
            return None
        return max(*proven.values(), -1)

    return [(tails, "start_of_recovery", start)]


def fence_one_bookie() -> list[Patch]:
    def start(replication: Replication, fragment: Fragment, found: Mapping[int, Any]) -> Any:
        proven = [lac for lac in found.values() if lac is not None]
        return max(*proven, fragment.first - 1, -1) if proven else None

    return [(tails, "start_of_recovery", start)]


def let_lac_grow_in_recovery() -> list[Patch]:
    whole = write_back.WriteBack.write

    async def write(self: Any, batch: Any) -> None:
        await whole(self, batch)
        self._start = batch[-1].entry

    return [(write_back.WriteBack, "write", write)]


def write_back_to_one() -> list[Patch]:
    def is_safe(self: Any, batch: Any, acked: set[int]) -> bool:
        return bool(acked)

    return [(write_back.WriteBack, "_is_safe", is_safe)]


# -- the writer ------------------------------------------------------------------------------------


def keep_watermarks_of_the_replaced() -> list[Patch]:
    def replace(self: Any, positions: Any, first: EntryId) -> None:
        self.first = first

    return [(window.AppendWindow, "replace", replace)]


def send_before_metadata() -> list[Patch]:
    whole = LedgerRecord.begin_fragment

    async def begin_fragment(self: Any, fragment: Fragment) -> None:
        task = asyncio.create_task(_quietly(whole(self, fragment)))
        _kept.append(task)

    return [(LedgerRecord, "begin_fragment", begin_fragment)]


_kept: list[asyncio.Task[None]] = []


async def _quietly(call: Any) -> None:
    try:
        await call
    except Exception:
        return


def write_on_in_recovery() -> list[Patch]:
    def check_ours(self: Any, current: LedgerMetadata) -> None:
        return None

    return [(LedgerRecord, "_check_ours", check_ours)]


def ack_with_one_less() -> list[Patch]:
    whole = window.AppendWindow.__init__

    def init(self: Any, replication: Replication, confirmed: EntryId = -1) -> None:
        whole(self, replication, confirmed)
        self._rank = min(self._rank + 1, replication.write_quorum - 1)

    return [(window.AppendWindow, "__init__", init)]


# -- readers ---------------------------------------------------------------------------------------


def take_recovery_for_the_end() -> list[Patch]:
    def is_closed(self: Any) -> bool:
        return self.metadata.state is not LedgerState.OPEN

    return [(LedgerReader, "is_closed", property(is_closed))]


def take_the_highest_entry_for_lac() -> list[Patch]:
    def proven_lac(sealer: Any, found: LedgerTail) -> EntryId:
        return NO_ENTRY if found.frame is None else proof.claimed_entry(found.frame)

    return [(tail, "proven_lac", proven_lac), (tails, "proven_lac", proven_lac)]


# -- the log ---------------------------------------------------------------------------------------


def fence_only_the_last_ledger() -> list[Patch]:
    whole = takeover.recover_segment

    class Peeking:
        """A catalog that opens without recovery."""

        def __init__(self, catalog: Any) -> None:
            self._catalog = catalog

        async def open(self, ledger: int, *, password: bytes) -> Any:
            return await self._catalog.open_without_recovery(ledger, password=password)

    async def recover_open(catalog: Any, manifest: Any, *rest: Any) -> Any:
        ends, offset = {}, None
        for segment in manifest.open_segments:
            offset = segment.first_offset if offset is None else offset
            is_last = segment is manifest.open_segments[-1]
            chosen: Any = catalog if is_last else Peeking(catalog)
            ends[segment.number] = await whole(chosen, segment, offset, *rest)
            offset += ends[segment.number].records
        return ends

    return [(takeover, "recover_open_segments", recover_open)]


def write_ahead_of_the_drain() -> list[Patch]:
    async def run(self: Any) -> None:
        while True:
            if self._broken is not None:
                await self._mend(self._broken)
            elif self._chain.successor is not None and self._chain.previous is None:
                self._switch()
            elif self._may_send():
                await self._send()
            else:
                self._nudge = asyncio.get_running_loop().create_future()
                await self._nudge

    def on_ack(self: Any, segment: Any, ack: Any) -> None:
        parcels = [parcel for parcel in self._sent if parcel.ack is ack]
        if parcels and self._broken is None:
            self._broken = ack.exception()
            if self._broken is None:
                self._sent.remove(parcels[0])
                self._confirm(segment, parcels[0])
        self.nudge()

    return [(pipeline.Pipeline, "run", run), (pipeline.Pipeline, "_on_ack", on_ack)]


def install_over_anybody() -> list[Patch]:
    async def install(
        self: Any, seen: Any, base: Any, ends: Any, ledger: int, deadline: float
    ) -> Any:
        def edit(manifest: Any) -> Any:
            mine = manifest is not None and manifest.lists(ledger)
            return manifest if mine else base.take_over(ends, ledger, self._now_ms())

        return await self._record.edit(edit)

    return [(takeover.TakeOver, "_install", install)]


def take_every_sync_for_done() -> list[Patch]:
    def vouched(replication: Replication, position: int, first: int, last: int, held: Any) -> int:
        return last

    return [(lane, "vouched", vouched)]


def close_without_completing() -> list[Patch]:
    async def run(self: object, metadata: LedgerMetadata, last: EntryId) -> list[Any]:
        return []

    return [(completion.Completion, "run", run)]


ABLATIONS: Final = (
    Ablation("a bookie refuses adds to a fenced ledger", "ledger", ignore_fence),
    Ablation("a fence is durable before it is answered", "ledger", answer_before_fence_is_durable),
    Ablation("a fence survives a restart", "ledger", forget_fences_at_restart),
    Ablation("an add is durable before it is acked", "ledger", ack_before_sync),
    Ablation("directories are synced", "ledger", never_sync_directories),
    Ablation("recovery reads fence", "ledger", read_without_fence),
    Ablation("absence needs Qw − Qa + 1 negatives", "ledger", believe_one_negative),
    Ablation("an error is not a negative", "ledger", take_errors_for_absence),
    Ablation("recovery starts in the last fragment", "ledger", start_below_the_last_fragment),
    Ablation(
        "the fencing read covers every write set",
        "ledger",
        fence_one_bookie,
        note="thought redundant: recovery reads fence too",
    ),
    Ablation("LAC is frozen in recovery", "ledger", let_lac_grow_in_recovery),
    Ablation("recovered entries reach Qa", "ledger", write_back_to_one),
    Ablation("a replaced bookie's acks do not count", "ledger", keep_watermarks_of_the_replaced),
    Ablation("nothing is sent before metadata names it", "ledger", send_before_metadata),
    Ablation("the writer stops when in recovery", "ledger", write_on_in_recovery),
    Ablation("an ack needs Qa copies", "ledger", ack_with_one_less),
    Ablation("followers wait for CLOSED", "ledger", take_recovery_for_the_end),
    Ablation("only a proven LAC confirms", "ledger", take_the_highest_entry_for_lac),
    Ablation(
        "a force counts what bookies name",
        "ledger",
        take_every_sync_for_done,
        note="needs a restart that breaks no request under way; tests/scenarios 34b has it",
    ),
    Ablation("full quorum completes copies", "ledger", close_without_completing),
    Ablation("a take-over recovers two ledgers", "log", fence_only_the_last_ledger),
    Ablation("a segment is drained before the next", "log", write_ahead_of_the_drain),
    Ablation("a take-over is a compare-and-set", "log", install_over_anybody),
)


@dataclass
class Finding:
    """What an ablation came to."""

    ablation: Ablation
    seeds: int
    failures: list[int]
    checkers: Counter[str]
    seconds: float


def hunt(ablation: Ablation, seeds: range, *, failures_max: int = FAILURES_SHOWN) -> Finding:
    """Run seeds without a safeguard until enough of them fail."""
    failures: list[int] = []
    checkers: Counter[str] = Counter()
    began, done = time.monotonic(), 0
    with ablation.removed():
        for seed in seeds:
            result = run_seed(seed, ablation.workload, adjust=ablation.adjust)
            _kept.clear()
            done += 1
            if result.error is not None:
                failures.append(seed)
                checkers[_speaker(result.error)] += 1
                if len(failures) >= failures_max:
                    break
    return Finding(ablation, done, failures, checkers, time.monotonic() - began)


def _speaker(error: BaseException) -> str:
    return error.name if isinstance(error, Violation) else type(error).__name__


@click.command(help=__doc__)
@click.option("--seeds", type=int, default=2000, show_default=True)
@click.option("--failures", type=int, default=FAILURES_SHOWN, show_default=True)
@click.option("--only", default="", help="Part of a name.")
def main(seeds: int, failures: int, only: str) -> None:
    console = Console(width=160)
    table = Table("safeguard removed", "first seed", "per 1,000", "seeds", "s", "noticed by")
    missed = 0
    for ablation in ABLATIONS:
        if only not in ablation.name:
            continue
        found = hunt(ablation, range(seeds), failures_max=failures)
        first = str(found.failures[0]) if found.failures else "—"
        density = f"{1000 * len(found.failures) / found.seeds:.1f}"
        names = ", ".join(name for name, _ in found.checkers.most_common(3)) or ablation.note
        missed += not found.failures and not ablation.note
        row = (ablation.name, first, density, str(found.seeds), f"{found.seconds:.0f}", names)
        table.add_row(*row)
        console.print(*row, sep=" | ", highlight=False)
    console.print(table)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
