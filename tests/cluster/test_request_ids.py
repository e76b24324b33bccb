"""One request on both sides: its id in the log of a client and of a bookie, as real processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.request_logs import Logs, logs_of_both

FRAMES, GRPC = "", 'listen-runs = "none"\n'


def check_ids(logs: Logs, *, has_frames: bool) -> None:
    """An add, a read, a fence and a subscription have one id on both sides, with their stages."""
    ((mine, theirs), *_) = logs.shared("add", logs.fenced)
    assert (mine.stages, theirs.stages[1:3]) == (("queue", "answer"), ("queue", "journal"))
    stream, _, number = mine.request.rpartition("-")
    assert (len(stream), number) == (16, "1")
    ((fence, fenced), *_) = logs.shared("ReadTail", logs.fenced)
    assert "journal" in fenced.stages, "a fence is durable"
    reads = [mine.request for mine, _ in logs.shared("Read", logs.fenced)]
    assert fence.request in reads, "the calls of a recovery share an id"
    assert set(reads) - {fence.request}, "and a read has one of its own"
    if has_frames:
        ((begun, _), *_) = logs.shared("subscription", logs.followed)
        news = [each for each in logs.bookie if each.kind == "news"]
        assert {each.request for each in news} == {begun.request}
        assert {each.ledger for each in news} == {logs.followed}
    else:
        assert not logs.shared("subscription", logs.followed), "the bookie is asked instead"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("serve", [FRAMES, GRPC], ids=["frames", "gRPC"])
def test_a_request_has_one_id_on_both_sides(tmp_path: Path, form: str, serve: str) -> None:
    check_ids(asyncio.run(logs_of_both(tmp_path, form, serve)), has_frames=serve == FRAMES)
