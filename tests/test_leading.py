"""Leading a log in turn: won, lost in the block, interrupted, refused, cancelled, handed off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

import quire
import quire.sync
from quire.errors import (
    DeposedError,
    HandleClosedError,
    InvalidRequestError,
    LeadershipLostError,
    LogSealedError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from quire.leading import tells_of_loss
from quire.testing import MemoryCluster
from tests.support.virtual import virtually

Scene = Callable[[MemoryCluster, quire.Client], Awaitable[None]]
LOG = "board"


def play(scene: Scene) -> None:
    async def main() -> None:
        async with asyncio.timeout(600):
            with MemoryCluster() as cluster:
                async with quire.connect(cluster.store_uri) as client:
                    await scene(cluster, client)

    virtually(main)


async def payloads(client: quire.Client) -> list[bytes]:
    return [record.payload async for record in client.read_log(LOG)]


def test_a_turn_is_won_and_its_log_is_closed_before_the_next() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        epochs = []
        for number in range(3):
            async with client.lead_log(LOG) as log:
                epochs.append(log.epoch)
                await log.append(b"%d" % number)
                leader = await client.election(LOG).leader()
                assert leader is not None
            assert not (await client._logs.describe(LOG)).open_segments, "it was closed in order"
            assert await client.election(LOG).leader() is None, "it resigned"
        assert epochs == sorted(set(epochs))
        assert await payloads(client) == [b"0", b"1", b"2"]

    play(scene)


def test_two_candidates_take_turns_and_never_lead_together() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        leading: list[str] = []
        turns: list[str] = []

        async def candidate(name: str, peer: quire.Client) -> None:
            for turn in range(3):
                async with peer.lead_log(LOG, candidate=name) as log:
                    leading.append(name)
                    turns.append(name)
                    assert leading == [name]
                    await log.append(f"{name} {turn}".encode())
                    leading.remove(name)

        async with quire.connect(cluster.store_uri) as other, asyncio.TaskGroup() as group:
            group.create_task(candidate("anna", client))
            group.create_task(candidate("bert", other))
        assert turns[:4] in (["anna", "bert"] * 2, ["bert", "anna"] * 2)
        assert sorted(turns) == ["anna"] * 3 + ["bert"] * 3
        assert [each.split()[0].decode() for each in await payloads(client)] == turns

    play(scene)


def test_a_deposed_leader_retries() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        epochs: list[int] = []
        while len(epochs) < 3:
            async with client.lead_log(LOG) as log:
                epochs.append(log.epoch)
                if len(epochs) < 3:
                    await client.open_log(LOG)
                await log.append(b"turn %d" % len(epochs))
        assert epochs == [1, 3, 5]
        assert await payloads(client) == [b"turn 3"]

    play(scene)


def test_a_block_that_waits_is_interrupted_by_the_loss_of_the_election() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async with client.lead_log(LOG, session_timeout=2.0) as log:
            cluster.expire_sessions()
            await asyncio.Event().wait()
        assert log.has_ended
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        async with client.lead_log(LOG) as log:
            assert log.epoch == 2

    play(scene)


def test_a_block_that_waits_is_interrupted_by_a_takeover() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async with client.lead_log(LOG) as log:
            usurper = await client.open_log(LOG)
            await usurper.append(b"another")
            await asyncio.Event().wait()
        assert log.is_deposed

    play(scene)


def test_a_group_of_tasks_that_all_learn_of_the_loss_is_swallowed() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async with client.lead_log(LOG) as log:
            await client.open_log(LOG)
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(log.append(b"%d" % number))
        assert log.is_deposed

    play(scene)


def test_an_error_of_the_block_leaves_it_and_the_log_is_closed() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async def lead() -> None:
            async with client.lead_log(LOG) as log:
                await log.submit(b"kept")
                raise KeyError("of the program")

        with pytest.raises(KeyError):
            await lead()
        assert await payloads(client) == [b"kept"]
        assert not (await client._logs.describe(LOG)).open_segments
        assert await client.election(LOG).leader() is None

    play(scene)


def test_an_error_of_the_block_is_not_hidden_by_a_loss() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async def lead() -> None:
            async with client.lead_log(LOG):
                cluster.expire_sessions()
                try:
                    await asyncio.Event().wait()
                finally:
                    raise KeyError("of the program")

        with pytest.raises(KeyError):
            await lead()

    play(scene)


def test_the_loss_of_another_log_is_not_swallowed() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        other = await client.open_log("other")
        await client.open_log("other")
        with pytest.raises(DeposedError, match="other"):
            async with client.lead_log(LOG):
                await other.append(b"refused")

    play(scene)


def test_a_block_that_closes_its_log_is_not_interrupted() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async with client.lead_log(LOG) as log:
            await log.seal()
            await asyncio.sleep(60)
        with pytest.raises(LogSealedError):
            async with client.lead_log(LOG):
                raise AssertionError("a sealed log has no leader")

    play(scene)


def test_cancelling_the_wait_gives_the_place_up() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async def stand() -> None:
            async with client.lead_log(LOG, candidate="second"):
                raise AssertionError("the first leads")

        async with client.lead_log(LOG, candidate="first"):
            waiting = asyncio.create_task(stand())
            await asyncio.sleep(5)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert await client.election(LOG).leader() is None

    play(scene)


def test_cancelling_the_block_closes_the_log_and_stays_a_cancellation() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        entered = asyncio.Event()

        async def lead() -> None:
            while True:
                async with client.lead_log(LOG) as log:
                    await log.submit(b"kept")
                    entered.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(lead())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not (await client._logs.describe(LOG)).open_segments
        assert await payloads(client) == [b"kept"]

    play(scene)


def test_a_cancellation_that_meets_the_loss_stays_a_cancellation() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        entered, lost = asyncio.Event(), asyncio.Event()

        async def lead() -> None:
            async with client.lead_log(LOG):
                entered.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    lost.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(lead())
        await entered.wait()
        cluster.expire_sessions()
        await lost.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(scene)


def test_a_store_that_is_away_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        turns = 0
        while turns < 2:
            async with client.lead_log(LOG, session_timeout=2.0) as log:
                turns += 1
                if turns == 1:
                    cluster.cut_store()
                    asyncio.get_running_loop().call_later(30, cluster.heal)
                    cluster.expire_sessions()
                    await asyncio.Event().wait()
                await log.append(b"again")
        assert await payloads(client) == [b"again"]

    with caplog.at_level(logging.INFO, "quire.leading"):
        play(scene)
    assert "steps down" in caplog.text


def test_bookies_that_are_away_are_tried_again_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        for number in range(cluster.bookies):
            cluster.kill(number)
        asyncio.get_running_loop().call_later(60, cluster.heal)
        async with client.lead_log(LOG, quire.LogOptions(open_timeout=5.0)) as log:
            await log.append(b"late")

    with caplog.at_level(logging.WARNING, "quire.leading"):
        play(scene)
    assert "cannot be led now" in caplog.text
    assert "writable bookies are needed" in caplog.text


def test_records_that_could_not_be_confirmed_are_an_error_of_the_end() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        async def lead() -> None:
            async with client.lead_log(LOG) as log:
                for number in range(cluster.bookies):
                    cluster.pause(number)
                await log.submit(b"unknown")

        with pytest.raises(OutcomeUnknownError):
            await lead()

    play(scene)


def test_a_closed_client_ends_the_loop() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        client2 = await quire.connect(cluster.store_uri)
        leading = client2.lead_log(LOG, candidate="late")
        async with client.lead_log(LOG):
            standing = asyncio.create_task(leading.__aenter__())
            await asyncio.sleep(5)
            await client2.close()
        with pytest.raises((HandleClosedError, StoreUnavailableError)):
            await standing

    play(scene)


def test_a_turn_is_taken_once() -> None:
    async def scene(cluster: MemoryCluster, client: quire.Client) -> None:
        leading = client.lead_log(LOG)
        async with leading:
            pass
        with pytest.raises(InvalidRequestError, match="lead_log again"):
            async with leading:
                raise AssertionError("it was taken before")

    play(scene)


LOSS = LeadershipLostError("board", "test")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, False),
        (LOSS, True),
        (KeyError(), False),
        (ExceptionGroup("both", [LOSS, DeposedError("board", 1, "test")]), True),
        (ExceptionGroup("mixed", [LOSS, KeyError()]), False),
        (ExceptionGroup("nested", [ExceptionGroup("inner", [LOSS])]), True),
    ],
    ids=repr,
)
def test_which_errors_tell_of_a_loss(error: BaseException | None, told: bool) -> None:
    assert tells_of_loss(error) is told


def test_the_blocking_twin_retries_and_hands_over() -> None:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
        epochs: list[int] = []
        while len(epochs) < 2:
            with client.lead_log(LOG) as log:
                epochs.append(log.epoch)
                if len(epochs) == 1:
                    client.open_log(LOG)
                log.append(b"turn %d" % len(epochs))
        assert epochs == [1, 3]
        assert [record.payload for record in client.read_log(LOG)] == [b"turn 2"]
        assert client.election(LOG).leader() is None


def test_the_blocking_twin_shows_the_loss_by_its_log() -> None:
    with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
        with client.lead_log(LOG) as log:
            cluster.expire_sessions()
            log.wait_deposed()
            assert log.has_ended
        with pytest.raises(KeyError), client.lead_log(LOG):
            raise KeyError("of the program")
