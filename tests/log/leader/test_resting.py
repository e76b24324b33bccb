"""A leader's handle at rest: when it rests, what wakes it, and that no caller can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from quire.errors import DeposedError, HandleClosedError, QuireError
from quire.log.leader.log import Log
from quire.log.leader.patrol import ROUND_SECONDS, Patrol
from quire.log.manifest.options import LogOptions
from quire.log.records.producers import ProducerSequence
from tests.support.log_cluster import (
    NAME,
    Client,
    LogCluster,
    append_all,
    eventually,
    numbered,
    refuse,
    run,
)
from tests.support.memory_cluster import hung

REST = 5.0


async def open_log(client: Client, **options: Any) -> Log:
    options.setdefault("rest_seconds", REST)
    return await client.open(**options)


def rests(log: Log) -> bool:
    return log._resting is not None


def log_task(name: str) -> asyncio.Task[Any]:
    (task,) = (each for each in asyncio.all_tasks() if each.get_name() == name)
    return task


async def rest(log: Log) -> None:
    """Wait until a log rests."""
    await asyncio.sleep(3 * REST)
    assert rests(log)


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


def test_a_caller_that_waits_for_the_end_keeps_it_awake() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            waiting = asyncio.create_task(log.wait_deposed())
            await asyncio.sleep(5 * REST)
            assert not rests(log)
            await (await open_log(cluster.new_client())).close()
            await asyncio.wait_for(waiting, 1)
            assert log.is_deposed

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


async def append(log: Log) -> None:
    await log.append(b"more")


async def append_many(log: Log) -> None:
    await log.append_many([b"more", b"still"])


async def drain(log: Log) -> None:
    await log.drain()


async def roll(log: Log) -> None:
    await log.roll()


async def trim(log: Log) -> None:
    await log.trim((await log.append(b"more")).position)


async def close(log: Log) -> None:
    await log.close()


async def seal(log: Log) -> None:
    await log.seal()


CALLS = [append, append_many, drain, roll, trim, close, seal]


@pytest.mark.parametrize("call", CALLS, ids=lambda each: each.__name__)
def test_every_call_finds_a_whole_log(call: Callable[[Log], Awaitable[None]]) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await append_all(log, numbered(0, 3))
            await rest(log)
            await call(log)
            await log.close()
            await cluster.check_all_listed()

    run(main)


@pytest.mark.parametrize("call", CALLS, ids=lambda each: each.__name__)
def test_every_call_after_a_rest_meets_the_next_leader(
    call: Callable[[Log], Awaitable[None]],
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await append_all(log, numbered(0, 3))
            await rest(log)
            other = await open_log(cluster.new_client())
            if call in (close, drain):
                await call(log)
            else:
                with pytest.raises(DeposedError):
                    await call(log)
            await other.append(b"3")
            await other.close()
            assert await cluster.new_client().payloads() == numbered(0, 4)

    run(main)


def test_another_leader_is_noticed_at_rest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            other = await open_log(cluster.new_client())
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert log.is_deposed
            await other.close()

    run(main)


def test_a_store_that_is_away_wakes_no_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client)
            await rest(log)
            client.store.before = refuse()
            await asyncio.sleep(5 * ROUND_SECONDS)
            assert rests(log)
            client.store.before = refuse("nothing")
            await client.logs.set_options(NAME, {"roll_entries": "2"})
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert log.options.roll_entries == 2

    run(main)


def test_options_of_the_log_are_obeyed_at_rest_and_kept_over_it() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client)
            await log.append(b"0")
            await client.logs.set_options(NAME, {"roll_entries": "2"})
            await rest(log)
            assert log.options.roll_entries == 2
            await append_all(log, numbered(1, 1))
            assert log._live.now.roll_entries == 2
            await asyncio.sleep(1)
            assert (await client.manifest()).next_segment == 3

    run(main)


def test_options_set_in_the_moment_after_a_rest_are_obeyed() -> None:
    """A leader that was just woken does not watch yet: the patrol goes on until it does."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client, rest_seconds=100.0)
            await asyncio.sleep(250)
            assert rests(log)
            await log.append(b"0")
            await client.logs.set_options(NAME, {"roll_entries": "2"})
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert not rests(log)
            assert log.options.roll_entries == 2

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


def test_a_log_that_is_left_at_rest_leaves_nothing() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            others = asyncio.all_tasks() - {log_task(name="patrol of resting logs")}
            log.abandon()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == others
            with pytest.raises(QuireError):
                await log.append(b"1")
            with pytest.raises(QuireError):
                await log.roll()
            await asyncio.sleep(1)
            assert asyncio.all_tasks() == others
            await log.close()
            other = await open_log(cluster.new_client())
            await other.close()
            assert await cluster.new_client().payloads() == [b"0"]

    run(main)


def test_a_closed_log_says_so_after_a_rest() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            await log.close()
            with pytest.raises(HandleClosedError):
                await log.append(b"1")
            with pytest.raises(AttributeError, match="_chian"):
                _ = log._chian

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


