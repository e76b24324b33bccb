"""Rounds of failures: one client writes, a bookie is killed or stopped, another client takes over.

A round ends with both clients reading the ledger. It is true when both read the same entries, in
order, and every acknowledged one is among them. Nothing else decides: no round fails because a
machine is slow (parties.py). Only a round that has not ended after `ROUND_SECONDS` is a failure: a
client hangs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

import quire
from quire.client import Client
from quire.ledger.info import LedgerInfo
from quire.ledger.options import LedgerOptions
from tests.interop.parties import (
    JavaParty,
    Party,
    QuireParty,
    UnansweredError,
    WriterEndedError,
    Writing,
    insist,
)
from tests.interop.plan import PROTOCOLS, QUIRE, Plan
from tests.interop.runs import all_writable, digest_of, payloads
from tests.interop.servers import ApacheServers, JavaClient

ROUND_SECONDS: Final = 600.0
REQUEST_SECONDS: Final = 2
"""The limit of requests of the clients that write and take over: stopped bookies are replaced when
it has passed."""

HASTY: Final = LedgerOptions(request_timeout=REQUEST_SECONDS, quarantine=1.0)
"""A bookie that was mended is a spare again soon: there is one spare only."""

PATIENT_SECONDS: Final = 120
"""The limit of requests of the clients that judge, and of those that end a recovery that failed
within the other limit."""

PATIENT: Final = LedgerOptions(request_timeout=PATIENT_SECONDS, append_timeout=PATIENT_SECONDS)

AFTER: Final = 3
"""Bursts after the failure, before the round goes on."""

FAST_BURSTS: Final = 300
FAST_SECONDS: Final = 0.01
SLOW_SECONDS: Final = 0.5
"""Pauses after the first bursts and after later ones: a ledger of a slow round stays short."""

POLL_SECONDS: Final = 0.1


@dataclass
class Told:
    """What a round saw, for its report."""

    plan: Plan
    storage: str
    bookie: str = ""
    acknowledged: int = 0
    found: int = 0
    ensembles: int = 0
    ended: str = ""
    """The error by which the writer ended, if it did."""
    repeated: list[str] = field(default_factory=list)
    """Errors of calls that were repeated: bookies did not answer."""
    seconds: float = 0.0
    failed: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self.plan), **asdict(self), "plan": str(self.plan)}

    def __str__(self) -> str:
        number = f"{self.plan.number} ({self.storage})"
        if self.failed:
            return f"FAILED {self.seconds:5.1f} s  round {number}: {self.failed} ({self.plan})"
        return (
            f"ok {self.seconds:5.1f} s  round {number}: {self.plan}; {self.bookie}, "
            f"{self.ensembles} ensembles, {self.acknowledged} acknowledged, both read {self.found}"
            + (f"; the writer ended: {self.ended}" if self.ended else "")
            + (f"; repeated {len(self.repeated)}" if self.repeated else "")
        )


class Crew:
    """The clients of a cluster's rounds: quire's, and a process of Java's for each protocol."""

    def __init__(self, servers: ApacheServers, client: Client, patient: Client) -> None:
        self.servers = servers
        self.patient = patient
        self._quire = QuireParty(client, patient)
        self._java: dict[str, JavaParty] = {}

    async def start(self) -> None:
        for protocol in PROTOCOLS:
            made = await asyncio.to_thread(
                partial(
                    JavaClient, self.servers, protocol, REQUEST_SECONDS, more=(PATIENT_SECONDS,)
                )
            )
            self._java[protocol] = JavaParty(made)

    def writer(self, plan: Plan) -> Party:
        return self._quire if plan.writer == QUIRE else self._java[plan.protocol]

    def taker(self, plan: Plan) -> Party:
        return self._quire if plan.taker == QUIRE else self._other(plan)

    def judges(self, plan: Plan) -> tuple[Party, Party]:
        return self._quire, self._other(plan)

    def _other(self, plan: Plan) -> JavaParty:
        (other,) = {*PROTOCOLS} - {plan.protocol}
        return self._java[other]

    async def end(self) -> None:
        """End the clients of Java, whatever they are doing."""
        for party in self._java.values():
            await asyncio.to_thread(party.java.kill)


