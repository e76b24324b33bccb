"""A leader's handle at rest: when it rests, what wakes it, and that it goes on where it was."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from quire.errors import QuireError
from quire.log.leader.log import Log
from quire.log.leader.patrol import ROUND_SECONDS
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import (
    NAME,
    LogCluster,
    append_all,
    eventually,
    numbered,
    run,
)
from tests.support.memory_cluster import down, hung
from tests.support.resting_logs import REST, open_log, rest, rests


def test_a_log_without_use_rests_and_goes_on_where_it_was() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client)
            for number in range(0, 12, 4):
                await append_all(log, numbered(number, 4))
                assert not rests(log)
                await rest(log)
                tasks = {each.get_name() for each in asyncio.all_tasks()}
                assert not any(name.startswith(("log ", "watch of ledger")) for name in tasks)
                assert log.next_offset == number + 4
                assert (log.epoch, log.options.rest_seconds) == (1, REST)
                assert "leads" in repr(log)
                assert log._figures() is not None
                assert rests(log), "a look at it wakes nothing"
            assert (await log.append(b"12")).offset == 12
            await log.close()
            assert await client.payloads() == numbered(0, 13)
            assert (await cluster.check_all_listed()).open_segments == ()

    run(main)


def test_an_empty_log_rests_also_after_a_roll() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await rest(log)
            await append_all(log, numbered(0, 3))
            await log.roll()
            await rest(log)
            assert (await log.append(b"3")).offset == 3
            await rest(log)
            await log.roll()
            await rest(log)
            await log.close()
            assert [each.number for each in (await cluster.check()).segments] == [1, 2]

    run(main)


def test_a_log_that_is_written_does_not_rest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            for number in range(20):
                await log.append(b"%d" % number)
                await asyncio.sleep(REST / 2)
                assert not rests(log)

    run(main)


def test_a_log_that_shall_not_rest_does_not() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client(), rest_seconds=None)
            await log.append(b"0")
            await asyncio.sleep(10 * REST)
            assert not rests(log)

    run(main)


def test_times_txids_and_producers_go_on() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client)
            stamp = ProducerSequence("till", 7)
            first = await log.append(b"0", txid=70, producer_sequence=stamp)
            await rest(log)
            cluster.now -= 10.0
            assert await log.append(b"0", txid=70, producer_sequence=stamp) == first
            await log.append(b"1", txid=70)
            await rest(log)
            with pytest.raises(QuireError, match="69"):
                await log.append(b"2", txid=69)
            await log.append(b"2")
            await asyncio.sleep(1)
            records = await client.read()
            assert [each.payload for each in records] == numbered(0, 3)
            assert [each.txid for each in records] == [70, 70, 70]
            times = [each.timestamp_ms for each in records]
            assert times == sorted(times)

    run(main)


def test_retention_and_rolls_by_age_go_on_at_rest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(
                client, roll_seconds=100.0, retention_seconds=150.0, retention_interval=20.0
            )
            await log.append(b"0")
            await cluster.pass_time(40)
            await eventually(lambda: rests(log))
            await cluster.pass_time(80)
            assert [each.number for each in (await client.manifest()).segments] == [1, 2]
            await cluster.pass_time(200)
            assert [each.number for each in (await client.manifest()).segments] == [2]
            await eventually(lambda: rests(log))

    run(main)


def test_a_log_without_retention_rolls_by_age() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client, roll_seconds=100.0)
            await log.append(b"0")
            await rest(log)
            await cluster.pass_time(100 + 2 * ROUND_SECONDS)
            assert [each.number for each in (await client.manifest()).segments] == [1, 2]
            await rest(log)

    run(main)


def test_a_follower_has_all_records_of_a_log_that_rests() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            seen: list[bytes] = []

            async def follow() -> None:
                async with await cluster.new_client().logs.read(NAME, follow=True) as reader:
                    async for record in reader:
                        seen.append(record.payload)  # noqa: PERF401

            following = asyncio.create_task(follow())
            for number in range(4):
                await log.append(b"%d" % number)
                await rest(log)
                assert seen == numbered(0, number + 1)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run(main)


def test_a_bookie_that_fails_during_a_rest_is_replaced_after_it() -> None:
    async def main() -> None:
        async with LogCluster(4) as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            ledger = log._chain.current.writer.ledger
            await rest(log)
            bookies = (await cluster.catalog.metadata(ledger)).last_fragment.bookies
            cluster.bookies[bookies[0]].before = hung("add")
            assert (await log.append(b"1")).offset == 1
            await asyncio.sleep(10)
            assert len((await cluster.catalog.metadata(ledger)).fragments) == 2
            assert await cluster.new_client().payloads() == numbered(0, 2)

    run(main)


def test_producers_are_asked_for_at_rest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await rest(log)
            assert log.last_sequence("till") is None
            await log.append(b"0", producer_sequence=ProducerSequence("till", 3))
            await rest(log)
            assert log.last_sequence("till") == 3
            assert rests(log)

    run(main)


def test_a_log_has_one_timer_and_none_at_its_end() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(
                cluster.new_client(), retention_seconds=1e4, retention_interval=300.0
            )
            timers: list[asyncio.TimerHandle] = []
            for _ in range(3):
                await rest(log)
                assert log._timer is not None
                timers.append(log._timer)
                await log.append(b"x")
                assert timers[-1].cancelled()
            await rest(log)
            log.abandon()
            assert log._timer is None
            log._rouse()
            assert rests(log)

    run(main)


def test_options_that_make_no_sense_change_nothing_over_a_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client)
            await client.logs.set_options(NAME, {"roll_entries": "7"})
            await asyncio.sleep(1)
            change = {"roll_entries": "9", "of_newer_quire": "1"}
            await log._chain.edit(lambda manifest: replace(manifest, settings=change))
            assert log.options.roll_entries == 7
            for _ in range(3):
                await rest(log)
                await log.append(b"x")
                assert log._live.now.roll_entries == 7

    run(main)
    assert caplog.text.count("continues with the options it had") == 1


def test_a_log_at_rest_keeps_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers and tasks of a log that rested have the variables of its client, not of a call."""
    request: ContextVar[str] = ContextVar("request")

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(
                cluster.new_client(), retention_seconds=1e4, retention_interval=300.0
            )
            await rest(log)
            request.set("of another call")
            given: list[Any] = []
            loop, call_at = asyncio.get_running_loop(), asyncio.get_running_loop().call_at

            def note(when: float, callback: Any, *args: Any, context: Any = None) -> Any:
                if isinstance(getattr(callback, "__self__", None), Log):
                    given.append(context)
                return call_at(when, callback, *args, context=context)

            monkeypatch.setattr(loop, "call_at", note)
            await log.append(b"0")
            await rest(log)
            assert len(given) >= 2
            assert not any(each is None or request in each for each in given)
            monkeypatch.undo()

    run(main)


def test_a_log_that_was_never_whole_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            made: list[Log] = []

            def fail(self: Log, *_: Any) -> None:
                made.append(self)
                raise ValueError("by order of the test")

            monkeypatch.setattr(Log, "_make", fail)
            with pytest.raises(ValueError, match="by order"):
                await open_log(cluster.new_client())
            with pytest.raises(AttributeError):
                repr(made[0])

    run(main)


@pytest.mark.parametrize("survivors", [0, 1])
def test_a_log_whose_ledger_failed_rests_again(survivors: int) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client(), batch_records=2)
            await append_all(log, numbered(0, 4))
            bookies = list(cluster.bookies.values())
            for bookie in bookies[survivors:]:
                bookie.before = down("add")
            futures = [await log.submit(record) for record in numbered(4, 6)]
            await asyncio.sleep(3.5)  # append_timeout is 3 s
            for bookie in bookies:
                bookie.before = down("nothing")
            for each in futures:
                await each
            await rest(log)
            assert (await log.append(b"10")).position.segment == 2
            await log.close()

    run(main)
