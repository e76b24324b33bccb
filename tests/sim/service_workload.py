"""A replicated service: replicas that elect a primary, carry out commands, and forget nothing.

Each replica is a process with production's `Service` around a state machine (replicas.py). Whoever
leads is given commands and barriers, and told now and then to hand over. Replicas are killed and
start again with nothing, from a snapshot if there is one; they are paused past their session, cut
off, removed from the queue. When the faults are over somebody must lead, and all must catch up.

From the election's workload: who is elected, who starts again, what an observer sees.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from quire.errors import LeadershipLostError, QuireError
from quire.ledger.quorum import Replication
from quire.log.records.position import Position
from quire.service import Role, Service, ServiceOptions
from tests.sim.clients import ClientMachine, Work, outcome
from tests.sim.election_workload import ElectionWorkload
from tests.sim.history import Outcome, Violation
from tests.sim.log_workload import NAME
from tests.sim.photographer import Photographers, SnapshotWatch, State
from tests.sim.replicas import Register, ServiceHistory
from tests.sim.world import SimWorld

DRIVERS: Final = 2
"""Who submits to one replica at a time, each one thing after the other."""


class ServiceWorkload(ElectionWorkload):
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        super().__init__(world, rng, replication)
        self.history = ServiceHistory(world.loop.fail)
        traits = world.rng("service")
        records = traits.choice([3, 10, 10_000])
        self.service_options = ServiceOptions(self.options, snapshot_records=records)
        self.registers: dict[str, Register] = {}
        """The state machine of each replica's last life."""
        self.is_quiet = False
        self.services: dict[str, Service[int]] = {}
        self.photographers = Photographers(world, NAME, self.options, self._look)
        watch = SnapshotWatch(NAME, world.metadata_watch.current, world.loop.fail)
        world.tree.listeners += [self._note_trim, watch.changed]

    @property
    def acks(self) -> int:
        return sum(each.outcome is Outcome.OK for each in self.history.commands)

    def _note_trim(self, path: str, value: bytes | None, version: int) -> None:
        manifest = self.world.manifest_watch.current.get(NAME)
        if manifest is not None and manifest.trimmed_to > Position(0, 0, 0):
            self.world.faults["snapshot trimmed the log"] = 1

    async def _live(self) -> None:
        world, rng = self.world, self.rng
        await world.start()
        keepers: list[asyncio.Task[None]] = []
        for number in range(rng.choice([2, 3, 3])):
            self.candidates.append(client := world.client(f"replica{number}"))
            keepers.append(asyncio.create_task(self._keep(client, rng.random() * 0.3)))
        observer = world.client("observer")
        watching = observer.run(self._observe)
        if rng.random() < 0.8:
            await self._settle_in()
        world.begin_faults()
        takers = range(self.photographers.count)
        helpers = self._start_helpers(
            **{f"photographer{number}": self.photographers.run for number in takers}
        )
        await asyncio.sleep(rng.choice([1.0, 3.0, 6.0]))
        self.removals = 0.0
        self._end_helpers(helpers)
        await world.heal()
        async with world.all_ends("somebody leads, all have caught up, and everybody ends"):
            await self._catch_up()
            self.over = True
            await asyncio.gather(*keepers)
        await outcome(observer, watching)
        world.faults["snapshot restored"] += self.history.restored
        self.history.check()

    async def _catch_up(self) -> None:
        """Wait for an answer in peace, then until every replica has carried it out."""
        answered = self.history.answered
        while self.history.answered == answered:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        self.is_quiet = True
        target = self.history.answered
        while not all(self._has_done(each, target) for each in self.candidates):  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    def _has_done(self, client: ClientMachine, count: int) -> bool:
        """Whether the present life of a replica has carried out so many commands."""
        register = self.registers.get(client.name)
        if register is None or register.who != repr(client.life):
            return False
        return len(register.done) >= count

    # -- replicas --------------------------------------------------------------------------------

    def _look(self) -> State | None:
        """The state of the replica that is ahead of the others, as its snapshot would have it."""
        alive = [each for each in self.candidates if each.is_running and each.name in self.services]
        found = [(self.services[each.name], self.registers[each.name]) for each in alive]
        service, register = max(found, key=lambda each: each[0].applied, default=(None, None))
        if service is None or register is None or service._log_id is None or not service.applied:
            return None
        return service._log_id, service._next, service.applied, register.snapshot()

    def _candidate(self, rng: random.Random) -> Work[None]:
        async def work(client: ClientMachine) -> None:
            assert client.store is not None
            register = self.registers[client.name] = Register(self.history, repr(client.life))
            service = Service(
                register,
                self._election(client),
                self._directory(client),
                client.catalog,
                client.store,
                self.service_options,
            )
            self.services[client.name] = service
            try:
                async with service:
                    drivers = [
                        asyncio.create_task(self._drive(client, service, register, number, rng))
                        for number in range(DRIVERS)
                    ]
                    await asyncio.gather(*drivers)
            except QuireError as error:
                failure = Violation("R4 a replica goes on", f"{client.life}: {error!r}")
                failure.__cause__ = error
                self.world.loop.fail(failure)

        return work

    async def _drive(
        self,
        client: ClientMachine,
        service: Service[int],
        register: Register,
        driver: int,
        rng: random.Random,
    ) -> None:
        """Give a replica something to do whenever it leads, until the end."""
        number = 0
        while not self.over:
            if service.role is Role.STOPPED:
                await service.wait_role(Role.LEADER)  # raises what ended it
            if service.role is not Role.LEADER or self.is_quiet:
                await asyncio.sleep(0.05)
                continue
            number += 1
            what = rng.random()
            if what < 0.1:
                await self._barrier(client, service, register)
            elif what < 0.13:
                await self._hand_over(client, service, rng)
            else:
                await self._submit(client, service, f"{client.life}.{driver}.{number}")
            await asyncio.sleep(rng.expovariate(40.0))

    async def _submit(self, client: ClientMachine, service: Service[int], text: str) -> None:
        command = self.history.submit(text)
        self.world.in_flight += 1
        try:
            place = await service.submit(text.encode())
        except LeadershipLostError:
            command.outcome = Outcome.FAILED
        except QuireError as error:
            command.outcome = Outcome.UNKNOWN
            self.world.say(client.name, f"does not know about {text}: {error!r}")
        else:
            self.history.answer(command, place)
            self.first_ack.set()
            self.world.say(client.name, f"has carried out {text} at {place}")
        finally:
            self.world.in_flight -= 1

    async def _barrier(
        self, client: ClientMachine, service: Service[int], register: Register
    ) -> None:
        before = self.history.answered
        try:
            await service.barrier()
        except QuireError as error:
            self.world.say(client.name, f"has no barrier: {error!r}")
            return
        seen = len(register.done)
        self.world.note_fault("barrier")
        self.history.check_behind(seen, before, f"what {client.name} reads behind a barrier")

    async def _hand_over(
        self, client: ClientMachine, service: Service[int], rng: random.Random
    ) -> None:
        heir = rng.choice([None, *(each.name for each in self.candidates)])
        try:
            await service.hand_over(heir)
            self.world.note_fault("service handed over")
        except QuireError as error:
            self.world.say(client.name, f"cannot hand over: {error!r}")
