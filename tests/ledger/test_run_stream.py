"""Answers of a stream of runs without futures: told once, in order, and each by itself."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from quire.aio.answer import Answered
from quire.aio.tasks import Tasks
from quire.entry import DigestKind, Sealer
from quire.errors import BookieUnavailableError, LedgerFencedError
from quire.ledger.backlog import Backlog
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.replica_sender import ReplicaSender, SenderContext
from quire.ledger.run_link import RunLink
from quire.ledger.run_stream import RunStream
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import RunEncoder, decode_request, encode_request, encode_run
from quire.wire.codec import encode_failure
from tests.support.virtual import virtually
from tests.support.writing import FakeRoster, settle

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"secret")


class Call:
    """A connection whose answers the test gives."""

    end = None

    def __init__(self) -> None:
        self.sent: list[pb.AddRequest] = []
        self.replies: asyncio.Queue[pb.AddReply | None] = asyncio.Queue()

    async def write(self, *parts: bytes) -> None:
        self.sent.append(decode_request(b"".join(parts)))

    async def read(self) -> pb.AddReply | None:
        return await self.replies.get()

    def cancel(self) -> None:
        """Nothing is open."""


def test_a_defect_of_one_answer_costs_no_other_run() -> None:
    async def main() -> None:
        call, told, defects = Call(), list[object](), list[dict[str, Any]]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(context))
        stream = RunStream(call, "a", 5.0)

        def fails(error: Exception | None) -> None:
            raise RuntimeError("a defect")

        for ledger, answered in ((1, told.append), (2, fails), (3, told.append)):
            stream.send(encode_run(ledger, b"k", b"run"), answered)
        await settle()
        assert [run.ledger for sent in call.sent for run in sent.runs] == [1, 2, 3]
        call.replies.put_nowait(pb.AddReply(settled=3))
        await settle()
        assert told == [None, None]
        assert [str(each["exception"]) for each in defects] == ["a defect"]
        assert stream.broken is None
        await stream.close()

    asyncio.run(main())


def test_one_refused_run_fails_no_run_of_another_ledger() -> None:
    async def main() -> None:
        call, told = Call(), dict[int, Exception | None]()
        stream = RunStream(call, "a", 5.0)
        for ledger in (1, 2, 3):
            encoder = RunEncoder(ledger, b"k")
            stream.send(encoder.encode(b"run"), partial(told.__setitem__, ledger))
        await settle()
        failure = encode_failure(LedgerFencedError(2), "a")
        call.replies.put_nowait(
            pb.AddReply(settled=2, failures=[pb.AddFailure(number=2, failure=failure)])
        )
        await settle()
        assert told[1] is None
        assert isinstance(told[2], LedgerFencedError)
        assert 3 not in told
        call.replies.put_nowait(None)
        await settle()
        assert isinstance(told[3], BookieUnavailableError), "the connection ended without an answer"
        assert list(told) == [2, 1, 3], "each is told once"
        await stream.close()

    virtually(main)


def test_each_run_is_told_once_whatever_is_said_again() -> None:
    async def main() -> None:
        call, told = Call(), list[int]()
        stream = RunStream(call, "a", 5.0)

        def tell(number: int, _: object) -> None:
            told.append(number)

        for number in range(1, 8):
            stream.send(encode_run(number, b"k", b"run"), partial(tell, number))
        await settle()
        for settled, expected in ((3, 3), (3, 3), (1, 3), (4, 4), (7, 7)):
            call.replies.put_nowait(pb.AddReply(settled=settled))
            await settle()
            assert told == list(range(1, expected + 1))
        assert stream.broken is None
        await stream.close()

    virtually(main)


def test_an_encoder_prepares_a_run_once_for_all_links() -> None:
    encoder = RunEncoder(LEDGER, b"key", deferred=True)
    runs = [b"x" * size for size in (1, 1, 200, 20_000, 1)]
    for run in runs:
        encoded = encoder.encode(run)
        assert encoder.encode(run) is encoded
        assert encoded.size == len(encoded.head) + len(run)
        (sent,) = decode_request(b"".join(encode_request(1, None, [encoded]))).runs
        assert (sent.ledger, sent.key, sent.run, sent.deferred) == (LEDGER, b"key", run, True)
        assert encoded == encode_run(LEDGER, b"key", run, deferred=True)


class _Link(MemoryBookie):
    """A bookie that takes runs without futures, and is answered by the test."""

    def __init__(self) -> None:
        super().__init__("a")
        self.answers: list[Answered] = []
        self.error: Exception | None = None

    def send(self, encoder: RunEncoder, run: bytes, answered: Answered) -> None:
        if self.error is not None:
            raise self.error
        self.answers.append(answered)


class _Owner:
    """Writes down what a sender reports."""

    def __init__(self) -> None:
        self.reports: list[object] = []

    def acknowledged(self, sender: ReplicaSender, through: int) -> None:
        self.reports.append(through)

    def synced(self, sender: ReplicaSender, asked: int, through: int) -> None:
        raise AssertionError("nothing is synced")

    def failed(self, sender: ReplicaSender, error: Exception) -> None:
        self.reports.append(type(error))
        sender.take_down(retry_at=0.0)


def _sender(link: Any, owner: _Owner, tasks: Tasks) -> tuple[ReplicaSender, Backlog]:
    one = Replication(1, 1, 1)
    backlog = Backlog(one, 1000, 2**20)
    roster = FakeRoster({"a": link})
    key = SEALER.access_key
    context = SenderContext(LEDGER, key, one, roster, backlog, LedgerOptions(), owner, tasks)
    return ReplicaSender(context, 0, "a", 0), backlog


def _push(backlog: Backlog) -> None:
    length = backlog.length + 1
    backlog.append(SEALER.parts(backlog.pushed + 1, -1, length, b"x"), length)


def test_a_sender_counts_no_answer_after_it_was_taken_down() -> None:
    async def main() -> None:
        link, owner, tasks = _Link(), _Owner(), Tasks()
        assert isinstance(link, RunLink)
        sender, backlog = _sender(link, owner, tasks)
        for _ in range(3):
            _push(backlog)
            sender.pump()
        first, second, third = link.answers
        second(None)
        assert owner.reports == [], "the first run has no answer"
        first(None)
        assert owner.reports == [1]
        sender.take_down(retry_at=0.0)
        third(None)
        assert owner.reports == [1]
        await tasks.stop()

    virtually(main)


def test_a_run_that_cannot_be_sent_fails_after_the_call() -> None:
    """The owner replaces senders: it must not hear of a failure while it goes through them."""

    async def main() -> None:
        link, owner, tasks = _Link(), _Owner(), Tasks()
        link.error = BookieUnavailableError("a", "no connection")
        sender, backlog = _sender(link, owner, tasks)
        _push(backlog)
        sender.pump()
        assert owner.reports == []
        await settle()
        assert owner.reports == [BookieUnavailableError]
        await tasks.stop()

    virtually(main)
