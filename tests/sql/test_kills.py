"""Ten random kills of the many that `make sql` does."""

from __future__ import annotations

from tests.sql.kills import run


def test_rows_arrive_once_through_kills_of_every_process() -> None:
    found = run(kills=10, seed=1)
    assert found["kills"] == 10
    assert found["rows"] > 0
