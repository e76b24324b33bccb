"""Elections over every store: who leads, with which epoch, and when it learns of its end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from quire.election import Election, Leader, Leadership
from quire.errors import (
    CorruptRecordError,
    HandleClosedError,
    InvalidRequestError,
    LeadershipLostError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
)
from quire.metastore.layout import election_candidates_path, election_epoch_path
from quire.metastore.memory import MemoryStore
from quire.metastore.store import MetadataStore
from tests.support.async_tests import run_virtually
from tests.support.faulty_store import FaultyStore
from tests.support.store_backends import BACKENDS, Backend

NAME = "dice/élection"
QUEUE = election_candidates_path(NAME)
DEADLINE_SECONDS = 30.0
SESSION_SECONDS = 5.0

Run: TypeAlias = Callable[[Callable[["Hall"], Awaitable[None]]], None]


class Hall:
    """A tree with any number of candidates, each with a store of its own."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.stores: list[FaultyStore] = []

    async def candidate(self, name: str) -> Candidate:
        return Candidate(self, name, await self.store())

    async def store(self) -> FaultyStore:
        self.stores.append(FaultyStore(await self.backend.client()))
        return self.stores[-1]

    async def queue(self) -> list[str]:
        return await self.stores[0].children(QUEUE)

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


class Candidate:
    """A candidate that campaigns in a task of its own."""

    def __init__(self, hall: Hall, name: str, store: FaultyStore) -> None:
        self.hall = hall
        self.store = store
        self.election = make_election(store, name)
        self._office: asyncio.Future[Leadership] = asyncio.get_running_loop().create_future()
        self._resigned = asyncio.Event()
        self.task = asyncio.create_task(self._campaign())

    async def _campaign(self) -> None:
        async with self.election.lead() as leadership:
            self._office.set_result(leadership)
            await self._resigned.wait()

    async def queued(self, length: int) -> Candidate:
        """Return once the queue has grown to a length."""
        while len(names := await self.store.children(QUEUE)) < length:
            await self.store.wait_children(QUEUE, names)
        return self

    async def elected(self) -> Leadership:
        return await asyncio.shield(self._office)

    @property
    def leads(self) -> bool:
        return self._office.done()

    async def resign(self) -> None:
        self._resigned.set()
        await self.task

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def lose_session(self) -> None:
        await self.hall.backend.expire(self.store.sessions[-1].inner)


def make_election(store: MetadataStore, name: str) -> Election:
    return Election(store, NAME, name, rng=random.Random(name), session_timeout=SESSION_SECONDS)


