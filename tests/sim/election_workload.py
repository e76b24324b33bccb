"""One log and an election: candidates who lead it in turn, by quire's own election.

Each candidate waits for its turn, takes the log over, appends, rolls and trims, and leaves in one
of many ways: with a successor and a closed log, with a closed log, without a word, killed, paused
past its session, removed from the queue. Some stop when they hear that their time is over; the
others go on until the log refuses them, for nothing may rest on the election. Beside them an
observer watches who leads, followers read, and a job has ledgers of its own adopted. When the
faults are over everyone who stands must get his turn once more.

From the log's workload: how a leader appends, how followers read, what is checked at the end.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from quire.election.election import Election
from quire.election.leadership import Leadership
from quire.errors import InvalidRequestError, QuireError
from quire.ledger.quorum import Replication
from quire.log.leader.log import Log
from quire.metastore.layout import election_candidates_path
from tests.sim.adopter import Adopter
from tests.sim.clients import ClientMachine, Work, join, outcome
from tests.sim.election_watch import ElectionWatch
from tests.sim.history import Violation
from tests.sim.log_checkers import check_log
from tests.sim.log_workload import NAME, LogWorkload
from tests.sim.world import SimWorld

SESSION_SECONDS: Final = (0.3, 1.0, 2.0)
"""Some sessions are shorter than most pauses."""


class ElectionWorkload(LogWorkload):
    """See the module."""

    def __init__(self, world: SimWorld, rng: random.Random, replication: Replication) -> None:
        super().__init__(world, rng, replication)
        self.watch = ElectionWatch(NAME, world.loop.fail)
        world.tree.listeners.append(self.watch.changed)
        traits = world.rng("election")
        self.session = traits.choice(SESSION_SECONDS)
        self.careful = traits.choice([0.0, 0.5, 1.0])
        """How many leaders stop when they hear that they lead no more."""
        self.removals = traits.choice([0.0, 0.0, 0.2])
        """How many leaders an operator takes out of the queue."""
        pieces = traits.choice([0, 0, 1, 2])
        self.adopter = Adopter(world, NAME, self.options, world.rng("adopter"), pieces)
        self.has_adopter = pieces > 0
        self.candidates: list[ClientMachine] = []
        self.sees_nobody = asyncio.Event()

    async def _live(self) -> None:
        world, rng = self.world, self.rng
        await world.start()
        keepers: list[asyncio.Task[None]] = []
        for number in range(rng.choice([2, 2, 3])):
            self.candidates.append(client := world.client(f"candidate{number}"))
            keepers.append(asyncio.create_task(self._keep(client, rng.random() * 0.3)))
        observer = world.client("observer")
        watching = observer.run(self._observe)
        if rng.random() < 0.8:
            await self._settle_in()
        world.begin_faults()
        self.followers.start(rng)
        adopter, helpers = world.client("adopter"), self._start_helpers()
        adopting = adopter.run(self._adopt) if self.has_adopter else None
        await asyncio.sleep(rng.choice([1.0, 3.0, 6.0]))
        self.over = True
        self._end_helpers(helpers)
        await world.heal()
        last, first_reader = world.client("last"), world.client("reader0")
        async with world.all_ends("all have led, the log is closed, followers are at its end"):
            await asyncio.gather(*keepers)
            if not self.first_ack.is_set():
                adopter.end_life()  # nobody was ever answered: there is no log to adopt into
            if adopting is not None:
                await join(adopter, adopting)
            if observer.is_running and not observer.is_stopping:
                await self.sees_nobody.wait()
            finals = await self._read_all(last, first_reader)
        await outcome(observer, watching)
        world.faults["successor followed"] += self.watch.successions
        check_log(finals, world.log)

    async def _adopt(self, client: ClientMachine) -> None:
        await self.first_ack.wait()
        await self.adopter.run(client, self._directory(client))

    # -- candidates ------------------------------------------------------------------------------

    async def _keep(self, client: ClientMachine, delay: float) -> None:
        """Start a candidate, and again whenever it was killed."""
        rng = self.world.rng(f"{client.name}:keeper")
        await asyncio.sleep(delay)
        is_done = False
        while not (is_done or self.over):
            task = client.run(self._candidate(rng))
            await join(client, task)
            is_done = task.done() and not task.cancelled()
            await asyncio.sleep(rng.expovariate(4.0))

    def _candidate(self, rng: random.Random) -> Work[None]:
        async def work(client: ClientMachine) -> None:
            election = self._election(client)
            while True:
                is_last = self.over
                try:
                    async with election.lead() as leadership:
                        who, is_lost = repr(client.life), leadership.is_lost
                        self.watch.entered(leadership.epoch, who, is_lost=is_lost)
                        await self._govern(client, leadership, rng)
                except InvalidRequestError as error:
                    text = f"{client.name} is told: {error}"
                    raise Violation("no call is found invalid", text) from error
                except QuireError as error:
                    client.trouble = error
                    self.world.say(client.name, f"leads no more: {error!r}")
                    await asyncio.sleep(0.1)
                    continue
                if is_last:
                    return
                await asyncio.sleep(rng.random() * 0.3)

        return work

    def _election(self, client: ClientMachine) -> Election:
        assert client.store is not None
        rng = self.world.rng(f"{client.name}:{client.lives}:election")
        return Election(client.store, NAME, client.name, rng=rng, session_timeout=self.session)

    async def _govern(
        self, client: ClientMachine, leadership: Leadership, rng: random.Random
    ) -> None:
        """One time in office: take the log over, write it, and leave."""
        is_careful = rng.random() < self.careful
        self.world.say(client.name, f"is elected at epoch {leadership.epoch}")
        log = await self._directory(client).open(
            NAME, self.options, is_leader=lambda: not leadership.is_lost
        )
        self.world.say(client.name, f"leads the log at epoch {log.epoch}")
        async with self._closing(client, log) as waiting:
            try:
                await self._sender(client).send_again(log)
                for number in range(rng.choice([3, 10, self.count])):
                    is_lost = is_careful and leadership.is_lost
                    if log.is_deposed or is_lost or (number and self.over):
                        break
                    await self._step(client, log, rng, number, waiting)
            except QuireError as error:
                self.world.say(client.name, f"stops: {error!r}")
            if leadership.is_lost:
                self.world.note_fault("leadership lost")
            await self._leave(client, leadership, log, rng)

    async def _leave(
        self, client: ClientMachine, leadership: Leadership, log: Log, rng: random.Random
    ) -> None:
        """Leave the office: with a successor, or in order, or without a word."""
        how = rng.random()
        if how < 0.2:
            log.abandon()
            return
        try:
            if how < 0.7 and not leadership.is_lost:
                heir = rng.choice([None, *(each.name for each in self.candidates)])
                named = await leadership.hand_over(heir)
                self.world.note_fault("successor named" if named else "no such successor")
            await log.close()
        except QuireError as error:
            self.world.say(client.name, f"cannot hand over: {error!r}")
            log.abandon()
            return
        if not log.is_deposed:
            self.watch.closed(log.epoch, self.world.manifest_watch.current[NAME])
            self.world.note_fault("log handed over")
        self.world.say(client.name, f"led the log at epoch {log.epoch}")

    # -- observers -------------------------------------------------------------------------------

    async def _observe(self, client: ClientMachine) -> None:
        rng, known = self.world.rng("observer"), 0
        async for leader in self._election(client).watch():
            self.world.say(client.name, f"sees {leader}")
            if leader is None:
                self.sees_nobody.set()
                continue
            self.sees_nobody.clear()
            self.watch.observed(leader, known)
            known = leader.epoch
            if rng.random() < self.removals and not self.over:
                await self._remove_leader(client)

    async def _remove_leader(self, client: ClientMachine) -> None:
        """An operator takes whoever leads out of the queue."""
        assert client.store is not None
        if self.watch.term is not None:
            try:
                path = f"{election_candidates_path(NAME)}/{self.watch.term.place}"
                await client.store.delete(path)
                self.world.note_fault("leader removed")
            except QuireError as error:
                self.world.say(client.name, f"cannot remove the leader: {error!r}")
