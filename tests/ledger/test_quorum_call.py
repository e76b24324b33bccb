"""Calls to several bookies: answers in order of arrival, nothing left behind."""

from __future__ import annotations

import asyncio
import gc

import pytest

from quire.errors import BookieUnavailableError, NoSuchEntryError, QuireError
from quire.ledger.quorum_call import ATTEMPTS, QuorumCall, retry_transient, within
from tests.support.virtual import virtually


async def later(seconds: float, result: str) -> str:
    await asyncio.sleep(seconds)
    return result


def test_answers_come_in_the_order_in_which_calls_end() -> None:
    async def main() -> None:
        async with QuorumCall[int, str]() as asking:
            asking.ask(1, later(3, "slow"))
            asking.ask(2, later(1, "fast"))
            assert (asking.outstanding, asking.is_asked(1)) == (2, True)
            assert await asking.next() == (2, "fast")
            assert await asking.next() == (1, "slow")
            assert (asking.outstanding, asking.is_asked(1)) == (0, False)

    virtually(main)


def test_errors_of_quire_are_answers_and_others_are_raised() -> None:
    async def fail(error: Exception) -> str:
        raise error

    async def main() -> None:
        async with QuorumCall[int, str]() as asking:
            denial = NoSuchEntryError(1, 2)
            asking.ask(1, fail(denial))
            assert await asking.next() == (1, denial)
            asking.ask(1, fail(ZeroDivisionError()))
            with pytest.raises(ZeroDivisionError):
                await asking.next()

    virtually(main)


def test_leaving_ends_every_call() -> None:
    ended: list[str] = []

    async def call(name: str) -> str:
        try:
            return await later(100, name)
        finally:
            ended.append(name)

    async def main() -> None:
        async with QuorumCall[int, str]() as asking:
            asking.ask(1, call("a"))
            asking.ask(2, call("b"))
            asking.ask(3, later(0, "c"))
            await asking.next()
        assert ended == ["a", "b"]

    virtually(main)


def test_an_error_that_nobody_has_taken_yet_is_no_complaint() -> None:
    """Found by the simulator: whoever follows a ledger takes answers when he wants more."""

    async def main() -> None:
        complaints: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, seen: complaints.append(seen))

        async def fail() -> None:
            raise BookieUnavailableError("b", "gone")

        asking = QuorumCall[str, None]()
        asking.ask("b", fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asking.outstanding == 1
        del asking
        gc.collect()
        assert complaints == []

    asyncio.run(main())


def test_a_call_that_the_link_cancels_is_a_failed_bookie() -> None:
    async def main() -> None:
        dropped: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def call() -> str:
            return await dropped

        async with QuorumCall[str, str]() as asking:
            asking.ask("b0", call())
            await asyncio.sleep(1)
            dropped.cancel()
            key, answer = await asking.next()
            assert key == "b0"
            assert isinstance(answer, BookieUnavailableError)

    virtually(main)


def test_a_key_is_asked_once_at_a_time() -> None:
    async def main() -> None:
        async with QuorumCall[int, str]() as asking:
            asking.ask(1, later(1, "x"))
            second = later(1, "y")
            with pytest.raises(AssertionError):
                asking.ask(1, second)
            second.close()

    virtually(main)


def test_a_late_answer_is_an_unavailable_bookie() -> None:
    async def main() -> None:
        with pytest.raises(BookieUnavailableError, match=r"bookie b7 .*2 s"):
            await within(2, "b7", later(3, "x"))
        assert await within(2, "b7", later(1, "x")) == "x"

    virtually(main)


@pytest.mark.parametrize(
    ("error", "failures", "ok"),
    [
        (BookieUnavailableError("b", "x"), ATTEMPTS - 1, True),
        (BookieUnavailableError("b", "x"), ATTEMPTS, False),
        (NoSuchEntryError(1, 1), 1, False),
    ],
)
def test_only_transient_errors_are_asked_again(error: QuireError, failures: int, ok: bool) -> None:
    attempts = 0

    async def attempt() -> str:
        nonlocal attempts
        attempts += 1
        if attempts <= failures:
            raise error
        return "answer"

    async def main() -> None:
        if ok:
            assert await retry_transient(attempt) == "answer"
        else:
            with pytest.raises(type(error)):
                await retry_transient(attempt)
        assert attempts == min(failures + ok, ATTEMPTS)

    virtually(main)