def test_two_leaders_of_one_client_do_not_hide_each_other() -> None:
    """The patrol asks for a path once; of two leaders at rest one was deposed by the other."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            first = await open_log(client)
            await first.append(b"0")
            await rest(first)
            second = await open_log(client, rest_seconds=1.0)
            await asyncio.sleep(3)
            await asyncio.sleep(3 * ROUND_SECONDS)
            assert first.is_deposed
            assert not second.is_deposed
            await second.append(b"1")

    run(main)


def test_many_logs_are_asked_for_together() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            options = LogOptions(rest_seconds=REST)
            logs = [await client.logs.open(f"log {number}", options) for number in range(7)]
            await asyncio.sleep(3 * REST)
            assert all(map(rests, logs))
            calls: list[str] = []

            async def note(method: str, path: str) -> None:
                calls.append(method)

            client.store.before = note
            await asyncio.sleep(ROUND_SECONDS * 4)
            assert set(calls) == {"changed"}
            assert len(calls) <= 4

    run(main)


# The first tries of an adversary.


def test_the_patrol_goes_on_when_its_last_leader_goes_and_another_comes() -> None:
    """Both in one turn: the task of the one before must not count for the next one."""

    async def main() -> None:
        async with LogCluster() as cluster:
            patrol = Patrol(cluster.store)
            one, two = Asleep(), Asleep()
            for _ in range(3):
                patrol.watch("/one", one)
                await asyncio.sleep(0)
                patrol.forget("/one", one)
                patrol.watch("/two", two)
                await asyncio.sleep(ROUND_SECONDS + 1)
                assert two.roused
                patrol.forget("/two", two)
                two.roused = 0

    run(main)


class Asleep:
    """Port `Sleeper`: it saw a record that was never there."""

    _due_at = inf

    def __init__(self) -> None:
        self.roused = 0

    def _views(self) -> dict[str, int | None]:
        return {f"/{id(self)}": 7}

    def _rouse(self) -> None:
        self.roused += 1


def test_a_defect_of_one_leader_does_not_end_the_patrol() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            patrol = Patrol(cluster.store)
            defect, other = Asleep(), Asleep()
            defect._rouse = lambda: 1 / 0  # type: ignore[assignment, method-assign]
            patrol.watch("/a", defect)
            patrol.watch("/b", other)
            await asyncio.sleep(ROUND_SECONDS + 1)
            patrol.forget("/a", defect)
            await asyncio.sleep(2 * ROUND_SECONDS)
            assert other.roused
            patrol.forget("/b", other)

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


def test_a_repeated_append_that_meets_the_next_leader_ends_the_handle() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            stamp = ProducerSequence("till", 1)
            await log.append(b"0", producer_sequence=stamp)
            await rest(log)
            await open_log(cluster.new_client())
            with pytest.raises(DeposedError):
                await log.append(b"0", producer_sequence=stamp)
            assert log.is_deposed

    run(main)


def test_a_call_that_looks_for_an_original_keeps_the_log_awake() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client(), rest_seconds=0.2)
            stamp = ProducerSequence("till", 1)
            await log.append(b"0", producer_sequence=stamp)
            await asyncio.sleep(2)
            assert rests(log)
            for bookie in cluster.bookies.values():
                bookie.before = hung("read")
            call = asyncio.create_task(log.append(b"0", producer_sequence=stamp))
            for _ in range(8):
                await asyncio.sleep(0.1)
                assert not rests(log)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

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


def test_ledgers_that_another_client_could_not_delete_are_deleted() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, other = cluster.new_client(), cluster.new_client()
            log = await open_log(client, retention_interval=30.0)
            await log.append(b"0")
            await log.roll()
            position = (await log.append(b"1")).position
            other.store.before = refuse("delete", "commit")
            with suppress(QuireError):
                await other.logs.trim(NAME, position)
            assert (await client.manifest()).doomed
            await asyncio.sleep(90)
            assert not (await client.manifest()).doomed
            assert rests(log)

    run(main)


def test_an_abandoned_log_is_closed_without_waking() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await rest(log)
            log.abandon()
            await log.close()
            assert rests(log)

    run(main)


def test_a_log_that_is_closing_starts_nothing_new() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await open_log(client, rest_seconds=1.0)
            await log.append(b"0")
            await asyncio.sleep(5)
            assert rests(log)
            client.store.before = refuse()
            closing = asyncio.create_task(log.close())
            await asyncio.sleep(5)
            names = {each.get_name() for each in asyncio.all_tasks()}
            assert not any(name.endswith(("watcher", "keeper")) for name in names)
            client.store.before = refuse("nothing")
            await closing

    run(main)


# A second adversary.


async def delete_the_ledger(cluster: LogCluster) -> None:
    (ledger,) = await cluster.ledgers()
    await cluster.catalog.delete(ledger)


def test_a_ledger_that_is_deleted_during_a_rest_ends_the_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            await delete_the_ledger(cluster)
            await asyncio.sleep(ROUND_SECONDS + 1)
            with pytest.raises(DeposedError, match="deleted its ledger"):
                await log.append(b"1")

    run(main)


async def write_on(log: Log) -> None:
    for _ in range(int(4 * ROUND_SECONDS)):
        await log.append(b"1")
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("in_use", [0.5, 25.0])
def test_a_ledger_that_is_deleted_after_a_rest_ends_the_log(in_use: float) -> None:
    """Also when the log stays in use: its ledger is watched again."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            for _ in range(int(in_use / 0.5)):
                await log.append(b"x")
                await asyncio.sleep(0.5)
            await delete_the_ledger(cluster)
            with pytest.raises(DeposedError, match="deleted its ledger"):
                await write_on(log)

    run(main)


def test_a_log_whose_ledger_was_guarded_rests_all_night() -> None:
    """The creation of the log moved the version of the ledger's record: that is no news."""

    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await log.append(b"0")
            await rest(log)
            for _ in range(8):
                await asyncio.sleep(ROUND_SECONDS / 2)
                assert rests(log)

    run(main)


def test_a_caller_that_begins_to_wait_for_the_end_wakes_the_log() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await open_log(cluster.new_client())
            await rest(log)
            waiting = asyncio.create_task(log.wait_deposed())
            await asyncio.sleep(0)
            assert not rests(log)
            await open_log(cluster.new_client())
            await asyncio.wait_for(waiting, 0.5)

    run(main)


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
