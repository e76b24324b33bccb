"""Leader election: a fair queue of candidates, and an epoch that grows with every leader.

A candidacy *is* a session of the metadata store: its place in the queue is an ephemeral record.
The end of a candidacy (resigning, cancelling, a lost answer that leaves it in doubt) closes the
session, and the store then removes every record that the session may have left. Stale records
cannot remain.

Invariant: epochs grow in the order of leadership. A candidate reads the epoch record *before* it
looks at the queue; if it is the next leader, it then replaces that very version. A leader that was
elected in the meantime has replaced it already.

Election is for liveness. A leader may believe in its office for a while after it lost it; its
writes must be refused elsewhere, by the epoch or by a fenced log.

While the store is out of reach candidates and observers try again; they do not fail.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from quire.aio.backoff import Backoff
from quire.aio.home import Home, at_home
from quire.aio.tasks import first_of, stop
from quire.election.ballot import (
    Place,
    Standing,
    Term,
    decode_candidate,
    decode_term,
    encode_candidate,
    encode_term,
    in_office,
    judge,
    next_term,
    queue,
)
from quire.election.leadership import Leadership
from quire.errors import (
    ConflictError,
    HandleClosedError,
    InvalidRequestError,
    LeadershipLostError,
    NoSuchNodeError,
    OutcomeUnknownError,
    QuireError,
    RetryError,
    SessionExpiredError,
)
from quire.metastore.changes import Check
from quire.metastore.cluster import adopted_incarnation
from quire.metastore.layout import (
    election_candidate_prefix,
    election_candidates_path,
    election_epoch_path,
    name_of,
)
from quire.metastore.store import MetadataStore, Session
from quire.metrics.meter import SILENT_METER, ClientMeter, ElectionFigures

SESSION_SECONDS_MIN: Final = 0.1
SESSION_SECONDS_MAX: Final = 2_000_000.0
"""Shorter sessions end between two heartbeats, and their candidate would stand in vain."""

BACKOFF: Final = Backoff(first=0.375, last=0.375, spread=2 / 3)
"""The pause, 0.25 s on average, before a store that failed is asked again: its calls have waited by
themselves.
"""


@dataclass(frozen=True, slots=True)
class Leader:
    """A leader as observers see it."""

    candidate: str
    epoch: int


@at_home
class Election:
    """One candidate's, or observer's, view of a named election."""

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        candidate: str,
        *,
        rng: random.Random,
        session_timeout: float = 6.0,
        meter: ClientMeter = SILENT_METER,
    ) -> None:
        """Nothing is done before the first call.

        `candidate` is what observers get to see, such as an address; it need not be unique. A
        candidate that is not heard of for `session_timeout` seconds loses its place. Raises
        `InvalidRequestError` for an unusable name or timeout.
        """
        if not isinstance(candidate, str) or not candidate:
            raise InvalidRequestError(f"a candidate needs a name: {candidate!r} is not one")
        if not isinstance(session_timeout, int | float):
            raise InvalidRequestError(f"session_timeout must be a number, not {session_timeout!r}")
        if not SESSION_SECONDS_MIN <= session_timeout <= SESSION_SECONDS_MAX:
            raise InvalidRequestError(
                f"a session cannot last {session_timeout:g} s: a candidate must be heard of in "
                f"time, so choose {SESSION_SECONDS_MIN:g} to {SESSION_SECONDS_MAX:.0f} s"
            )
        self.name = name
        self.candidate = candidate
        self._store = store
        self._rng = rng
        self._session_timeout = session_timeout
        self._home = Home()
        self._terms: dict[Leadership, Session] = {}
        """The leaderships that last, each with the session that carries it."""
        self._meter = meter
        self._stands = 0
        self._is_closed = False
        self._epoch_path = election_epoch_path(name)
        self._queue_path = election_candidates_path(name)
        self._queue_prefix = election_candidate_prefix(name)

    def __repr__(self) -> str:
        state = "leads" if self._terms else "closed" if self._is_closed else "does not lead"
        return f"<Election {self.name!r}, candidate {self.candidate!r} {state}>"

    @asynccontextmanager
    async def lead(self) -> AsyncIterator[Leadership]:
        """Wait for our turn, lead for as long as the block runs, and resign.

        The block is not interrupted when the leadership is lost: `Leadership.wait_lost` tells it.

        Yields:
            The leadership, with its epoch.

        Raises:
            ConfigurationError: the store cannot carry sessions.
            CorruptRecordError: the election's record is damaged.
            StoreWentBackError: the metadata store was put back from a backup, and not adopted
                yet (`quire metadata adopt`).
            HandleClosedError: the election was closed.

        Cancellation: cancelling the wait gives the place in the queue up.

        Guarantees: epochs grow from leader to leader, also when a backup of the metadata store was
            restored in between (docs/protocol.md, "Election").
        """
        self._home.check(self)
        self._stands += 1
        try:
            session, term = await self._campaign()
        except BaseException:
            self._stands -= 1
            raise
        if self._is_closed:
            self._stands -= 1
            await _close(session)
            raise HandleClosedError(self._title)
        leadership = Leadership(self.name, term, session, self)
        self._terms[leadership] = session
        self._meter.elected(self.name)
        guard = asyncio.create_task(self._guard(session, leadership), name=f"guard of {self.name}")
        try:
            yield leadership
        finally:
            if leadership.is_lost and not self._is_closed:
                self._meter.lost(self.name)
            self._stands -= 1
            leadership._end()
            guard.cancel()
            del self._terms[leadership]
            await _close(session)
            await stop(guard)

    # How it ends with the client (quire/leaving.py).

    def _figures(self) -> ElectionFigures | None:
        """Return the figures that a meter shows; None for an election that is only watched."""
        leads = any(not each.is_lost for each in self._terms)
        return ElectionFigures(self.name, leads) if self._stands else None

    @property
    def _title(self) -> str:
        """The election's name, for messages."""
        return f"election {self.name!r}"

    @property
    def has_ended(self) -> bool:
        """Whether this candidate does not lead."""
        return not self._terms

    @property
    def _untold(self) -> str | None:
        """Nothing: an election fails in the call that waits for it."""
        return None

    def abandon(self) -> None:
        """Wake the tasks that wait for the end of a leadership; take no office any more."""
        self._is_closed = True
        for leadership in self._terms:
            leadership._end()

    async def close(self) -> None:
        """Resign, and take no office any more. A second call does nothing.

        A candidate that waits for its turn gets `HandleClosedError` when it would be elected.

        Raises:
            Nothing: a session that cannot be closed ends by itself after its time-out.

        Cancellation: the session ends by itself after its time-out.
        """
        self.abandon()
        for session in list(self._terms.values()):
            await _close(session)

    async def leader(self) -> Leader | None:
        """Return the present leader.

        Returns:
            The leader's name and epoch; None before a candidate has taken office.

        Raises:
            StoreUnavailableError: the metadata store does not answer.
            CorruptRecordError: the election's record is damaged.

        Cancellation: ends the call only: nothing is changed.
        """
        term, _ = await self._read_term()
        return _leader(in_office(await self._store.children(self._queue_path), term))

    async def candidates(self) -> list[str]:
        """Return the names of the candidates that stand, the leader among them.

        Returns:
            The names that they gave, first come first. A dead candidate stands until its session
            is over.

        Raises:
            StoreUnavailableError: the metadata store does not answer.
            CorruptRecordError: a candidate's record is damaged.

        Cancellation: ends the call only: nothing is changed.
        """
        places = queue(await self._store.children(self._queue_path))
        found = [await self._candidate_at(place) for place in places]
        return [each for each in found if each is not None]

    async def watch(self) -> AsyncGenerator[Leader | None, None]:
        """Yield the present leader, and then again at every change, forever.

        Changes that revert between two looks are left out; the last state never is.

        Yields:
            The leader's name and epoch; None while there is no leader.

        Raises:
            CorruptRecordError: the election's record is damaged. A store that does not answer is
                asked again.

        Cancellation: ends the watching only.
        """
        first, seen = True, None
        while True:
            try:
                term, version = await self._read_term()
                names = await self._store.children(self._queue_path)
            except RetryError:
                await self._pause()
                continue
            leader = _leader(in_office(names, term))
            if first or leader != seen:
                first, seen = False, leader
                yield leader
            with suppress(RetryError):
                await first_of(
                    self._store.wait(self._epoch_path, version),
                    self._store.wait_children(self._queue_path, names),
                )

    async def _campaign(self) -> tuple[Session, Term]:
        """Stand until elected; return the session that carries the candidacy, and the term."""
        while True:
            with suppress(RetryError, OutcomeUnknownError, SessionExpiredError):
                session = await self._store.open_session(self._session_timeout)
                try:
                    return session, await self._stand(session)
                except BaseException:
                    await _close(session)
                    raise
            await self._pause()

    async def _stand(self, session: Session) -> Term:
        """Queue up and wait for office. Raises `SessionExpiredError` when the place is lost."""
        token = f"{self._rng.getrandbits(128):032x}"
        value = encode_candidate(self.candidate, token)
        mine = name_of(await session.create_sequential(self._queue_prefix, value))
        while not session.expired:
            try:
                term = await self._advance(session, mine, token)
            except (RetryError, OutcomeUnknownError):
                await self._pause()
                continue
            if term is not None and not session.expired:
                return term
        raise SessionExpiredError("the candidacy was not renewed in time")

    async def _advance(self, session: Session, mine: Place, token: str) -> Term | None:
        """Take office when we are first; else wait until that may have changed."""
        last, version = await self._read_term()
        verdict = judge(await self._store.children(self._queue_path), mine, last)
        if verdict.standing is Standing.GONE:
            raise SessionExpiredError("the candidacy was removed")
        if verdict.ahead is not None:
            await first_of(
                self._until_gone(verdict.ahead),
                self._store.wait(self._epoch_path, version),
                session.wait_expired(),
            )
            return None
        if last is not None and last.token == token:
            return last
        incarnation = await adopted_incarnation(self._store)
        term = next_term(last, self.candidate, mine, token, incarnation)
        return term if await self._write_term(term, version) else None

    async def _read_term(self) -> tuple[Term | None, int | None]:
        """Return the epoch record and its version."""
        try:
            found = await self._store.get(self._epoch_path)
        except NoSuchNodeError:
            return None, None
        return decode_term(self._epoch_path, found.value), found.version

    async def _write_term(self, term: Term, version: int | None) -> bool:
        """Replace the epoch record at `version`; False if its version is another now."""
        try:
            if version is None:
                await self._store.create(self._epoch_path, encode_term(term))
            else:
                await self._store.put(self._epoch_path, encode_term(term), version)
        except (ConflictError, NoSuchNodeError):
            return False
        return True

    async def _name_heir(self, term: Term, candidate: str | None) -> bool:
        """Write a successor into our own term; False without a candidate to name."""
        last, version = await self._own_term(term)
        for place in queue(await self._store.children(self._queue_path)):
            if place == term.place:
                continue
            if candidate is None or await self._candidate_at(place) == candidate:
                return await self._write_term(replace(last, successor=place), version)
        return False

    async def _unchanged(self, term: Term) -> Check:
        """Return what fails once a later leader is in office."""
        _, version = await self._own_term(term)
        return Check(self._epoch_path, version)

    async def _own_term(self, term: Term) -> tuple[Term, int]:
        """Return a term as it is recorded, and the version. Raises `LeadershipLostError`."""
        last, version = await self._read_term()
        if last is None or version is None or last.token != term.token:
            raise LeadershipLostError(self.name, f"epoch {term.epoch} is over")
        return last, version

    async def _candidate_at(self, place: Place) -> str | None:
        path = f"{self._queue_path}/{place}"
        try:
            return decode_candidate(path, (await self._store.get(path)).value)
        except NoSuchNodeError:
            return None

    async def _until_gone(self, place: Place) -> None:
        """Return when a place may have been given up."""
        path = f"{self._queue_path}/{place}"
        with suppress(NoSuchNodeError):
            found = await self._store.get(path)
            await self._store.wait(path, found.version)

    async def _guard(self, session: Session, leadership: Leadership) -> None:
        """End a leadership with its session, or when an operator removes its place."""
        try:
            await first_of(session.wait_expired(), self._until_removed(leadership._place))
        finally:
            leadership._end()

    async def _until_removed(self, mine: Place) -> None:
        while True:
            try:
                names = await self._store.children(self._queue_path)
                if judge(names, mine).standing is Standing.GONE:
                    return
                await self._until_gone(mine)
            except RetryError:
                await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(BACKOFF.seconds(0, self._rng))


def _leader(term: Term | None) -> Leader | None:
    return Leader(term.candidate, term.epoch) if term else None


async def _close(session: Session) -> None:
    """End a session; if the store is out of reach, the session ends when its time is up. Every
    error is dropped, also of a damaged store: it would take the place of a cancellation.
    """
    with suppress(QuireError):
        await session.close()
