"""The requests of `make fuzz`: each number names one, each kind comes, and some are sent."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.__main__ import campaign, save
from tests.fuzz.requests import Way, request


def test_a_number_names_one_request() -> None:
    assert [request(1, number) for number in range(50)] == [
        request(1, number) for number in range(50)
    ]
    assert request(1, 0) != request(2, 0)


def test_each_way_and_method_comes() -> None:
    drawn = [request(1, number) for number in range(500)]
    assert Counter(each.way for each in drawn).keys() == set(Way)
    methods = {each.method for each in drawn if each.way is Way.GRPC}
    assert methods >= {"Add", "Read", "ReadTail", "WaitTail", "Sync", "ListEntries", "Info"}


@pytest.mark.real_time
async def test_a_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    state = tmp_path / "fuzz.json"
    save(state, 2, 7)
    assert await campaign(1, range(40, 70), state) == 30
    assert json.loads(state.read_text()) == {"1": 70, "2": 7}
