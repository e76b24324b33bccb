"""Worlds for applications: processes that die, lines that are cut, time and chance of their own."""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid

import pytest
from click.testing import CliRunner

import quire
from quire.errors import QuireError, StoreOutcomeUnknownError, StoreUnavailableError
from quire.testing.sim import SimMachine, SimViolation, Trouble, Weather, World, explore, run
from quire.testing.sim.campaign import main
from quire.testing.sim.inside import CLOCK_START
from quire.testing.sim.lines import STORE
from quire.testing.sim.sealed import SimDeadlock, SimEscape, SimUnhandled
from quire.testing.sim.world import RESTART_SECONDS

CALM = Weather(latency=0.001)


async def forever(machine: SimMachine) -> None:
    await asyncio.Event().wait()


def sound(scenario: object, weather: Weather = CALM, seed: int = 0) -> World:
    """Run a scenario that must pass; return its world."""
    worlds: list[World] = []

    async def watched(world: World) -> None:
        worlds.append(world)
        await scenario(world)  # type: ignore[operator]

    found = run(watched, seed, weather=weather)
    assert not found.failed, found.story()
    return worlds[0]


def test_a_killed_process_runs_no_cleanup_and_keeps_its_disk() -> None:
    ends: list[str] = []

    async def program(machine: SimMachine) -> None:
        machine.disk["lives"] = machine.disk.get("lives", 0) + 1
        try:
            await asyncio.sleep(1000)
        finally:
            ends.append(machine.name)

    async def scenario(world: World) -> None:
        one, other = world.start("one", program), world.start("other", program)
        await asyncio.sleep(1)
        one.crash()
        other.kill()
        assert not one.is_running
        await asyncio.sleep(20 * RESTART_SECONDS)
        assert (one.is_running, other.is_running) == (True, False)
        assert (one.disk["lives"], other.disk["lives"]) == (2, 1)
        assert not ends

    sound(scenario)


def test_a_program_that_raises_fails_the_run_unless_it_is_restarted_for_it() -> None:
    async def program(machine: SimMachine) -> None:
        if machine.lives == 1:
            raise KeyError("gone")

    async def scenario(world: World) -> None:
        machine = world.start("one", program, restart_on=(LookupError,))
        await world.until(lambda: machine.is_done, "it ends")
        assert machine.lives == 2

    sound(scenario)

    async def unguarded(world: World) -> None:
        world.start("one", program)
        await asyncio.sleep(1)

    found = run(unguarded)
    assert isinstance(found.error, SimViolation)
    assert isinstance(found.error.__cause__, KeyError)


def test_a_call_is_answered_refused_or_of_unknown_outcome() -> None:
    done: list[str] = []

    async def server(machine: SimMachine) -> None:
        async def answer(request: str) -> str:
            if request == "no":
                raise ValueError(request)
            done.append(request)
            if request == "slow":
                await asyncio.sleep(60)
            return request.upper()

        machine.serve(answer)
        await forever(machine)

    async def client(machine: SimMachine) -> None:
        assert await machine.call("server", "a") == "A"
        with pytest.raises(ValueError, match="no"):
            await machine.call("server", "no")
        with pytest.raises(TimeoutError):
            await machine.call("server", "slow")
        assert done == ["a", "slow"]
        machine.world.lines.cut("client", "server")
        with pytest.raises(ConnectionRefusedError):
            await machine.call("server", "b")
        machine.world.lines.mend_all()
        machine.world.machine("server").kill()
        with pytest.raises(ConnectionRefusedError):
            await machine.call("server", "c")
        assert done == ["a", "slow"]

    async def scenario(world: World) -> None:
        world.start("server", server)
        machine = world.start("client", client)
        await world.until(lambda: machine.is_done, "the client is done")

    sound(scenario)


def test_a_caller_of_a_process_that_dies_hears_nothing() -> None:
    async def server(machine: SimMachine) -> None:
        async def answer(request: str) -> str:
            machine.world.later(0.0, machine.kill)
            await asyncio.sleep(1)
            return request

        machine.serve(answer)
        await forever(machine)

    async def client(machine: SimMachine) -> None:
        with pytest.raises(TimeoutError):
            await machine.call("server", "a")

    async def scenario(world: World) -> None:
        world.start("server", server)
        machine = world.start("client", client)
        await world.until(lambda: machine.is_done, "the client is done")

    sound(scenario)


def test_a_paused_or_cut_off_leader_loses_its_session() -> None:
    async def leader(machine: SimMachine) -> None:
        async with quire.connect(machine.world.store_uri) as client:
            while True:
                try:
                    async with client.lead_log("log", candidate=machine.name) as log:
                        machine.disk["led"] = machine.disk.get("led", 0) + 1
                        while True:
                            await log.append(machine.name.encode())
                            await asyncio.sleep(0.2)
                except QuireError:
                    await asyncio.sleep(0.1)

    async def scenario(world: World) -> None:
        one, two = world.start("one", leader), world.start("two", leader)
        await world.until(lambda: one.disk or two.disk, "one of them leads")
        first, second = (one, two) if one.disk else (two, one)
        first.pause()
        await world.until(lambda: second.disk, "the other one leads")
        first.resume()
        world.lines.cut(second.name, STORE)
        await world.until(lambda: first.disk["led"] == 2, "the first one leads again")

    sound(scenario)


