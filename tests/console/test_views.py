"""What pages say, from values alone: the four planted troubles, and clusters of all sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quire.console.looks import BookiePace, ClusterLook
from quire.console.views.bookies import bookies
from quire.console.views.connections import connections
from quire.console.views.growth import growth_page
from quire.console.views.healing import healing
from quire.console.views.logs import logs
from quire.console.views.one_log import one_log
from quire.console.views.overview import overview
from quire.console.views.paging import page_of
from quire.console.views.troubles import AnswerTile, answers, lags
from quire.healing.switch import Pause, Switch
from quire.ledger.metadata import Replica
from quire.repair.assignments import Assignment, Assignments
from quire.view.values import LeaderView
from tests.console import scene
from tests.console.scene import NOW, healthy
from tests.healing.scene import AWAY


def answer(snapshot: ClusterLook, number: int) -> AnswerTile:
    return answers(snapshot)[number]


def test_all_is_well_in_a_healthy_cluster() -> None:
    page = overview(healthy())
    assert (page.severity, page.headline, page.reasons) == ("ok", "All is well", ())
    assert [each.severity for each in page.answers] == ["ok"] * 4
    assert page.summary == "6 bookies (6 up) · 12 logs"


def test_before_the_first_look_nothing_is_claimed() -> None:
    page = overview(ClusterLook(NOW, "memory://x"))
    assert (page.severity, page.reasons) == ("unknown", ())
    assert {each.severity for each in page.answers} == {"unknown"}


def test_a_slow_bookie_is_named_with_its_reason() -> None:
    shown = answer(scene.slow_bookie(healthy()), 1)
    assert (shown.severity, shown.headline) == ("warning", "b03")
    assert shown.detail == "A write to its journal takes 950 ms, the others take 4 ms."
    page = overview(scene.slow_bookie(healthy()))
    assert page.severity == "warning", "a slow bookie is no state in which all is well"
    assert [each.code for each in page.reasons] == ["slow"]


def test_a_bookie_that_answers_late_is_slow() -> None:
    shown = answer(scene.with_pace(healthy(), "b02", BookiePace(0.6)), 1)
    assert (shown.headline, shown.detail) == (
        "b02",
        "It answers in 600 ms, the others take 0.4 ms.",
    )


def test_a_slow_network_makes_no_bookie_slow() -> None:
    slow = healthy()
    for number in range(6):
        slow = scene.with_pace(slow, f"b{number:02}", BookiePace(0.3 + 0.01 * number, 0.11))
    assert answer(slow, 1).severity == "ok"


def test_too_few_writable_bookies_let_appends_wait() -> None:
    shown = answer(scene.waiting_appends(healthy()), 0)
    assert (shown.severity, shown.headline) == ("critical", "Appends wait")
    assert "needs 3 writable bookies that answer, and there are 2" in shown.detail
    assert "b02 is silent" in shown.detail
    assert overview(scene.waiting_appends(healthy())).severity == "critical"


def test_bookies_that_are_registered_and_silent_let_appends_wait() -> None:
    one = (scene.bookie("b1"), scene.bookie("b2"), scene.bookie("b3", silence="no answer"))
    shown = answer(scene.snapshot(*one), 0)
    assert (shown.severity, shown.headline) == ("critical", "Appends wait")
    assert "b3 does not answer" in shown.detail
    spared = answer(scene.snapshot(scene.bookie("b0"), *one), 0)
    assert (spared.severity, spared.headline) == ("warning", "Some appends wait")
    assert "b3" in spared.detail


def test_the_log_that_grows_fastest_is_named() -> None:
    shown = answer(scene.growing_log(healthy()), 2)
    assert shown.headline == "payments"
    assert shown.detail == "4,711/s records, 100 % of what all logs take."


def test_a_lagging_reader_is_named_with_its_log() -> None:
    shown = answer(scene.lagging_reader(healthy()), 3)
    assert (shown.severity, shown.headline) == ("warning", "fraud-check")
    assert shown.detail == "1.2 M records to read of log orders; it moved 5 min 40 s ago."


@pytest.mark.parametrize(
    ("lag", "moved", "per_second", "is_lagging"),
    [
        (0, 9_999, 5.0, False),
        (None, 9_999, 5.0, False),
        (5, 1, 5.0, False),
        (5, 61, 5.0, True),
        (999, 1, 0.0, False),
        (1_000, 1, 0.0, True),
        (20_000, 1, 5_000.0, False),
        (60_000, 1, 5_000.0, True),
    ],
)
def test_a_reader_lags_when_it_stands_or_is_far_from_the_end(
    lag: int | None, moved: float, per_second: float, is_lagging: bool
) -> None:
    assert lags(scene.cursor(lag=lag, moved=moved), per_second, NOW) is is_lagging


def test_a_console_that_cannot_look_says_so_and_keeps_the_last_look() -> None:
    page = overview(replace(healthy(), trouble="the store is away"))
    assert (page.severity, page.reasons[0].code) == ("critical", "no-look")
    assert page.bookies_total == 6
    assert page.answers[0].severity == "warning"


def test_an_old_look_is_a_finding() -> None:
    page = overview(replace(healthy(), at_ms=NOW + 120_000))
    assert (page.severity, page.reasons[0].code) == ("critical", "no-look")
    assert page.looked == "2 min 1 s ago"


@pytest.mark.parametrize("count", [0, 3, 50])
def test_clusters_of_all_sizes_have_a_page(count: int) -> None:
    value = healthy(count)
    page = overview(value)
    assert page.bookies_total == count
    assert page.severity == ("ok" if count else "critical")
    rows = bookies(value)
    assert (rows.paging.total, len(rows.rows)) == (count, count)
    assert answer(value, 0).severity == ("ok" if count else "critical")


def test_bookies_stand_by_domain_and_the_slowest_first() -> None:
    value = scene.slow_bookie(healthy())
    domains = [each.domain for each in bookies(value).rows]
    assert domains == sorted(domains)
    assert bookies(value, "pace").rows[0].bookie == "b03"
    assert bookies(value, "nonsense").order == "domain"
    assert bookies(value, "disk").rows[0].disks[0].used_share == 0.5


def test_a_bookie_says_its_wish_and_its_silence() -> None:
    value = scene.snapshot(
        scene.bookie("b1", standing=AWAY),
        scene.bookie("b2", up=False, heard=90.0),
        scene.bookie("b3", in_limbo=4, free=10),
    )
    away, silent, limbo = bookies(value, "name").rows
    assert (away.state, away.note) == ("away", "for 1 min more, anna@desk: new fan")
    assert (silent.state, silent.note) == ("silent", "silent for 1 min 30 s")
    assert limbo.note == "may have lost something of 4 ledgers"
    assert limbo.disks[0].severity == "warning"


def test_a_thousand_logs_are_ten_pages() -> None:
    value = scene.growing_log(healthy(3, 1_000))
    first = logs(value)
    assert (first.paging.pages, len(first.rows), first.total) == (11, 100, 1_001)
    assert logs(value, page=99).paging.page == 11, "a page after the last is the last"
    assert logs(value, "growth").rows[0].name == "payments"
    assert [each.name for each in logs(value, find="PAY").rows] == ["payments"]
    assert logs(scene.lagging_reader(value), "lag").rows[0].slowest == "fraud-check"


def test_a_leader_without_an_election_is_named_by_its_process() -> None:
    leader = LeaderView(2, host="app9", pid=71, since_ms=NOW)
    look = scene.log("payments", leader=leader)
    row = logs(replace(healthy(), log_names=["payments"], logs={"payments": look})).rows[0]
    assert (row.leader, row.leader_since_ms) == ("app9:71", NOW)
    elected = scene.log("payments", leader=replace(leader, candidate="desk"))
    row = logs(replace(healthy(), log_names=["payments"], logs={"payments": elected})).rows[0]
    assert row.leader == "desk"


def test_a_log_that_was_not_looked_at_has_no_figures() -> None:
    value = replace(healthy(3, 1), log_names=["log-0000", "new"])
    row = logs(value).rows[1]
    assert (row.name, row.records, row.severity, row.looked) == (
        *("new", None, "unknown"),
        "not looked at yet",
    )


def test_the_strip_of_a_log_shows_the_youngest_segments() -> None:
    look = scene.log("a", 100_000)
    many = replace(
        look.view, youngest=scene.segments(40, 100), segments=1_000_000, end_offset=4_000
    )
    row = logs(scene.with_log(healthy(3, 0), replace(look, view=many))).rows[0]
    assert len(row.strip) == 25
    assert row.strip[0].text == "999,976 segments before"
    assert row.strip[-1].kind == "open"
    assert sum(each.share for each in row.strip) == pytest.approx(1.0)


def test_a_log_has_its_segments_and_readers() -> None:
    look = scene.lagging_reader(healthy()).logs["orders"]
    page = one_log(look, (), NOW)
    assert [each.number for each in page.segments] == [5, 4, 3, 2, 1]
    assert page.segments[0].records == 400_000, "the open segment ends with the log"
    assert [(each.name, each.severity) for each in page.cursors] == [
        ("fraud-check", "warning"),
        ("billing", "ok"),
    ]
    assert page.cursors[0].behind == "1 d 4 h"


def test_healing_counts_by_reason_and_lists_moves() -> None:
    value = scene.healing_work(healthy())
    moves = Assignments("b04", (Assignment(17, (Replica(0, 1, "b05", "b04"),)), Assignment(9)))
    page = healing(replace(value, moves={"b04": moves}))
    assert (page.severity, page.headline) == ("critical", "43 ledgers to heal")
    assert [(each.kind, each.count) for each in page.counts if each.count] == [
        *(("one-copy", 2), ("short", 41)),
        ("asked", 12),
    ]
    assert [(each.to, each.ledger, each.reason, each.instead_of) for each in page.moves] == [
        ("b04", 17, "copy", "b05"),
        ("b04", 9, "holes", ""),
    ]


def test_a_pause_of_healing_is_shown() -> None:
    value = healthy()
    assert value.facts is not None
    switch = Switch(Pause("moving house", "anna", NOW - 1, NOW + 600_000))
    page = healing(replace(value, facts=replace(value.facts, switch=switch)))
    assert page.headline == "Paused, 0 ledgers to heal"
    assert page.pause == "paused for 10 min more, by anna: moving house"
    assert page.severity == "warning"


def test_growth_names_the_fastest_logs() -> None:
    page = growth_page(scene.growing_log(healthy()))
    assert page.logs[0].log == "payments"
    assert sum(each.share for each in page.logs) <= 1.0
    used = page.curves[0]
    assert (used.name, used.now[-2:], used.change[0]) == ("used_bytes", "TB", "+")


def test_clients_are_listed_with_the_logs_they_lead() -> None:
    page = connections(healthy())
    assert [(each.where, each.leads_total) for each in page.rows] == [
        ("app1, process 7", 12),
        ("app1, process 8", 0),
    ]
    assert len(page.rows[0].leads) == 5
    assert [(each.version, each.bookies, each.clients) for each in page.versions] == [("1.0", 6, 2)]


def test_ledgers_in_use_are_listed_with_their_logs() -> None:
    quiet = healthy()
    assert connections(quiet).users == []
    page = connections(scene.used(quiet, scene.WRITER, scene.FOLLOWER))
    assert page.users_total == 2
    assert [(each.kind, each.user, each.log, each.last) for each in page.users] == [
        ("writes", "10.0.0.7", "log-0000", "2.0 s ago"),
        ("follows", "billing", "log-0000", "waits for entries"),
    ]


def test_pages_have_a_hundred_rows() -> None:
    rows = list(range(250))
    assert [len(page_of(rows, page)[1]) for page in (1, 2, 3)] == [100, 100, 50]
    assert page_of(rows, 0)[0].page == 1
    assert page_of([], 5)[0].pages == 1
