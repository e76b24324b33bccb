"""Leaving `connect`: closed in order and visible, or abandoned and named; never told twice."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from quire.election.election import Election
from quire.errors import (
    AppendOutcomeUnknownError,
    ConfigurationError,
    DeposedError,
    HandleClosedError,
    LeavingTimeoutError,
    OutcomeUnknownError,
    QuireError,
)
from quire.leaving import GRACE_SECONDS, PRUNE_MIN, OpenHandles, Stage
from quire.ledger.quorum import Replication
from quire.log.manifest.options import LogOptions
from quire.service import Role
from tests.service.replicas import NAME as SERVICE
from tests.service.replicas import replicas
from tests.support.log_cluster import NAME, LogCluster, eventually, numbered, run
from tests.support.memory_cluster import hung


@contextmanager
def silent(cluster: LogCluster) -> Iterator[None]:
    """No bookie answers to an add."""
    for bookie in cluster.bookies.values():
        bookie.before = hung("add")
    yield
    for bookie in cluster.bookies.values():
        bookie.before = hung("nothing")


async def in_order(handles: OpenHandles) -> None:
    await handles.leave(None, None, None)


async def by(handles: OpenHandles, error: BaseException) -> None:
    await handles.leave(type(error), error, None)


def test_every_acknowledged_record_is_visible_after_leaving() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            for number in range(5):
                log = handles.remember(
                    await client.logs.open(f"log {number}", LogOptions()), Stage.WRITER
                )
                await log.append(b"kept")
                await log.submit(b"under way")
            await in_order(handles)
            for number in range(5):
                async with await cluster.new_client().logs.read(f"log {number}") as reader:
                    assert [each.payload async for each in reader] == [b"kept", b"under way"]
                assert (await client.logs.describe(f"log {number}")).open_segments == ()

    run(main)


def test_a_ledger_is_closed_and_a_reader_ends() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            writer = handles.remember(
                await client.catalog.create(Replication(3, 3, 2)), Stage.WRITER
            )
            await writer.append(b"entry")
            following = await client.logs.read(NAME, follow=True, wait_for_log=True)
            reader = handles.remember(following, Stage.READER)
            waiting = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            await in_order(handles)
            assert (await client.catalog.metadata(writer.ledger)).last_entry == 0
            with pytest.raises(HandleClosedError):
                await waiting

    run(main)


def test_an_error_that_was_told_is_not_told_again_and_the_others_are_closed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            options = LogOptions(replication=Replication(3, 3, 2))
            failed = handles.remember(await client.logs.open("failed", options), Stage.WRITER)
            other = handles.remember(await client.logs.open("other", options), Stage.WRITER)
            await other.append(b"kept")
            with silent(cluster), pytest.raises(QuireError):
                await failed.append(b"lost")
            await in_order(handles)
            assert (await client.logs.describe("other")).open_segments == ()

    run(main)


def test_a_deposed_leader_leaves_in_peace() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            handles = OpenHandles()
            old = handles.remember(await cluster.new_client().open(), Stage.WRITER)
            await old.append(b"kept")
            new = await cluster.new_client().open()
            with pytest.raises(DeposedError):
                await old.append(b"late")
            await in_order(handles)
            await new.close()

    run(main)


def test_what_was_submitted_and_cannot_be_confirmed_is_an_error_of_leaving() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            failing = handles.remember(
                await client.logs.open("failing", LogOptions()), Stage.WRITER
            )
            other = handles.remember(await client.logs.open("other", LogOptions()), Stage.WRITER)
            await other.append(b"kept")
            with silent(cluster):
                answer = await failing.submit(b"unknown")
                with pytest.raises(OutcomeUnknownError):
                    await in_order(handles)
            with pytest.raises(AppendOutcomeUnknownError):
                await answer

    run(main)


def test_an_exception_abandons_the_writers_and_names_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            log = handles.remember(await client.open(), Stage.WRITER)
            writer = handles.remember(
                await client.catalog.create(Replication(3, 3, 2)), Stage.WRITER
            )
            closed = handles.remember(await client.logs.open("closed", LogOptions()), Stage.WRITER)
            await closed.close()
            with caplog.at_level(logging.WARNING, "quire.leaving"):
                await by(handles, KeyError("of the program"))
            (said,) = [each.getMessage() for each in caplog.records]
            assert f"KeyError: abandons log {NAME!r} (epoch 1), ledger {writer.ledger};" in said
            assert len((await client.manifest()).open_segments) == 1, "nothing was closed"
            assert log.has_ended
            assert writer.has_ended

    run(main)


def test_an_exception_without_an_open_writer_is_not_worth_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            handles.remember(
                await client.logs.read(NAME, follow=True, wait_for_log=True), Stage.READER
            )
            await by(handles, KeyError("of the program"))
            assert caplog.records == []

    run(main)


def test_leaving_that_is_cancelled_abandons_at_once() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            log = handles.remember(await client.open(), Stage.WRITER)
            with silent(cluster):
                answer = await log.submit(numbered(0, 1)[0])
                leaving = asyncio.ensure_future(in_order(handles))
                await asyncio.sleep(0)
                leaving.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await leaving
                assert log.has_ended
                with pytest.raises(AppendOutcomeUnknownError):
                    await answer

    run(main)


# The deadline.


class Scripted:
    """A handle whose close does as the test says."""

    def __init__(
        self, title: str, close: Callable[[], Awaitable[None]], untold: str | None = None
    ) -> None:
        self._title = title
        self._untold = untold
        self.has_ended = False
        self._close = close

    def abandon(self) -> None:
        self.has_ended = True

    async def close(self) -> None:
        await self._close()


async def never() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    """Does not end when it is cancelled."""
    while True:
        with suppress(asyncio.CancelledError):
            await never()


@pytest.mark.parametrize("hangs", [never, stubborn])
@pytest.mark.parametrize("error", [None, KeyError("of the program")])
def test_a_handle_that_hangs_does_not_hold_the_program(
    caplog: pytest.LogCaptureFixture,
    hangs: Callable[[], Awaitable[None]],
    error: BaseException | None,
) -> None:
    async def main() -> None:
        handles = OpenHandles(timeout=10.0)
        closed: list[str] = []

        async def close(name: str) -> None:
            closed.append(name)

        for name in ("one", "two"):
            handles.remember(Scripted(name, partial(close, name)), Stage.WRITER)
        stuck = handles.remember(Scripted("stuck", hangs), Stage.WRITER)
        last = handles.remember(Scripted("election", partial(close, "election")), Stage.ELECTION)
        begun = asyncio.get_running_loop().time()
        with caplog.at_level(logging.WARNING, "quire.leaving"):
            if error is None:
                with pytest.raises(LeavingTimeoutError, match="stuck") as raised:
                    await in_order(handles)
                assert raised.value.handles == ("stuck",)
            else:
                await by(handles, error)
            for close_link in (hangs, partial(close, "store")):
                await handles.release("the metadata store", close_link)
        assert asyncio.get_running_loop().time() - begun <= 10.0 + 5 * GRACE_SECONDS
        assert stuck.has_ended
        assert closed == ["one", "two", "election", "store"]
        said = [each.getMessage() for each in caplog.records]
        assert any("abandons" in each and "stuck" in each for each in said)
        assert any("the metadata store did not close" in each for each in said)
        assert last._title == "election"

    run(main)


def test_a_log_whose_store_hangs_is_abandoned_at_the_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles(timeout=5.0)
            log = handles.remember(await client.open(), Stage.WRITER)
            await log.append(b"kept")
            with silent(cluster):
                answer = await log.submit(b"unknown")
                with caplog.at_level(logging.WARNING), pytest.raises(LeavingTimeoutError):
                    await in_order(handles)
            assert log.has_ended
            assert f"deadline of 5 s: abandons log {NAME!r} (epoch 1);" in caplog.text
            with pytest.raises(AppendOutcomeUnknownError):
                await answer
            async with await cluster.new_client().open():
                pass
            assert (await cluster.new_client().payloads())[0] == b"kept"

    run(main)


def test_a_deadline_is_positive() -> None:
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigurationError, match="leave_timeout"):
            OpenHandles(seconds)


# What failed before.


@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("error", [None, KeyError("of the program")])
def test_a_log_that_failed_is_told_once(
    caplog: pytest.LogCaptureFixture, is_told: bool, error: BaseException | None
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            log = handles.remember(await client.open(), Stage.WRITER)
            with silent(cluster):
                await log.submit(b"nothing waits for it")
                await log.wait_deposed()
            if is_told:
                with pytest.raises(OutcomeUnknownError):
                    await log.append(b"later")
            caplog.clear()
            with caplog.at_level(logging.WARNING, "quire.leaving"):
                await (in_order(handles) if error is None else by(handles, error))
            said = [each.getMessage() for each in caplog.records]
            if is_told:
                assert said == []
            else:
                assert len(said) == 1
                assert f"log {NAME!r} (epoch 1) had failed, and no call was told:" in said[0]

    run(main)


@pytest.mark.parametrize("call", ["append", "append_many", "submit", "drain", "roll", "close"])
def test_every_call_tells(call: str) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            log = await cluster.new_client().open()
            with silent(cluster):
                await log.submit(b"nothing waits for it")
                await log.wait_deposed()
            assert log._untold
            given = {"append": (b"x",), "append_many": ([b"x"],), "submit": (b"x",)}.get(call, ())
            with pytest.raises(OutcomeUnknownError):
                await getattr(log, call)(*given)
            assert log._untold is None

    run(main)


def test_handles_that_ended_are_let_go_of() -> None:
    handles = OpenHandles()
    for number in range(1000):
        handle = Scripted(f"{number}", never, untold="it failed" if number == 7 else None)
        handle.has_ended = number != 8
        handles.remember(handle, Stage.WRITER)
    assert sum(map(len, handles._writers.values())) <= 2 * PRUNE_MIN
    assert [each._title for each in handles._open(Stage.WRITER)][:2] == ["7", "8"]


# Elections and services.


def test_a_leader_resigns_after_its_log_is_closed() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            client, handles = cluster.new_client(), OpenHandles()
            election = Election(client.store, "office", "me", rng=random.Random(0))
            other = Election(client.store, "office", "other", rng=random.Random(1))
            handles.remember(election, Stage.ELECTION)
            shapes: list[int] = []

            async def succeed() -> None:
                async with other.lead():
                    shapes.append(len((await client.manifest()).open_segments))

            async with election.lead() as leadership:
                log = handles.remember(await client.open(), Stage.WRITER)
                await log.append(b"kept")
                succeeding = asyncio.create_task(succeed())
                waiting = asyncio.create_task(election.lead().__aenter__())
                await asyncio.sleep(0)
                await in_order(handles)
                await leadership.wait_lost()
                assert leadership.is_lost
            await succeeding
            assert shapes == [0], "the log was closed when the successor was elected"
            with pytest.raises(HandleClosedError, match="election 'office'"):
                await waiting

    run(main)


def test_a_service_hands_over_before_the_connection_ends() -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader, other = await replicas(cluster, 2)
            handles = OpenHandles()
            handles.remember(leader.service, Stage.SERVICE)
            await leader.service.submit(b"x")
            await in_order(handles)
            await other.service.wait_role(Role.LEADER)
            assert leader.service.role is Role.STOPPED
            assert other.state.commands == [b"x"]
            await other.service.close()

    run(main)


def test_an_exception_abandons_a_service_and_names_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            (leader,) = await replicas(cluster, 1)
            handles = OpenHandles()
            handles.remember(leader.service, Stage.SERVICE)
            await leader.service.submit(b"x")
            with caplog.at_level(logging.WARNING, "quire.leaving"):
                await by(handles, KeyError("of the program"))
            (said,) = [each.getMessage() for each in caplog.records]
            assert f"KeyError: abandons service {SERVICE!r};" in said
            assert leader.service.role is Role.STOPPED
            assert len((await leader.client.logs.describe(SERVICE)).open_segments) == 1

    run(main)


@pytest.mark.parametrize("is_told", [False, True])
def test_a_service_that_failed_is_told_once(
    caplog: pytest.LogCaptureFixture, is_told: bool
) -> None:
    async def main() -> None:
        async with LogCluster() as cluster:
            leader, other = await replicas(cluster, 2)
            failing = leader if is_told else other
            handles = OpenHandles()
            handles.remember(failing.service, Stage.SERVICE)
            with pytest.raises(ZeroDivisionError):
                await leader.service.submit(b"defect")
            await eventually(lambda: failing.service.has_ended)
            with caplog.at_level(logging.WARNING, "quire.leaving"):
                await in_order(handles)
            said = [each.getMessage() for each in caplog.records]
            assert len(said) == (0 if is_told else 1)
            assert is_told or f"service {SERVICE!r} had failed" in said[0]

    run(main)
