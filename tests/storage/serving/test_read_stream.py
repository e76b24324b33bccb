"""A bookie's end of a connection for reads: what it answers, when, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from quire.bookie import READ_BYTES_MAX, Stride
from quire.entry import DigestKind, Sealer
from quire.errors import (
    BookieBusyError,
    BookieUnavailableError,
    InvalidRequestError,
    NoSuchEntryError,
    NotPermittedError,
    QuireError,
    UnauthorizedError,
    WrongBookieError,
)
from quire.rights.roles import Action
from quire.run import FRAME_BYTES_MAX, pack_run
from quire.storage.serving.handing_over import GATHERED_BYTES_MAX
from quire.storage.serving.limits import Reception, ServiceLimits
from quire.storage.serving.read_stream import ReadStream, decode_reads
from quire.testing.bookie import MemoryBookie
from quire.wire import bookie_pb2 as pb
from quire.wire.framed_reads import (
    REFUSAL,
    decode_answer,
    encode_give_up,
    encode_question,
    number_of,
)
from quire.wire.reads import PART_BYTES_MAX
from quire.wire.transport import EOF
from tests.rights.test_doors import Keeper
from tests.support.freed import FreedBytes
from tests.support.virtual import virtually

SEALER = Sealer(7, DigestKind.CRC32C, b"")


def run_of(entry: int, size: int = 100) -> bytes:
    return pack_run([SEALER.seal(entry, -1, 1, b"x" * size)])


class SlowBookie(MemoryBookie):
    """A bookie in memory that answers reads when the test says so."""

    def __init__(self) -> None:
        super().__init__("b1")
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.reading = 0
        self.freed = FreedBytes()
        """Of the runs of its answers."""

    async def read(
        self,
        ledger: int,
        first: int,
        last: int,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        self.reading += 1
        try:
            await self.may_answer.wait()
        finally:
            self.reading -= 1
        found = super().read(ledger, first, last, fence_key=fence_key, bytes_max=bytes_max)
        return self.freed.watch(await found)


class Talk:
    """A client's end that is moved by hand, and the context of the bookie's end."""

    def __init__(self, reception: Reception, identity: Any = None) -> None:
        self.said: list[bytes] = []
        self.room = asyncio.Event()
        self.room.set()
        self._questions: asyncio.Queue[Any] = asyncio.Queue()
        given = () if identity is None else (identity,)
        self.stream = ReadStream(reception, self, *given)
        self.serving = asyncio.create_task(self.stream.serve())

    async def read(self) -> Any:
        """See `ReadContext.read`."""
        found = await self._questions.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def send(self, *parts: bytes) -> None:
        """See `ReadContext.send`."""
        await self.room.wait()
        self.said.append(b"".join(parts))

    def end(self) -> None:
        """See `ReadContext.end`."""
        self._questions.put_nowait(OSError("connection reset"))
        self.room.set()

    async def ask(self, number: int, first: int = 0, **fields: Any) -> None:
        given: dict[str, Any] = {"bookie": "b1", "ledger": 7, "first": first, "last": first}
        request = pb.ReadRequest(**(given | {"bytes_max": 2**20} | fields))
        message = b"".join(encode_question(number, "", request.SerializeToString()))
        await self.put(message)

    async def put(self, message: bytes) -> None:
        self._questions.put_nowait(decode_reads(message))
        await self.settled()

    async def leave(self, error: Exception | None = None) -> None:
        self._questions.put_nowait(error or EOF)
        await self.settled()

    async def settled(self) -> None:
        await asyncio.sleep(0.001)

    def heard(self) -> dict[int, bytes | type[QuireError]]:
        """Return what was answered since the last look, by number."""
        found: dict[int, Any] = {}
        for message in self.said:
            number, _ = number_of(message)
            try:
                part = decode_answer(message).part
            except QuireError as error:
                found[number] = type(error)
            else:
                found[number] = found.get(number, b"") + bytes(part.data)
        self.said.clear()
        return found


Body = Callable[[SlowBookie, Talk, Reception], Awaitable[None]]


@asynccontextmanager
async def talking(reception: Reception) -> AsyncIterator[Talk]:
    talk = Talk(reception)
    try:
        yield talk
    finally:
        talk.serving.cancel()
        await asyncio.gather(talk.serving, return_exceptions=True)
        await talk.settled()
        assert talk.stream.runs_in_flight == 0


def served(body: Body, **given: Any) -> None:
    async def main() -> None:
        bookie = SlowBookie()
        for entry in range(3):
            await bookie.add(7, SEALER.access_key, run_of(entry))
        reception = Reception(bookie, "b1", **given)
        async with talking(reception) as talk:
            await body(bookie, talk, reception)
        assert reception.reads.taken == 0
        assert reception.calls.free == reception.calls.size
        assert reception.gathering.free == reception.gathering.size
        assert reception.unread.total == 0

    virtually(main)


def test_each_question_is_answered_as_soon_as_it_can_be() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        bookie.may_answer.clear()
        await talk.ask(1, 1)
        await talk.ask(2, ledger=8)
        assert bookie.reading == 2
        bookie.may_answer.set()
        await talk.settled()
        heard = talk.heard()
        assert heard[1] == run_of(1)
        assert heard[2] != run_of(1)
        await talk.ask(3, 2)
        assert talk.heard() == {3: run_of(2)}

    served(body)


def test_a_large_answer_comes_in_parts() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        large = run_of(3, 2 * PART_BYTES_MAX)
        await bookie.add(7, SEALER.access_key, large)
        await talk.ask(1, 3)
        assert len(talk.said) == 3
        assert talk.heard() == {1: large}

    served(body)


def test_errors_are_answers() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        await talk.ask(1, 99)
        await talk.ask(2, bookie="b9")
        assert talk.heard() == {1: NoSuchEntryError, 2: WrongBookieError}

    served(body)


def test_a_read_may_fence() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        await talk.ask(1, 0, fence_key=SEALER.access_key)
        assert talk.heard() == {1: run_of(0)}
        assert (await bookie.read_tail(7)).fenced

    served(body)


def test_what_is_given_up_is_worked_on_no_more() -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        bookie.may_answer.clear()
        await talk.ask(1)
        await talk.put(encode_give_up(1))
        await talk.put(encode_give_up(1))
        assert (bookie.reading, reception.reads.taken) == (0, 0)
        bookie.may_answer.set()
        await talk.ask(2)
        assert talk.heard() == {2: run_of(0)}

    served(body)


@pytest.mark.parametrize("number", [REFUSAL, 2])
def test_to_give_up_what_was_never_asked_ends_the_connection(number: int) -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        await talk.ask(1)
        assert talk.heard() == {1: run_of(0)}
        await talk.put(encode_give_up(number))
        assert talk.heard() == {REFUSAL: InvalidRequestError}
        await asyncio.wait_for(talk.serving, 1)

    served(body)


def test_numbers_grow_or_the_connection_is_over() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        await talk.ask(2)
        assert talk.heard() == {2: run_of(0)}
        await talk.ask(2)
        assert talk.heard() == {REFUSAL: InvalidRequestError}
        await asyncio.wait_for(talk.serving, 1)

    served(body)


def test_a_peer_without_the_right_to_read_is_denied() -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        await talk.ask(1)
        await talk.ask(2, fence_key=SEALER.access_key)
        assert talk.heard() == {1: NotPermittedError, 2: run_of(0)}
        assert reception.refusals.counts["rights"] == 1

    served(body, doorkeeper=Keeper(Action.READ))


def test_a_ledger_with_a_read_password_wants_its_key() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        await talk.ask(1)
        await talk.ask(2, key=b"the key")
        assert talk.heard() == {1: UnauthorizedError, 2: run_of(0)}

    served(body, lets_read=lambda _, key: key == b"the key")


def test_a_ledger_that_begins_while_a_read_waits_for_its_turn_keeps_its_password() -> None:
    begun = set[int]()

    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        everything = reception.gathering.size
        assert reception.gathering.take("", everything)
        await talk.ask(1)
        begun.add(7)
        reception.gathering.give_back("", everything)
        await talk.settled()
        assert talk.heard() == {1: UnauthorizedError}
        assert reception.unread.total == 0

    served(body, lets_read=lambda ledger, _: ledger not in begun)


def test_a_ledger_that_begins_during_the_look_up_keeps_its_password() -> None:
    begun = set[int]()

    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        bookie.may_answer.clear()
        await talk.ask(1)
        assert bookie.reading == 1
        begun.add(7)
        bookie.may_answer.set()
        await talk.settled()
        assert talk.heard() == {1: UnauthorizedError}
        assert reception.refusals.counts["rights"] == 1

    served(body, lets_read=lambda ledger, _: ledger not in begun)


def test_a_right_that_is_taken_away_during_the_look_up_is_gone() -> None:
    keeper = Keeper()

    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        bookie.may_answer.clear()
        await talk.ask(1)
        assert bookie.reading == 1
        keeper.denied = {Action.READ}
        bookie.may_answer.set()
        await talk.settled()
        assert talk.heard() == {1: NotPermittedError}

    served(body, doorkeeper=keeper)


@pytest.mark.parametrize("limits", [ServiceLimits(reads=1), ServiceLimits(calls=1)])
def test_reads_beyond_the_limits_are_told_that_the_bookie_is_busy(limits: ServiceLimits) -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        bookie.may_answer.clear()
        await talk.ask(1)
        await talk.ask(2)
        assert talk.heard() == {2: BookieBusyError}
        bookie.may_answer.set()
        await talk.settled()
        assert talk.heard() == {1: run_of(0)}

    served(body, limits=limits)


def test_what_is_given_up_is_heard_when_all_places_are_taken() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        bookie.may_answer.clear()
        for number in (1, 2, 3):
            await talk.ask(number)
        assert talk.heard() == {3: BookieBusyError}
        await talk.put(encode_give_up(1))
        await talk.ask(4, 1)
        bookie.may_answer.set()
        await talk.settled()
        assert talk.heard() == {2: run_of(0), 4: run_of(1)}

    served(body, limits=ServiceLimits(calls=2, peer_share=1.0))


def test_answers_that_are_not_taken_hold_up_no_other_client() -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        await bookie.add(7, SEALER.access_key, run_of(3, 500_000))
        talk.room.clear()
        for number in range(1, 100):
            await talk.ask(number, number % 3, bytes_max=2**22)
        assert reception.gathering.free == reception.gathering.size
        assert reception.unread.total == sum(len(run_of(each % 3)) for each in range(1, 100))
        async with talking(reception) as other:
            await other.ask(1, 2)
            assert other.heard() == {1: run_of(2)}
        talk.room.set()
        await talk.settled()
        assert len(talk.heard()) == 99

    served(body)


def test_answers_that_are_not_taken_are_bounded_by_their_bytes() -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        await bookie.add(7, SEALER.access_key, run_of(3, 400_000))
        talk.room.clear()
        for number in (1, 2, 3):
            await talk.ask(number, 3, bytes_max=1)
        assert 800_000 < reception.unread.total < 1_000_000
        talk.room.set()
        await talk.settled()
        large = run_of(3, 400_000)
        assert talk.heard() == {1: large, 2: large, 3: BookieBusyError}

    served(body, limits=ServiceLimits(unread_bytes=1_000_000))


def test_a_client_that_takes_nothing_loses_its_connection() -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        talk.room.clear()
        await talk.ask(1)
        await asyncio.sleep(reception.limits.stalled_seconds + 1)
        with pytest.raises(OSError, match="connection reset"):
            await asyncio.wait_for(talk.serving, 1)

    served(body)


def test_one_that_takes_a_little_keeps_it() -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        talk.room.clear()
        for number in range(1, 6):
            await talk.ask(number)
        for _ in range(5):
            await asyncio.sleep(0.7 * reception.limits.stalled_seconds)
            talk.room.set()
            await asyncio.sleep(0)
            talk.room.clear()
        talk.room.set()
        await talk.settled()
        assert talk.heard() == dict.fromkeys(range(1, 6), run_of(0))

    served(body)


def test_a_bookie_that_ends_answers_what_it_was_asked() -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        bookie.may_answer.clear()
        await talk.ask(1)
        draining = asyncio.create_task(reception.drain())
        await talk.settled()
        await talk.ask(2)
        assert talk.heard() == {2: BookieUnavailableError}
        assert not draining.done()
        bookie.may_answer.set()
        await asyncio.wait_for(draining, 1)
        assert talk.heard() == {1: run_of(0)}

    served(body)


@pytest.mark.parametrize("error", [None, OSError("connection reset")])
def test_a_client_that_is_gone_leaves_nothing(error: Exception | None) -> None:
    async def body(bookie: SlowBookie, talk: Talk, reception: Reception) -> None:
        bookie.may_answer.clear()
        for number in (1, 2):
            await talk.ask(number)
        await talk.leave(error)
        assert bookie.reading == 0
        assert reception.reads.taken == 0
        with suppress(OSError):
            await asyncio.wait_for(talk.serving, 1)

    served(body)


def test_other_bytes_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="a message of 1 bytes"):
        decode_reads(b"\x80")


def test_a_read_that_is_refused_late_holds_nothing_while_it_is_told() -> None:
    keeper = Keeper()

    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        bookie.may_answer.clear()
        talk.room.clear()
        await talk.ask(1)
        keeper.denied = {Action.READ}
        bookie.may_answer.set()
        await talk.settled()
        assert bookie.freed.count == 1
        talk.room.set()
        await talk.settled()
        assert talk.heard() == {1: NotPermittedError}

    served(body, doorkeeper=keeper)


def test_a_read_without_space_for_its_answer_holds_nothing_while_it_is_told() -> None:
    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        await bookie.add(7, SEALER.access_key, run_of(3, 400_000))
        talk.room.clear()
        for number in (1, 2, 3):
            await talk.ask(number, 3, bytes_max=1)
        assert bookie.freed.count == 1, "two are sent"
        talk.room.set()
        await talk.settled()
        assert talk.heard()[3] is BookieBusyError

    served(body, limits=ServiceLimits(unread_bytes=1_000_000))


def test_reads_that_want_few_bytes_gather_no_more_than_others() -> None:
    """The first entry comes whole, however few bytes are wanted: it may be of the largest."""

    async def body(bookie: SlowBookie, talk: Talk, _: Reception) -> None:
        bookie.may_answer.clear()
        for number in range(1, 100):
            await talk.ask(number, bytes_max=1)
        assert 0 < bookie.reading * FRAME_BYTES_MAX <= GATHERED_BYTES_MAX
        bookie.may_answer.set()
        await talk.settled()
        assert len(talk.heard()) == 99

    served(body)
