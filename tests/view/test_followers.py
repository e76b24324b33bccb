"""Followers, put together from what bookies count."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from quire.cli.health import followers_fields
from quire.cli.top_frame import TopOrders, fields, frame
from quire.console.looks import BookiePace
from quire.console.sampler import BATCHES, MICROSECONDS, Counted, with_journal
from quire.console.views.bookies import bookies
from quire.console.views.connections import connections
from quire.view.followers import ENTRIES, FollowersView, followers_of
from tests.console.scene import healthy, with_pace
from tests.healing.scene import bookie

COUNTED = {"subscription_clients": 2, "subscriptions_open": 5, "subscriptions_without_credit": 1}


def test_followers_of_several_bookies_are_added_up() -> None:
    info = bookie("b1").info
    assert info is not None
    old = replace(info, counters={})
    new = replace(info, counters={**COUNTED, "subscription_entries": 70})
    assert followers_of([old]) is None, "a bookie of an older program does not count them"
    assert followers_of([old, new, new]) == FollowersView(4, 10, 2, 140)


def test_followers_are_told_in_words() -> None:
    assert FollowersView(1, 3).text == "3 open; connections: 1"
    assert FollowersView(2, 3, 1).text == "3 open; connections: 2; without credit: 1"


def test_every_display_tells_of_followers() -> None:
    look = healthy(bookies=2)
    known = look.facts
    assert known is not None
    told = [
        replace(each, info=replace(each.info, counters=COUNTED))
        for each in known.bookies
        if each.info is not None
    ]
    look = with_pace(look, "b00", BookiePace(pushed_per_second=12.0))
    facts = replace(known, bookies=told)
    look = replace(look, facts=facts)
    page = connections(look)
    assert (page.followers, page.pushed_per_second) == (FollowersView(4, 10, 2, 0), 12.0)
    assert [(each.subscriptions, each.without_credit) for each in bookies(look).rows] == [
        (5, 1)
    ] * 2
    assert fields(look, TopOrders())["followers"]["subscriptions"] == 10
    paper = Console(width=100, file=io.StringIO())
    paper.print(frame(look, TopOrders(), width=100))
    assert "10 subscriptions" in paper.file.getvalue()  # type: ignore[attr-defined]
    assert followers_fields(facts) is not None
    assert followers_fields(replace(facts, bookies=[])) is None


def test_what_was_pushed_is_a_rate_between_two_looks() -> None:
    before, now = (Counted(at, {BATCHES: 1, MICROSECONDS: 1, ENTRIES: at}) for at in (1000, 3000))
    assert with_journal(BookiePace(), before, now).pushed_per_second == 1000
