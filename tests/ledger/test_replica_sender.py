"""A sender: order of acks, bounds on what is under way, silence after it was taken down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quire.aio.tasks import Tasks
from quire.entry import DigestKind, Sealer
from quire.errors import BookieBusyError, BookieUnavailableError, LedgerFencedError
from quire.ledger.backlog import Backlog
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.replica_sender import ReplicaSender, SenderContext, SenderState
from tests.support.virtual import virtually
from tests.support.writing import LEDGER, FakeRoster, TracedBookie, settle

SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")


class Scene:
    """One sender to bookie `a`, whose answers are written down."""

    def __init__(self, runs_outstanding_max: int = 3) -> None:
        self.bookie = TracedBookie("a", [])
        self.backlog = Backlog(Replication(1, 1, 1), 1000, 2**20)
        self.tasks = Tasks()
        options = LedgerOptions(runs_outstanding_max=runs_outstanding_max)
        roster = FakeRoster({"a": self.bookie})
        context = SenderContext(
            LEDGER,
            SEALER.access_key,
            Replication(1, 1, 1),
            roster,
            self.backlog,
            options,
            self,
            self.tasks,
        )
        self.sender = ReplicaSender(context, 0, "a", 0)
        self.acks: list[int] = []
        self.errors: list[Exception] = []

    def acknowledged(self, sender: ReplicaSender, through: int) -> None:
        self.acks.append(through)

    def synced(self, sender: ReplicaSender, asked: int, through: int) -> None:
        self.acks.append(through)

    def failed(self, sender: ReplicaSender, error: Exception) -> None:
        self.errors.append(error)
        sender.take_down(retry_at=0.0)

    def push(self, count: int = 1) -> None:
        for _ in range(count):
            length = self.backlog.length + 1
            parts = SEALER.parts(self.backlog.pushed + 1, -1, length, b"x")
            self.backlog.append(parts, length)

    async def send(self, runs: int) -> list[asyncio.Event]:
        """Put runs of one entry under way; each is answered when its event is set."""
        gates = [asyncio.Event() for _ in range(runs)]
        arrivals = iter(gates)

        async def before(method: str, ledger: int) -> None:
            await next(arrivals).wait()

        self.bookie.before = before
        for _ in range(runs):
            self.push()
            self.sender.pump()
            await settle()
        return gates


def scenario(main: Callable[[Scene], Awaitable[None]], runs_outstanding_max: int = 3) -> None:
    async def wrapped() -> None:
        scene = Scene(runs_outstanding_max)
        try:
            await main(scene)
        finally:
            scene.tasks.cancel()
            await scene.tasks.join()

    virtually(wrapped)


def test_a_later_ack_never_passes_an_earlier_run() -> None:
    async def main(scene: Scene) -> None:
        gates = await scene.send(3)
        gates[2].set()
        gates[1].set()
        await settle()
        assert scene.acks == []
        gates[0].set()
        await settle()
        assert scene.acks == [2], "one ack for all three"

    scenario(main)


def test_runs_under_way_are_bounded_and_the_rest_goes_together() -> None:
    async def main(scene: Scene) -> None:
        gates = await scene.send(2)
        scene.push(5)
        scene.sender.pump()
        await settle()
        assert scene.bookie.sent == [(0,), (1,)]
        gates[0].set()
        scene.bookie.heal()
        await settle()
        scene.sender.pump()
        await settle()
        assert scene.bookie.sent == [(0,), (1,), (2, 3, 4, 5, 6)]
        assert scene.sender.cursor == 7

    scenario(main, runs_outstanding_max=2)


def test_a_failure_is_reported_once_and_late_answers_not_at_all() -> None:
    async def main(scene: Scene) -> None:
        gates = await scene.send(3)
        scene.bookie.writable = False
        gates[1].set()
        await settle()
        assert [type(error).__name__ for error in scene.errors] == ["ReadOnlyBookieError"]
        scene.bookie.writable = True
        gates[0].set()
        gates[2].set()
        await settle()
        assert scene.acks == []
        assert scene.sender.oldest is None
        scene.push()
        scene.sender.pump()
        await settle()
        assert len(scene.bookie.sent) == 3, "nothing is sent while down"

    scenario(main)


def test_a_busy_bookie_is_sent_the_same_run_again() -> None:
    async def main(scene: Scene) -> None:
        scene.bookie.fail_with(BookieBusyError("a", "queue full"))
        scene.push()
        scene.sender.pump()
        await asyncio.sleep(1)
        assert 5 < len(scene.bookie.sent) < 20, "with growing pauses"
        assert scene.sender.oldest == 0.0, "the deadline counts from the first attempt"
        scene.bookie.heal()
        await asyncio.sleep(1)
        assert (scene.acks, scene.errors) == ([0], [])

    scenario(main)


def test_a_busy_bookie_is_asked_for_the_same_sync_again() -> None:
    async def main(scene: Scene) -> None:
        scene.bookie.fail_with(BookieBusyError("a", "the journal is full"))
        scene.sender.sync(0, 0)
        await asyncio.sleep(1)
        assert scene.errors == []
        scene.bookie.heal()
        scene.push()
        scene.sender.pump()
        await asyncio.sleep(1)
        assert (scene.acks, scene.errors) == ([0, 0], [])

    scenario(main)


def test_a_bookie_that_stays_busy_at_a_sync_fails_after_the_time_of_a_request() -> None:
    async def main(scene: Scene) -> None:
        scene.bookie.fail_with(BookieBusyError("a", "the journal is full"))
        scene.sender.sync(0, 0)
        await asyncio.sleep(LedgerOptions().request_timeout - 0.1)
        assert scene.errors == []
        await asyncio.sleep(0.2)
        assert [type(error) for error in scene.errors] == [BookieUnavailableError]

    scenario(main)


def test_a_probe_is_one_run_from_where_it_matters_and_an_ack_ends_it() -> None:
    async def main(scene: Scene) -> None:
        scene.push(3)
        scene.bookie.fail_with(BookieUnavailableError("a", "gone"))
        scene.sender.pump()
        await settle()
        assert [scene.sender.state] == [SenderState.DOWN]
        scene.bookie.heal()
        scene.sender.revive(1)
        assert [scene.sender.state] == [SenderState.PROBING]
        scene.backlog.release(1)
        scene.sender.pump()
        scene.push()
        scene.sender.pump()
        await settle()
        assert scene.bookie.sent[1:] == [(2,)], "what was confirmed meanwhile is skipped"
        assert scene.acks == [2]
        assert scene.sender.failures == 0
        scene.sender.pump()
        await settle()
        assert scene.bookie.sent[2:] == [(3,)]

    scenario(main)


@pytest.mark.parametrize(
    ("error", "reported"),
    [(LedgerFencedError(LEDGER), True), (BookieUnavailableError("a", "gone"), False)],
)
def test_telling_lac_reports_a_fence_only(error: Exception, reported: bool) -> None:
    async def main(scene: Scene) -> None:
        scene.bookie.fail_with(error)
        scene.sender.tell_lac(SEALER.seal_lac(0))
        await settle()
        assert scene.errors == ([error] if reported else [])

    scenario(main)


def test_a_bookie_nobody_ever_saw_is_a_failure_like_another() -> None:
    async def main(scene: Scene) -> None:
        scene.sender.bookie = "unheard-of"
        scene.push()
        scene.sender.pump()
        await settle()
        assert isinstance(scene.errors[0], BookieUnavailableError)

    scenario(main)