def test_answers_of_the_store_get_lost() -> None:
    async def scenario(world: World) -> None:
        store = world.cluster._switched.open()
        assert (await store.create("/a", b"1")) > 0

        async def program(machine: SimMachine) -> None:
            mine = world.cluster._switched.open()
            world.lines.cut("one", STORE)
            with pytest.raises(StoreUnavailableError):
                await mine.create("/b", b"2")
            world.lines.mend_all()
            world.later(0.0012, lambda: world.lines.cut("one", STORE))
            with pytest.raises(StoreOutcomeUnknownError):
                await mine.create("/c", b"3")

        machine = world.start("one", program)
        await world.until(lambda: machine.is_done, "it is done")
        assert await store.children("/") == ["a", "c", "quire"]

    sound(scenario, Weather(latency=0.001))


def test_time_and_chance_are_the_worlds_while_it_lasts() -> None:
    seen: list[object] = []

    async def scenario(world: World) -> None:
        await asyncio.sleep(5)
        assert time.time() == world.wall_clock() == CLOCK_START + 5
        assert time.monotonic() == 5
        seen.append((random.random(), random.Random().random(), uuid.uuid4(), os.urandom(4)))

    before = random.getstate()
    sound(scenario)
    assert random.getstate() == before
    assert abs(time.time() - CLOCK_START) > 1000
    sound(scenario)
    sound(scenario, seed=1)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize(
    ("what", "error"),
    [
        (lambda: asyncio.to_thread(print), SimEscape),
        (lambda: asyncio.open_connection("127.0.0.1", 1), SimEscape),
        (lambda: asyncio.Event().wait(), SimDeadlock),
    ],
)
def test_what_leaves_the_world_or_never_ends_fails(what: object, error: type[Exception]) -> None:
    async def scenario(world: World) -> None:
        await what()  # type: ignore[operator]

    assert isinstance(run(scenario, weather=Weather(latency=0)).error, error)


def test_a_task_that_fails_unseen_fails_the_run() -> None:
    async def scenario(world: World) -> None:
        async def wrong() -> None:
            raise KeyError("unseen")

        task = asyncio.create_task(wrong())
        await asyncio.wait([task])

    assert isinstance(run(scenario).error, SimUnhandled)


def test_every_kind_of_fault_comes_and_heal_ends_them() -> None:
    async def program(machine: SimMachine) -> None:
        while True:
            try:
                async with quire.connect(machine.world.store_uri) as client:
                    async for _ in client.election("e", machine.name).watch():
                        pass
            except QuireError:
                await asyncio.sleep(0.1)

    async def scenario(world: World) -> None:
        machines = [world.start(f"m{number}", program) for number in range(3)]
        await asyncio.sleep(1)
        world.begin_faults()
        await asyncio.sleep(30)
        await world.heal()
        assert all(each.is_running and not each.is_paused for each in machines)
        assert not world.lines._cut
        kinds = set(world.faults)
        await asyncio.sleep(60)  # what was to end later ends harmlessly
        assert set(world.faults) == kinds

    rates = dict.fromkeys(Trouble, 1.0)
    world = sound(scenario, Weather(rates, latency=0.001, stalls=10))
    assert set(world.faults) == set(Trouble)


def test_weather_is_drawn_and_half_of_the_kinds_are_on() -> None:
    drawn = [Weather.draw(random.Random(seed)) for seed in range(200)]
    assert any(not each.rates for each in drawn)
    for kind in Trouble:
        share = sum(kind in each.rates for each in drawn) / len(drawn)
        assert 0.25 < share < 0.65, kind
    assert Weather().next_trouble(random.Random(1)) is None


async def failing(world: World) -> None:
    """A scenario that one of four worlds fails."""
    await asyncio.sleep(0.1)
    world.require(world.random.random() > 0.25, "a quarter of all worlds")


async def passing(world: World) -> None:
    await asyncio.sleep(0.1)


@pytest.mark.slow
def test_exploring_ends_with_the_first_failure() -> None:
    found = explore(failing)
    assert found is not None
    assert found.failed
    assert "a quarter of all worlds" in found.story()
    assert explore(failing, range(found.seed)) is None
    assert explore(passing, range(5)) is None


@pytest.mark.slow
def test_the_command_tells_what_fails_and_how_to_repeat_it() -> None:
    target = f"{__name__}:failing"
    done = CliRunner().invoke(main, [target, "--seeds", "40", "--jobs", "1"])
    assert done.exit_code == 1
    assert "failed: SimViolation('a quarter of all worlds')" in done.output
    again = done.output.split("--seed ")[1].split()[0]
    assert CliRunner().invoke(main, [target, "--seed", again]).exit_code == 1
    done = CliRunner().invoke(
        main, [f"{__name__}:passing", "--seeds", "3", "--jobs", "1", "--json"]
    )
    assert done.exit_code == 0
    assert '"seeds": 3' in done.output


@pytest.mark.parametrize("target", ["nothing:at_all", f"{__name__}:nothing", f"{__name__}:CALM"])
def test_the_command_refuses_what_is_no_scenario(target: str) -> None:
    done = CliRunner().invoke(main, [target])
    assert done.exit_code == 2
    assert target in done.output
