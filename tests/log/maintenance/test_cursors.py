"""Cursors: durable, only forward, of one log; retention can wait for them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from quire.errors import (
    CorruptRecordError,
    InvalidRequestError,
    LogReplacedError,
    NoSuchCursorError,
    NoSuchLogError,
    StoreUnavailableError,
)
from quire.log.maintenance import cursors as cursor_module
from quire.log.maintenance import deletion
from quire.log.maintenance.cursor_record import CursorRecord
from quire.log.records.position import LATEST, Position
from quire.metastore.layout import CURSORS, cursors_path
from tests.support.log_cluster import (
    NAME,
    Gate,
    LogCluster,
    append_all,
    lose_answer,
    numbered,
    refuse,
    run,
)


def test_a_record_comes_back_as_it_was_and_nonsense_is_refused() -> None:
    state = CursorRecord("billing", "ab", Position(3, 17, 2), 5)
    assert CursorRecord.decode("/x", state.encode()) == state
    for old, new in (
        (b"3.17.2", b"3.17.x"),
        (b"cursor v1", b"cursor v2"),
        (b"billing", b"willing"),
    ):
        with pytest.raises(CorruptRecordError, match="/x"):
            CursorRecord.decode("/x", state.encode().replace(old, new))


def test_a_cursor_survives_its_consumer_and_moves_only_forward() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(batch_records=2)
            await append_all(log, numbered(0, 5))
            await asyncio.sleep(0.1)  # the end is announced a moment after the ack
            cursor = await client.logs.cursors(NAME).open("billing")
            assert await cursor.lag() == 5
            records = await client.read(cursor.position)
            await cursor.advance(records[2].position.after)
            again = await cluster.new_client().logs.cursors(NAME).open("billing", LATEST)
            assert again.position == records[2].position.after
            assert await again.lag() == 2
            assert await again.advance(records[0].position) == again.position
            assert await client.payloads(again.position) == numbered(3, 2)
            assert await again.advance(LATEST) > records[-1].position
            assert await again.lag() == 0
            await log.close()

    run(main)


def test_the_lag_counts_across_segments_and_not_what_was_trimmed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open()
            cursors = client.logs.cursors(NAME)
            early = await cursors.open("early")
            assert await early.lag() == 0
            for first in (0, 4, 8):
                await append_all(log, numbered(first, 4))
                await log.roll()
            assert await early.lag() == 12
            middle = await cursors.open("middle", Position(2, 10, 0))
            assert await middle.lag() == 4
            await log.trim(Position(2, 0, 2))
            assert await early.lag() == (await client.read(0 + 6))[-1].offset - 5
            await log.close()
            assert await early.lag() == 6

    run(main)


def test_two_consumers_leave_it_where_the_faster_one_is() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            one, other = cluster.new_client(), cluster.new_client()
            log = await one.open(batch_records=1)
            positions = await append_all(log, numbered(0, 10))
            mine = await one.logs.cursors(NAME).open("shared")
            theirs = await other.logs.cursors(NAME).open("shared")
            gate = Gate("commit", CURSORS)
            one.store.before = gate
            moving = asyncio.create_task(mine.advance(positions[3]))
            await gate.reached.wait()
            await theirs.advance(positions[7])
            gate.open.set()
            assert await moving == positions[7]
            other.store.after = lose_answer("commit", path=CURSORS)
            assert await theirs.advance(positions[9]) == positions[9]
            assert await mine.refresh() == positions[9]
            await log.close()

    run(main)


def test_what_cannot_be_is_a_typed_error() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            cursors = client.logs.cursors(NAME)
            with pytest.raises(NoSuchLogError):
                await cursors.open("a")
            async with await client.open() as log:
                await log.append(b"x")
            cursor = await cursors.open("a")
            with pytest.raises(InvalidRequestError, match=r"9\.0\.0"):
                await cursor.advance(Position(9, 0, 0))
            assert [state.name for state in await cursors.list()] == ["a"]
            await cursors.delete("a")
            for call in (cursor.refresh, cursor.lag, lambda: cursors.delete("a")):
                with pytest.raises(NoSuchCursorError):
                    await call()
            with pytest.raises(NoSuchCursorError):
                await cursor.advance(LATEST)
            with pytest.raises(NoSuchCursorError):
                await cursors.find("a")

    run(main)


def test_a_cursor_takes_offsets() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                positions = await append_all(log, numbered(0, 5))
                await asyncio.sleep(0.1)
                cursors = cluster.new_client().logs.cursors(NAME)
                billing = await cursors.open("billing", 2)
                assert billing.position == positions[2]
                assert await billing.advance(4) == positions[4]
                assert await billing.advance(1) == positions[4]
                assert await billing.advance(5) > positions[4]
                for beyond in (-1, 6):
                    with pytest.raises(
                        InvalidRequestError, match=r"next record gets 5|not a place"
                    ):
                        await billing.advance(beyond)
                await client.logs.trim(NAME, 3)
                assert (await cursors.open("late", 0)).position == positions[3]

    run(main)


def test_a_log_goes_with_its_cursors_or_not_at_all() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await client.open()).close()
            for number in range(5):
                await client.logs.cursors(NAME).open(f"c{number}")
            client.store.before = refuse("commit")
            with pytest.raises(StoreUnavailableError):
                await client.logs.delete(NAME)
            assert len(await cluster.store.children(cursors_path(NAME))) == 5
            # A cursor that goes while its log does is no obstacle.
            other = cluster.new_client()

            async def forestall(method: str, path: str) -> None:
                if method == "commit" and await other.logs.cursors(NAME).list():
                    with suppress(NoSuchCursorError):
                        await other.logs.cursors(NAME).delete("c3")

            client.store.before = forestall
            await client.logs.delete(NAME)
            assert await cluster.store.children(cursors_path(NAME)) == []
            assert await client.logs.list() == []

    run(main)


def test_more_cursors_than_one_change_takes_are_deleted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cursor_module, "CURSORS_AT_ONCE", 2)
    monkeypatch.setattr(deletion, "CURSORS_AT_ONCE", 2)

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await (await client.open()).close()
            for number in range(5):
                await client.logs.cursors(NAME).open(f"c{number}")
            await client.logs.delete(NAME)
            assert await cluster.store.children(cursors_path(NAME)) == []

    run(main)


def test_a_deletion_that_is_late_leaves_the_cursors_of_the_next_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletion, "CURSORS_AT_ONCE", 0)

    async def main() -> None:
        async with LogCluster() as cluster:
            client, late = cluster.new_client(), cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            await client.logs.cursors(NAME).open("a")
            late.store.before = gate = Gate("delete", CURSORS)
            deleting = asyncio.create_task(late.logs.delete(NAME))
            await gate.reached.wait()
            await client.logs.delete(NAME)
            async with await client.open() as log:
                await append_all(log, numbered(3, 2))
            cursor = await client.logs.cursors(NAME).open("a", LATEST)
            gate.open.set()
            with pytest.raises(LogReplacedError):
                await deleting
            assert await cursor.lag() == 0

    run(main)


def test_a_cursor_of_a_deleted_log_is_not_one_of_the_next() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            cursors = client.logs.cursors(NAME)
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            cursor = await cursors.open("a", LATEST)
            left_behind = await client.store.get(f"{CURSORS}/a%2Flog/a")
            await client.logs.delete(NAME)
            assert await client.store.children(CURSORS + "/a%2Flog") == []
            await client.store.create(f"{CURSORS}/a%2Flog/a", left_behind.value)
            async with await client.open() as log:
                await append_all(log, numbered(3, 2))
            for call in (cursor.lag, lambda: cursor.advance(LATEST)):
                with pytest.raises(LogReplacedError):
                    await call()
            assert await cursors.list() == []
            with pytest.raises(NoSuchCursorError):
                await cursors.find("a")
            assert await (await cursors.open("a")).lag() == 2

    run(main)


def test_a_cursor_of_the_next_log_is_not_taken_for_one_that_was_left_behind() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 3))
            late = cluster.new_client()
            late.store.before = gate = Gate("get", CURSORS)
            opening = asyncio.create_task(late.logs.cursors(NAME).open("a"))
            await gate.reached.wait()
            await client.logs.delete(NAME)
            async with await client.open() as log:
                await append_all(log, numbered(3, 5))
            cursor = await client.logs.cursors(NAME).open("a")
            await cursor.advance(4)
            gate.open.set()
            with pytest.raises(LogReplacedError):
                await opening
            assert await cursor.lag() == 1

    run(main)


def test_a_reset_cursor_goes_to_any_place_and_is_never_absent() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            async with await client.open() as log:
                await append_all(log, numbered(0, 5))
            cursors = client.logs.cursors(NAME)
            before = await cursors.reset("a", 3)
            assert await before.offset() == 3, "it did not exist"
            late = cluster.new_client()
            late.store.before = gate = Gate("commit", "")
            resetting = asyncio.create_task(late.logs.cursors(NAME).reset("a", 1))
            await gate.reached.wait()
            assert await (await cursors.find("a")).offset() == 3
            await before.advance(4)  # between its look and its change
            gate.open.set()
            assert await (await resetting).offset() == 1
            assert await (await cursors.find("a")).offset() == 1
            await before.refresh()
            assert await before.advance(2) == await (await cursors.find("a")).refresh()
            with pytest.raises(InvalidRequestError, match="7"):
                await cursors.reset("a", 7)

    run(main)


def test_retention_does_not_pass_a_cursor_that_is_being_reset() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(retention_interval=10.0, retention_seconds=50.0)
            await client.logs.set_options(NAME, {"retention_cursors": "true"})
            await append_all(log, numbered(0, 3))
            await log.roll()
            await log.append(b"3")
            await client.logs.cursors(NAME).open("a", 3)
            await client.logs.cursors(NAME).reset("a", 1)
            await cluster.pass_time(75)
            assert len((await client.manifest()).segments) == 2
            await log.close()

    run(main)


def test_retention_waits_for_the_slowest_cursor_if_the_log_says_so() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(retention_interval=10.0)
            settings = {"retention_seconds": "50", "retention_cursors": "true"}
            await client.logs.set_options(NAME, settings)
            for number in range(4):
                await log.append(b"%d" % number)
                await log.roll()
            cursors = client.logs.cursors(NAME)
            slow, fast = await cursors.open("slow"), await cursors.open("fast")
            await fast.advance(Position(4, 0, 0))
            await cluster.pass_time(65)
            assert (await cluster.check()).segments[0].number == 1
            await slow.advance(Position(3, 0, 0))
            await cluster.pass_time(15)
            assert (await cluster.check()).segments[0].number == 3
            assert await client.payloads(slow.position) == [b"2", b"3"]
            await client.logs.set_options(NAME, {"retention_cursors": ""})
            await cluster.pass_time(15)
            assert (await cluster.check()).segments[0].number == 5
            await log.close()

    run(main)


@pytest.mark.parametrize("waiting", [False, True])
def test_a_cursor_that_cannot_be_read_ends_no_leader(
    waiting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be one of a newer version, too. Retention then trims nothing if it has to wait."""

    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            log = await client.open(retention_interval=10.0, retention_seconds=50.0)
            await client.logs.set_options(NAME, {"retention_cursors": str(waiting).lower()})
            await append_all(log, numbered(0, 3))
            await log.roll()
            await client.store.create(f"{CURSORS}/a%2Flog/a", b"no cursor")
            await cluster.pass_time(75)
            await log.append(b"3")
            assert len((await client.manifest()).segments) == 1 + waiting
            if waiting:
                assert "a%2Flog/a" in caplog.text
                await client.logs.cursors(NAME).delete("a")
                await cluster.pass_time(15)
                assert len((await client.manifest()).segments) == 1
            await log.close()

    run(main)


