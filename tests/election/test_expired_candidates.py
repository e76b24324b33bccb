"""A candidate whose session ends while it takes office has no office, on every store."""

from __future__ import annotations

from quire.metastore.layout import election_epoch_path
from tests.election.test_election import NAME, QUEUE, Hall, Run, line_of, run
from tests.support.log_cluster import Gate

__all__ = ["run"]

EPOCH = election_epoch_path(NAME)


def test_a_candidate_whose_session_ends_as_it_writes_its_term_does_not_lead(run: Run) -> None:
    """The write succeeds, for the store has no reason to refuse it. Other candidates may lead
    since the place is gone: the candidate comes back with a new place and the next epoch.
    """

    async def scenario(hall: Hall) -> None:
        store = await hall.store()
        writing = Gate("create", EPOCH)
        async with line_of(hall) as line:
            candidate = await hall.candidate("anna")
            candidate.store.after = writing
            line.append(candidate)
            await writing.reached.wait()
            session = candidate.store.sessions[-1]
            await candidate.lose_session()
            await session.wait_expired()
            while names := await store.children(QUEUE):
                await store.wait_children(QUEUE, names)
            writing.open.set()
            leadership = await candidate.elected()
            assert (leadership.epoch, leadership.is_lost) == (2, False)
            assert len(candidate.store.sessions) == 2
            assert await hall.queue() == [leadership._place]

    run(scenario)
