"""Who waits for room and who for an answer, without a writer around it."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import (
    AppendOutcomeUnknownError,
    HandleClosedError,
    QuireError,
)
from quire.ledger.pending_appends import PendingAppends, Request
from quire.metrics.meter import ClientMeter
from tests.support.virtual import virtually


class Room:
    """Pushes as long as there is room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.pushed = -1

    def push(self, payload: bytes) -> int | None:
        if self.room == 0:
            return None
        self.room -= 1
        self.pushed += 1
        return self.pushed


def request(count: int, *, single: bool = False, submit: bool = False, at: float = 0.0) -> Request:
    loop = asyncio.get_running_loop()
    admitted: asyncio.Future[None] | None = loop.create_future() if submit else None
    return Request([b"x"] * count, single, at, loop.create_future(), admitted)


def unknown(entry: int) -> QuireError:
    return AppendOutcomeUnknownError(7, entry, "test")


def refused() -> QuireError:
    return HandleClosedError("test")


def test_requests_are_pushed_in_order_and_keep_their_ids_together() -> None:
    async def main() -> None:
        appends, room = PendingAppends(), Room(4)
        requests = [request(3), request(1, single=True), request(2), request(0)]
        for each in requests:
            appends.wait(each)
        assert appends.admit(room.push, -1) == 3
        assert [appends.is_waiting] == [True]
        room.room = 1
        assert appends.admit(room.push, 3) == 4
        appends.resolve(4)
        assert requests[0].answer.result() == range(3)
        assert requests[1].answer.result() == 3
        assert not requests[2].answer.done()
        room.room = 10
        assert appends.admit(room.push, 4) == 5
        assert [appends.is_waiting] == [False]
        appends.resolve(5)
        assert requests[2].answer.result() == range(4, 6)
        assert requests[3].answer.result() == range(6, 6), "nothing, but in its turn"
        assert appends.oldest is None

    virtually(main)


def test_abandoned_requests_are_dropped_unless_they_were_pushed() -> None:
    async def main() -> None:
        appends, room = PendingAppends(), Room(1)
        requests = [request(2), request(1, submit=True), request(1), request(1, single=True)]
        for each in requests:
            appends.wait(each)
        appends.admit(room.push, -1)
        requests[0].answer.cancel()
        assert requests[1].admitted is not None
        requests[1].admitted.cancel()
        requests[2].answer.cancel()
        room.room = 10
        assert appends.admit(room.push, 0) == 1, "entry 0 was pushed, the rest of its lot was not"
        appends.resolve(1)
        assert requests[3].answer.result() == 1

    virtually(main)


def test_a_submission_is_admitted_when_pushed_and_answered_when_confirmed() -> None:
    async def main() -> None:
        appends, room = PendingAppends(), Room(1)
        submitted = request(1, single=True, submit=True)
        appends.wait(submitted)
        appends.admit(room.push, -1)
        assert submitted.admitted is not None
        assert submitted.admitted.done()
        assert not submitted.answer.done()
        appends.resolve(0)
        assert submitted.answer.result() == 0

    virtually(main)


@pytest.mark.parametrize("until", [5.0, math.inf])
def test_expiry_fails_the_oldest_calls_with_the_error_that_is_true(until: float) -> None:
    async def main() -> None:
        appends, room = PendingAppends(), Room(2)
        sent, part, whole = request(1, at=1.0), request(2, at=2.0), request(1, at=3.0, submit=True)
        young = request(1, at=6.0)
        for each in (sent, part, whole, young):
            appends.wait(each)
        appends.admit(room.push, -1)
        assert appends.oldest == 1.0
        appends.expire(until, 0.0, unknown, refused)
        assert isinstance(sent.answer.exception(), AppendOutcomeUnknownError)
        assert isinstance(part.answer.exception(), AppendOutcomeUnknownError)
        assert whole.admitted is not None
        assert isinstance(whole.admitted.exception(), HandleClosedError)
        assert young.answer.done() == (until == math.inf)
        assert appends.oldest == (None if until == math.inf else 6.0)

    virtually(main)