@pytest.fixture(params=sorted(BACKENDS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Over each store; in memory on virtual time."""

    def over(scenario: Callable[[Hall], Awaitable[None]]) -> None:
        backend = BACKENDS[request.param](tmp_path)
        if request.param == "memory":
            run_virtually(lambda: in_hall(backend, scenario))
        else:
            asyncio.run(in_hall(backend, scenario))

    return over


async def in_hall(backend: Backend, scenario: Callable[[Hall], Awaitable[None]]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        hall = Hall(backend)
        try:
            await scenario(hall)
        finally:
            await hall.close()


@asynccontextmanager
async def line_of(hall: Hall, *names: str) -> AsyncIterator[list[Candidate]]:
    """Candidates that queued one after the other."""
    candidates: list[Candidate] = []
    try:
        for name in names:
            candidate = await hall.candidate(name)
            candidates.append(candidate)
            await candidate.queued(len(candidates))
        yield candidates
    finally:
        for candidate in candidates:
            await candidate.cancel()


def test_the_first_to_come_leads_and_the_next_follow_in_order(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert", "cleo") as line:
            epochs = []
            for n, candidate in enumerate(line):
                leadership = await candidate.elected()
                assert leadership.candidate == ("anna", "bert", "cleo")[n]
                leadership.check()
                assert [each.leads for each in line] == [each <= n for each in range(3)]
                epochs.append(leadership.epoch)
                await candidate.resign()
                assert leadership.is_lost
                await leadership.wait_lost()
            assert epochs == [1, 2, 3]
            assert await hall.queue() == []

    run(scenario)


def test_candidates_are_listed_in_their_order_while_they_stand(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        observer = make_election(await hall.store(), "observer")
        assert await observer.candidates() == []
        async with line_of(hall, "anna", "bert", "anna") as (first, second, _):
            await first.elected()
            assert await observer.candidates() == ["anna", "bert", "anna"]
            await second.cancel()
            await first.resign()
            assert await observer.candidates() == ["anna"]

    run(scenario)


def test_a_leader_that_dies_is_followed_with_a_higher_epoch(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert", "cleo") as (anna, bert, cleo):
            first = await anna.elected()
            await anna.lose_session()
            second = await bert.elected()
            assert second.epoch > first.epoch
            await first.wait_lost()
            assert first.is_lost
            assert not cleo.leads
            with pytest.raises(LeadershipLostError, match="epoch 1"):
                first.check()

    run(scenario)


def test_a_candidate_that_loses_its_session_while_waiting_queues_again(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert", "cleo") as (anna, bert, cleo):
            await anna.elected()
            before = await hall.queue()
            await bert.lose_session()
            while len(await hall.queue()) < 3 or await hall.queue() == before:
                await hall.stores[0].wait_children(QUEUE, await hall.queue())
            await anna.resign()
            await cleo.elected()
            assert not bert.leads
            await cleo.resign()
            await bert.elected()

    run(scenario)


def test_cancelling_the_wait_gives_the_place_up(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert", "cleo") as (anna, bert, cleo):
            await anna.elected()
            await bert.cancel()
            assert bert.task.cancelled()
            assert len(await hall.queue()) == 2
            await anna.resign()
            await cleo.elected()

    run(scenario)


def test_an_operator_can_depose_a_leader_by_removing_its_record(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert") as (anna, bert):
            first = await anna.elected()
            await hall.stores[1].delete(f"{QUEUE}/{(await hall.queue())[0]}")
            await first.wait_lost()
            assert (await bert.elected()).epoch > first.epoch

    run(scenario)


def test_observers_see_who_leads_and_every_change(run: Run) -> None:
    async def scenario(hall: Hall) -> None:
        observer = make_election(await hall.store(), "observer")
        assert await observer.leader() is None
        seen: asyncio.Queue[Leader | None] = asyncio.Queue()

        async def follow() -> None:
            async for leader in observer.watch():
                seen.put_nowait(leader)

        async def until(expected: Leader | None) -> None:
            while await seen.get() != expected:
                pass

        following = asyncio.create_task(follow())
        await until(None)
        async with line_of(hall, "anna", "bert") as (anna, bert):
            await until(Leader("anna", 1))
            assert await observer.leader() == Leader("anna", 1)
            await anna.resign()
            await until(Leader("bert", 2))
            await bert.resign()
            await until(None)
            assert await observer.leader() is None
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert following.cancelled()

    run(scenario)


def test_epochs_of_leaders_that_come_and_go_at_random_never_repeat(run: Run) -> None:
    terms = 10

    async def scenario(hall: Hall) -> None:
        rng = random.Random(7)
        epochs: list[int] = []

        async def serve(election: Election, store: FaultyStore) -> None:
            while len(epochs) < terms:
                async with election.lead() as leadership:
                    epochs.append(leadership.epoch)
                    if rng.random() < 0.5:
                        await hall.backend.expire(store.sessions[-1].inner)
                        await leadership.wait_lost()

        stores = [await hall.store() for _ in range(3)]
        elections = [make_election(store, f"n{n}") for n, store in enumerate(stores)]
        await asyncio.gather(*map(serve, elections, stores))
        assert len(epochs) >= terms
        assert epochs == sorted(set(epochs))

    run(scenario)


def lose_answers(store: FaultyStore, method: str, times: int) -> None:
    left = times

    async def after(called: str, path: str) -> None:
        nonlocal left
        if called == method and left:
            left -= 1
            raise StoreOutcomeUnknownError(path, "the answer was lost")

    store.after = after


def refuse(store: FaultyStore, method: str, times: int) -> None:
    left = times

    async def before(called: str, path: str) -> None:
        nonlocal left
        if called == method and left:
            left -= 1
            raise StoreUnavailableError(store.uri, "no connection")

    store.before = before


@pytest.mark.parametrize("method", ["session.create_sequential", "create", "put"])
@pytest.mark.parametrize("fault", [lose_answers, refuse])
def test_a_bad_line_leaves_no_ghost_and_no_gap(
    run: Run, fault: Callable[[FaultyStore, str, int], None], method: str
) -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna") as (anna,):
            await anna.elected()
            await anna.resign()
        if method == "create":
            await hall.stores[0].delete(election_epoch_path(NAME))
        store = await hall.store()
        fault(store, method, 2)
        async with make_election(store, "bert").lead() as leadership:
            assert leadership.epoch == (1 if method == "create" else 2)
            assert len(await hall.queue()) == 1
            assert await make_election(store, "-").leader() == Leader("bert", leadership.epoch)
        assert await hall.queue() == []

    run(scenario)


def test_a_store_out_of_reach_is_waited_out_by_everybody() -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert") as (anna, bert):
            await anna.elected()
            observer = await hall.store()
            for store in (bert.store, observer):
                refuse(store, "children", 2)
            watching = make_election(observer, "observer").watch()
            assert await anext(watching) == Leader("anna", 1)
            await watching.aclose()
            await anna.resign()
            await bert.elected()

    run_virtually(lambda: in_hall(BACKENDS["memory"](Path()), scenario))


@pytest.mark.parametrize("method", ["get", "children", "create"])
def test_a_leader_elected_in_the_meantime_is_not_overtaken(method: str) -> None:
    """A candidate is stopped at some step of taking office, loses its place, and goes on."""

    async def scenario(hall: Hall) -> None:
        slow, arrived, go_on = await hall.store(), asyncio.Event(), asyncio.Event()

        async def stop_once(called: str, path: str) -> None:
            if called == method and not arrived.is_set():
                arrived.set()
                await go_on.wait()

        slow.before = stop_once
        anna = Candidate(hall, "anna", slow)
        await arrived.wait()
        bert = await (await hall.candidate("bert")).queued(2)
        await anna.lose_session()
        second = await bert.elected()
        go_on.set()
        while len(await hall.queue()) < 2:
            await hall.stores[1].wait_children(QUEUE, await hall.queue())
        assert not anna.leads
        second.check()
        assert await bert.election.leader() == Leader("bert", 1)
        await bert.resign()
        assert (await anna.elected()).epoch == 2
        await anna.resign()

    run_virtually(lambda: in_hall(BACKENDS["memory"](Path()), scenario))


def test_a_closed_store_ends_candidacies_and_leaderships() -> None:
    async def scenario(hall: Hall) -> None:
        async with line_of(hall, "anna", "bert") as (anna, bert):
            leadership = await anna.elected()
            await bert.store.close()
            with pytest.raises(HandleClosedError):
                await bert.task
            await anna.store.close()
            await leadership.wait_lost()

    run_virtually(lambda: in_hall(BACKENDS["memory"](Path()), scenario))


def test_a_damaged_epoch_record_is_reported_and_leaves_no_candidate() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.create(election_epoch_path(NAME), b"damaged")
        with pytest.raises(CorruptRecordError, match="epoch"):
            async with make_election(store, "anna").lead():
                raise AssertionError("elected")
        assert await store.children(QUEUE) == []
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(("name", "candidate"), [("", "anna"), ("dice", "")])
def test_unusable_names_are_refused_at_once(name: str, candidate: str) -> None:
    with pytest.raises(InvalidRequestError):
        Election(MemoryStore(), name, candidate, rng=random.Random(1))


@pytest.mark.parametrize("timeout", [0.0, -1.0, 1e-9, 0.09, float("nan"), float("inf"), 2.2e6])
def test_a_session_that_cannot_last_or_end_is_refused_at_once(timeout: float) -> None:
    with pytest.raises(InvalidRequestError, match="session"):
        Election(MemoryStore(), NAME, "anna", rng=random.Random(1), session_timeout=timeout)