def test_a_log_goes_with_a_cursor_that_cannot_be_read() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client = cluster.new_client()
            await client.logs.create(NAME)
            await client.logs.cursors(NAME).open("b")
            await client.store.create(f"{CURSORS}/a%2Flog/a", b"no cursor")
            with pytest.raises(CorruptRecordError, match="a%2Flog/a"):
                await client.logs.cursors(NAME).list()
            await client.logs.delete(NAME)
            assert await client.logs.list() == []
            assert await client.store.children(cursors_path(NAME)) == []

    run(main)


def test_a_deletion_leaves_the_cursor_of_the_next_log() -> None:
    """It was looked at as a cursor of the log before, and deleted with it."""

    async def main() -> None:
        async with LogCluster() as cluster:
            one, other = cluster.new_client(), cluster.new_client()
            async with await one.open() as log:
                await log.append(b"x")
            await one.logs.cursors(NAME).open("billing")
            gate = Gate("commit", CURSORS)
            one.store.before = gate
            late = asyncio.create_task(one.logs.cursors(NAME).delete("billing"))
            await gate.reached.wait()
            await other.logs.delete(NAME)
            async with await other.open() as log:
                await log.append(b"y")
            await other.logs.cursors(NAME).open("billing")
            gate.open.set()
            with pytest.raises(NoSuchCursorError):
                await late
            assert [each.name for each in await other.logs.cursors(NAME).list()] == ["billing"]

    run(main)