class Round:
    """One round, while it is played."""

    def __init__(self, crew: Crew, plan: Plan, storage: str) -> None:
        self._crew = crew
        self._plan = plan
        self._servers = crew.servers
        self.told = Told(plan, storage)
        self._bursts = 0
        self._moved = asyncio.Condition()
        self._leaving = False
        self._is_struck = False

    async def play(self) -> None:
        """Raises `AssertionError` when the clients differ or an acknowledged entry is missing, and
        the errors of clients that are more than silence.
        """
        await all_writable(self._servers, self._crew.patient)
        plan, writer = self._plan, self._crew.writer(self._plan)
        writing = await self._insist(partial(writer.create, plan.digest))
        info = await self._crew.patient.ledger_info(writing.ledger)
        self.told.bookie = info.fragments[-1].bookies[plan.position]
        filling = asyncio.create_task(self._fill(writing))
        try:
            await self._until(plan.burst, filling)
            await self._strike()
            await self._until(self._bursts + AFTER, filling)
            if plan.waits_for_change:
                await self._until_replaced(writing, filling)
            if not plan.failure.fences:
                self._leaving = True
                await filling
            await self._take_over(writing)
            await filling
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)
            await self._mend()
        await self._judge(writing)

    async def _insist(self, call: Callable[[], Awaitable[Any]]) -> Any:
        answer, errors = await insist(call)
        self.told.repeated += errors
        return answer

    # The writer.

    async def _fill(self, writing: Writing) -> None:
        """Write until the writer shall leave, or has ended."""
        try:
            while not self._leaving:
                await writing.burst()
                async with self._moved:
                    self._bursts += 1
                    self._moved.notify_all()
                await asyncio.sleep(FAST_SECONDS if self._bursts < FAST_BURSTS else SLOW_SECONDS)
            await writing.leave()
        except WriterEndedError as error:
            self.told.ended = str(error)
        finally:
            self.told.acknowledged = writing.acknowledged

    async def _until(self, bursts: int, filling: asyncio.Task[None]) -> None:
        """Return when so many bursts are acknowledged, or the writer has ended."""

        async def reached() -> None:
            async with self._moved:
                await self._moved.wait_for(lambda: self._bursts >= bursts)

        reaching = asyncio.create_task(reached())
        try:
            await asyncio.wait((reaching, filling), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reaching.cancel()
            await asyncio.gather(reaching, return_exceptions=True)

    async def _until_replaced(self, writing: Writing, filling: asyncio.Task[None]) -> None:
        while not filling.done():
            info = await self._crew.patient.ledger_info(writing.ledger)
            if self.told.bookie not in info.fragments[-1].bookies:
                return
            await asyncio.sleep(POLL_SECONDS)

    # The failure.

    async def _strike(self) -> None:
        if self._plan.failure.kills:
            await asyncio.to_thread(self._servers.kill, self.told.bookie)
        elif self._plan.failure.stops:
            self._servers.stop(self.told.bookie)
        self._is_struck = True

    async def _mend(self) -> None:
        if not self._is_struck:
            return
        if self._plan.failure.kills:
            await asyncio.to_thread(self._servers.ensure, self.told.bookie)
        elif self._plan.failure.stops:
            self._servers.go_on(self.told.bookie)
        self._is_struck = False

    # The taker.

    async def _take_over(self, writing: Writing) -> None:
        """Recover the ledger once while the bookie is away; then, if that failed, with it."""
        taker, plan = self._crew.taker(self._plan), self._plan
        try:
            await taker.recover(writing.ledger, plan.digest, patiently=False)
        except UnansweredError as error:
            self.told.repeated.append(str(error))
            await self._mend()
            patiently = partial(taker.recover, writing.ledger, plan.digest, patiently=True)
            await self._insist(patiently)

    async def _judge(self, writing: Writing) -> None:
        plan, ledger = self._plan, writing.ledger
        info: LedgerInfo = await self._crew.patient.ledger_info(ledger)
        assert info.is_closed, f"ledger {ledger} is {info.state} after its recovery"
        self.told.ensembles = len(info.fragments)
        answers: list[str] = [
            await self._insist(partial(judge.read, ledger, plan.digest))
            for judge in self._crew.judges(plan)
        ]
        assert answers[0] == answers[1], f"ledger {ledger}: quire and Java read {answers}"
        self.told.found = int(answers[0].split()[0])
        wanted = payloads(plan.writer, self.told.found)
        assert answers[0].split()[1] == digest_of(wanted), f"ledger {ledger} has other entries"
        assert self.told.found >= self.told.acknowledged, (
            f"ledger {ledger} lost entries: {self.told.acknowledged} were acknowledged, and "
            f"{self.told.found} are there"
        )
        assert info.last_entry == self.told.found - 1


async def play(servers: ApacheServers, storage: str, plans: Sequence[Plan]) -> list[Told]:
    """Play rounds on one cluster, and report each when it has ended."""
    told: list[Told] = []
    async with (
        quire.connect(servers.writable_uri, options=HASTY, timeout=30) as client,
        quire.connect(servers.writable_uri, options=PATIENT, timeout=30) as patient,
    ):
        crew = Crew(servers, client, patient)
        await crew.start()
        try:
            for plan in plans:
                told.append(await played(crew, plan, storage))
                print(told[-1], flush=True)
        finally:
            await crew.end()
    return told


async def played(crew: Crew, plan: Plan, storage: str) -> Told:
    """Play a round and return what it saw. After one that failed, new clients of Java go on."""
    began = time.monotonic()
    playing = Round(crew, plan, storage)
    try:
        async with asyncio.timeout(ROUND_SECONDS):
            await playing.play()
    except Exception as error:
        playing.told.failed = f"{type(error).__name__}: {error}"
        await crew.end()
        await crew.start()
    playing.told.seconds = time.monotonic() - began
    return playing.told


def summary(told: Sequence[Told]) -> str:
    """Return one line for each kind of bookie."""
    lines: list[str] = []
    for storage in dict.fromkeys(each.storage for each in told):
        rounds = [each for each in told if each.storage == storage]
        seconds = sorted(each.seconds for each in rounds)
        true = sum(not each.failed for each in rounds)
        lines.append(
            f"{storage}: {true} of {len(rounds)} rounds true, "
            f"{sum(each.acknowledged for each in rounds)} entries acknowledged, "
            f"{sum(each.found for each in rounds)} read by both, "
            f"{sum(len(each.repeated) for each in rounds)} calls repeated, "
            f"{seconds[len(seconds) // 2]:.1f} s a round (at most {seconds[-1]:.1f})"
        )
    return "\n".join(lines)
