"""The garbage collector of a process that handles many entries."""

from __future__ import annotations

import gc

import pytest

from quire.cli import serving
from quire.cli.collecting import COLLECT_AFTER, collecting_rarely
from quire.cli.settings import Settings


def _fail_within() -> None:
    with collecting_rarely():
        assert gc.get_threshold() == COLLECT_AFTER
        assert gc.get_freeze_count() > 0
        raise ValueError("the block ends")


def test_the_collector_runs_rarely_within_the_block_and_as_before_after_it() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="the block ends"):
        _fail_within()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_a_bookie_serves_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[int, int, int]]()
    monkeypatch.setattr(serving, "run", lambda _: seen.append(gc.get_threshold()))
    given = ["/nowhere", "--listen", "127.0.0.1:0"]
    serving.serve.main(given, standalone_mode=False, obj=Settings())
    assert seen == [COLLECT_AFTER]
