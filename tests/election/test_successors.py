"""Which candidate follows a leader, as a table; and that a leadership ends with its session."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from quire.election.ballot import Standing, Term, Verdict, decode_term, encode_term, judge
from quire.election.leadership import Leadership
from quire.errors import LeadershipLostError
from quire.metastore.layout import election_epoch_path
from quire.metastore.memory import MemoryStore
from quire.metastore.store import Session
from tests.election.test_election import NAME, make_election

A, B, C = "c-0000000001", "c-0000000002", "c-0000000010"
TERM = Term(7, "anna", A, "token", successor=C)


@pytest.mark.parametrize(
    ("names", "mine", "verdict"),
    [
        ([A, B, C], A, Verdict(Standing.LEADS)),
        ([A, B, C], B, Verdict(Standing.WAITS, A)),
        ([A, B, C], C, Verdict(Standing.WAITS, A)),
        ([B, C], C, Verdict(Standing.LEADS)),
        ([B, C], B, Verdict(Standing.WAITS, C)),
        ([B], B, Verdict(Standing.LEADS)),
        ([B], C, Verdict(Standing.GONE)),
    ],
)
def test_the_named_successor_follows_while_it_stands(
    names: list[str], mine: str, verdict: Verdict
) -> None:
    assert judge(names, mine, TERM) == verdict


def test_a_leadership_is_lost_with_its_session_before_any_task_runs() -> None:
    """A guard that is scheduled and has not run yet must not let one more command through."""

    session = SimpleNamespace(expired=False)
    election = make_election(MemoryStore(), "anna")
    leadership = Leadership(NAME, TERM, cast("Session", session), election)
    leadership.check()
    session.expired = True
    assert leadership.is_lost
    with pytest.raises(LeadershipLostError):
        leadership.check()


def test_a_deposed_leader_names_no_successor_into_the_term_of_another() -> None:
    async def main() -> None:
        store, path = MemoryStore(), election_epoch_path(NAME)
        election = make_election(store, "anna")
        await store.create(path, encode_term(Term(8, "bert", B, "another")))
        session = await store.open_session(5.0)
        await session.create(f"{election._queue_path}/{B}", b"")
        await session.create(f"{election._queue_path}/{C}", b"")
        with pytest.raises(LeadershipLostError, match="epoch 7"):
            await election._name_heir(TERM, None)
        assert decode_term(path, (await store.get(path)).value).successor is None
        await store.close()

    asyncio.run(main())
