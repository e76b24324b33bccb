"""Safeguards of an election, of a log that is handed over, and of one that adopts ledgers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from quire.election import ballot, election
from quire.election.ballot import Standing, Term, encode_term, judge, next_term
from quire.log.leader import log
from quire.log.leader.producer_state import Restoration
from quire.log.maintenance import ingest
from quire.log.manifest import manifest, recovery
from quire.log.manifest.manifest import EMPTY, SegmentEnd
from quire.log.records.producers import Producers
from tests.sim.ablations.logs import without_recovery
from tests.sim.ablations.patch import Patch


def take_office_over_anybody() -> list[Patch]:
    whole = election.Election._write_term

    async def write_term(self: Any, term: Term, version: int | None) -> bool:
        _, version = await self._read_term()
        return await whole(self, term, version)

    return [(election.Election, "_write_term", write_term)]


def forget_the_own_term() -> list[Patch]:
    async def advance(self: Any, session: Any, mine: str, token: str) -> Term | None:
        last, version = await self._read_term()
        verdict = judge(await self._store.children(self._queue_path), mine, last)
        if verdict.standing is not Standing.LEADS or last is None or last.token != token:
            found: Term | None = await whole(self, session, mine, token)
            return found
        term = next_term(last, self.candidate, mine, token)
        return term if await self._write_term(term, version) else None

    whole = election.Election._advance
    return [(election.Election, "_advance", advance)]


def pass_the_successor_over() -> list[Patch]:
    def heir(places: list[str], term: Term | None) -> str | None:
        if term is not None and term.place in places:
            return term.place
        return places[0] if places else None

    return [(ballot, "heir", heir)]


def follow_before_the_leader_is_gone() -> list[Patch]:
    def heir(places: list[str], term: Term | None) -> str | None:
        for place in (term.successor, term.place) if term else ():
            if place in places:
                return place
        return places[0] if places else None

    return [(ballot, "heir", heir)]


def name_a_successor_over_anybody() -> list[Patch]:
    async def name_heir(self: Any, term: Term, candidate: str | None) -> bool:
        _, version = await self._read_term()
        places = ballot.queue(await self._store.children(self._queue_path))
        others = [place for place in places if place != term.place]
        if not others or version is None:
            return False
        named = Term(term.epoch, term.candidate, term.place, term.token, others[0])
        await self._store.put(self._epoch_path, encode_term(named), version)
        return True

    return [(election.Election, "_name_heir", name_heir)]


def leave_the_log_open() -> list[Patch]:
    async def close(self: Any) -> None:
        await self._pipeline.drained()
        self.abandon()

    return [(log.Log, "close", close)]


def adopt_beside_the_leader() -> list[Patch]:
    return [(ingest, "recover_open_segments", without_recovery)]


def adopt_over_a_newer_leader() -> list[Patch]:
    def shape(manifest: Any) -> tuple[object, ...]:
        return ()

    async def recover(*args: Any) -> dict[int, SegmentEnd]:
        return defaultdict(lambda: EMPTY, await recovery.recover_open_segments(*args))

    return [(ingest, "_shape", shape), (ingest, "recover_open_segments", recover)]


def forget_producers_at_an_adoption() -> list[Patch]:
    whole = Restoration.advance

    async def advance(self: Restoration, manifest: Any) -> Producers:
        sealed = [each for each in manifest.rows if each.end is not None]
        if sealed and sealed[-1].ingested:
            return Producers()
        return await whole(self, manifest)

    return [(Restoration, "advance", advance)]


def take_a_number_for_a_batch() -> list[Patch]:
    return [(manifest.LogManifest, "check_job", lambda self, job: None)]


def take_office_after_the_session() -> list[Patch]:
    whole = election.Election._stand

    async def stand(self: Any, session: Any) -> Term:
        found: Term = await whole(self, _Endless(session))
        return found

    return [(election.Election, "_stand", stand)]


class _Endless:
    """A session that is never over, for its candidate."""

    expired = False

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)