def test_an_abandoned_answer_is_left_alone() -> None:
    async def main() -> None:
        appends = PendingAppends()
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in range(3)]
        for entry, answer in enumerate(answers):
            appends.expect(entry, answer, entry, 0.0)
        answers[0].cancel()
        answers[2].cancel()
        appends.resolve(1)
        assert answers[1].result() == 1
        appends.expire(1.0, 0.0, unknown, refused)

    virtually(main)


@given(st.floats(0, 1e6), st.floats(1e-3, 1e3))
def test_an_alarm_set_for_an_append_finds_it_due(started: float, timeout: float) -> None:
    """Else it would be set for the same moment again, and again."""

    async def main() -> None:
        appends = PendingAppends()
        answer = asyncio.get_running_loop().create_future()
        appends.expect(0, answer, 0, started)
        assert appends.oldest is not None
        appends.expire(appends.oldest + timeout, timeout, unknown, refused)
        assert isinstance(answer.exception(), AppendOutcomeUnknownError)

    virtually(main)


class Heard(ClientMeter):
    """Keeps what it is told of appends."""

    def __init__(self) -> None:
        self.answered: list[tuple[int, float]] = []
        self.failed: list[str] = []

    def appended(self, entries: int, seconds: float) -> None:
        self.answered.append((entries, seconds))

    def failed_append(self, outcome: str) -> None:
        self.failed.append(outcome)


def test_entries_that_are_confirmed_after_their_callers_gave_up_took_that_long() -> None:
    async def main() -> None:
        heard, begun = Heard(), asyncio.get_running_loop().time()
        appends, room = PendingAppends(heard), Room(4)
        for each in (request(1, at=begun), request(3, at=begun + 1.0)):
            appends.wait(each)
        appends.admit(room.push, -1)
        await asyncio.sleep(10.0)
        appends.expire(begun + 10.0, 5.0, unknown, refused)
        await asyncio.sleep(10.0)
        appends.resolve(1)
        late = request(1, at=begun + 19.0)
        appends.wait(late)
        room.room = 1
        assert appends.admit(room.push, 3) == 4
        appends.resolve(3)
        appends.resolve(4)
        assert heard.answered == [(2, 20.0), (2, 19.0), (1, 1.0)]
        assert heard.failed == ["unknown", "unknown"]

    virtually(main)


def test_the_time_told_is_of_the_oldest_entry_that_is_still_awaited() -> None:
    """Each second an append gives up and an earlier one is confirmed: none takes ever longer."""

    async def main() -> None:
        heard, begun = Heard(), asyncio.get_running_loop().time()
        appends, room = PendingAppends(heard), Room(100)
        for number in range(10):
            appends.wait(request(1, at=begun + number))
            appends.admit(room.push, number - 1)
            await asyncio.sleep(1.0)
            appends.expire(begun + number + 1.0, 1.0, unknown, refused)
            appends.resolve(number - 2)
        assert heard.answered == [(1, 3.0)] * 8

    virtually(main)


def test_a_part_of_an_append_is_timed_too() -> None:
    async def main() -> None:
        heard, begun = Heard(), asyncio.get_running_loop().time()
        appends, room = PendingAppends(heard), Room(2)
        appends.wait(request(3, at=begun))
        appends.admit(room.push, -1)
        await asyncio.sleep(10.0)
        appends.expire(begun + 10.0, 5.0, unknown, refused)
        appends.resolve(1)
        assert heard.answered == [(2, 10.0)]
        assert heard.failed == ["unknown"]

    virtually(main)


def test_a_call_that_appends_nothing_is_no_append() -> None:
    """`drain`, `force` and `close` wait in the same queues."""

    async def main() -> None:
        heard, begun = Heard(), asyncio.get_running_loop().time()
        appends, room = PendingAppends(heard), Room(1)
        calls = [request(count, at=begun) for count in (1, 0, 1, 0)]
        for each in calls:
            appends.wait(each)
        appends.admit(room.push, -1)
        appends.expire(begun + 10.0, 5.0, unknown, refused)
        assert all(isinstance(each.answer.exception(), QuireError) for each in calls)
        assert heard.failed == ["unknown", "refused"]

    virtually(main)
