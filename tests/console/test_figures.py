"""A day of figures, numbers as text, and charts: pure functions."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from quire.console import charts, words
from quire.console.looks import BookiePace
from quire.console.ring import RECENT_MAX, STEP_SECONDS, STEPS_MAX, Point, Series, growth
from quire.console.sampler import Counted, with_journal


def series(*points: tuple[float, float]) -> Series:
    found = Series()
    for at, value in points:
        found.add(at, value)
    return found


def test_a_series_keeps_a_day_in_steps_and_its_last_minutes() -> None:
    found = Series()
    for look in range(40_000):
        found.add(5.0 * look, look)
    assert len(found) == STEPS_MAX
    assert len(found.recent()) == RECENT_MAX
    day = found.day()
    assert day[-1] == Point(5.0 * 39_999, 39_999)
    assert day[-1].at - day[0].at <= STEPS_MAX * STEP_SECONDS
    assert all(later.at > before.at for before, later in pairwise(day))


def test_a_step_keeps_its_last_figure() -> None:
    assert series((0, 1), (5, 2), (299, 3), (300, 4)).day() == ((299, 3), (300, 4))


def test_a_rate_is_over_the_last_minute() -> None:
    assert series((0, 0), (5, 50)).rate() == 10.0
    assert series((0, 0), (100, 50), (130, 650), (160, 1_250)).rate() == 20.0
    assert series((0, 0), (600, 60)).rate() == 0.1, "a log that is looked at seldom has one, too"
    assert series((0, 9), (5, 3)).rate() == 0.0, "a figure that falls grows by nothing"
    assert series((0, 9)).rate() is None
    assert series((9, 1), (3, 5)).last == (9, 1), "an earlier figure is left out"


def test_growth_is_between_points() -> None:
    points = [Point(0, 0), Point(10, 50), Point(10, 70), Point(20, 40)]
    assert growth(points) == ((10, 5.0), (20, 0.0))


def test_the_pace_of_a_journal_is_between_two_counts() -> None:
    def counted(at: int, batches: int, spent: int) -> Counted:
        return Counted(at, {"journal_batches": batches, "journal_microseconds": spent})

    pace = BookiePace(0.001)
    found = with_journal(pace, counted(0, 10, 1_000), counted(5_000, 30, 401_000))
    assert (found.answer_seconds, found.journal_seconds) == (0.001, 0.02)
    assert found.batches_per_second == 4.0
    idle = with_journal(pace, counted(0, 10, 5), counted(5_000, 10, 5))
    assert (idle.journal_seconds, idle.batches_per_second) == (None, 0.0)
    assert with_journal(pace, Counted(0, {}), Counted(5_000, {})) == pace
    assert not counted(5_000, 3, 3).follows(counted(0, 10, 9)), "a bookie that began anew"


def test_an_older_bookie_counts_no_entries() -> None:
    old = {"journal_batches": 1, "journal_microseconds": 10}
    found = with_journal(BookiePace(), Counted(0, old), Counted(1_000, old))
    assert (found.entries_per_second, found.journal_p99, found.waiting) == (None, None, None)
    now = {"journal_entries": 500, "journal_p99_microseconds": 4_000, "journal_waiting": 2}
    later = Counted(2_000, {**old, **now})
    found = with_journal(BookiePace(), Counted(0, {**old, **now, "journal_entries": 100}), later)
    assert (found.entries_per_second, found.journal_p99, found.waiting) == (200.0, 0.004, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.size(0), "0 B"),
        (words.size(1_234), "1.2 kB"),
        (words.size(999_950), "1.0 MB"),
        (words.size(123_456_789), "123 MB"),
        (words.size(None), "–"),
        (words.number(999_999), "999,999"),
        (words.number(1_250_000), "1.2 M"),
        (words.rate(0.2), "0.2/s"),
        (words.rate(0.01), "0.6/min"),
        (words.rate(12_345.6), "12,346/s"),
        (words.seconds(0.00042), "0.4 ms"),
        (words.seconds(0.12), "120 ms"),
        (words.seconds(1.5), "1.5 s"),
        (words.seconds(123), "2 min 3 s"),
        (words.share(0.834), "83 %"),
        (words.share(0.001), "<1 %"),
        (words.short("2afa9b222c07ae74c1c4de4c1380abc6"), "2afa9b22…"),
        (words.short("bookie-of-the-second-rack"), "bookie-of-the-second-rack"),
        (words.moment(0), "1970-01-01 00:00:00"),
        (words.moment(1e20), "100000000000000000000 ms"),
        (words.ago(0, 500), "now"),
        (words.ago(0, 5_000), "5 s ago"),
        (words.plural(1, "entry", "entries"), "1 entry"),
        (words.plural(2, "ledger"), "2 ledgers"),
    ],
)
def test_numbers_have_their_unit(text: str, expected: str) -> None:
    assert text == expected


def parsed(svg: str) -> ElementTree.Element:
    assert "style=" not in svg, "the policy of the pages forbids styles in them"
    found = ElementTree.fromstring(svg)
    assert found.get("role") == "img"
    assert found.get("aria-label")
    return found


def test_a_curve_stays_in_its_frame_and_says_what_it_shows() -> None:
    points = [Point(300.0 * step, (step * 37) % 101) for step in range(288)]
    chart = parsed(charts.curve(points, "rate", "Records a second"))
    assert chart.get("aria-label") == "Records a second: from 0/s to 14/s, at most 100/s"
    line = chart.find("polyline[@class='line']")
    assert line is not None
    pairs = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
    assert len(pairs) == 288
    assert pairs[0][0] == charts.LEFT
    assert pairs[-1][0] == charts.WIDTH - charts.RIGHT
    assert all(charts.TOP <= y <= charts.HEIGHT - charts.BOTTOM for _, y in pairs)
    high = min(pairs, key=lambda pair: pair[1])
    assert points[pairs.index(high)].value == max(each.value for each in points)
    ticks = [each.text for each in chart.findall("text")]
    assert ticks == ["0/s", "50/s", "100/s", "00:00 UTC", "23:55 UTC"]


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 0, [0.0, 0.5, 1.0]),
        (0, 100, [0, 50, 100]),
        (0, 7, [0, 5, 10]),
        (980, 1_020, [980, 1_000, 1_020]),
        (0, 0.02, [0, 0.01, 0.02]),
        (3e9, 8e9, [2e9, 4e9, 6e9, 8e9]),
    ],
)
def test_ticks_are_round(low: float, high: float, marks: list[float]) -> None:
    assert charts.ticks(low, high) == pytest.approx(marks)


def test_ticks_that_would_read_alike_count_from_the_lowest() -> None:
    assert charts.tick_texts([0, 5e8], words.size) == ["0 B", "500 MB"]
    close = [120e9, 120.005e9, 120.01e9]
    assert charts.tick_texts(close, words.size) == ["120 GB", "+5.0 MB", "+10.0 MB"]


def test_without_two_figures_there_is_no_curve() -> None:
    assert "two looks are needed" in charts.curve([Point(0, 1)], "count", "Logs")
    assert charts.spark([Point(0, 1)], "x") == ""
    parsed(charts.spark([Point(0, 1), Point(0, 1)], "x"))


def test_texts_of_charts_are_escaped() -> None:
    evil = '"><script>'
    for svg in (
        charts.curve([Point(0, 1), Point(1, 2)], "count", evil),
        charts.bar(0.5, "ok", evil),
        charts.strip([(1.0, "open", evil)], evil),
        charts.spark([Point(0, 1), Point(1, 2)], evil),
    ):
        parsed(svg)
        assert "<script>" not in svg


def test_a_bar_is_as_full_as_its_share() -> None:
    for share, width in ((0.25, "25.0"), (-1, "0.0"), (7, "100.0")):
        assert parsed(charts.bar(share, "warning", "x"))[1].get("width") == width


def test_pieces_fill_a_strip() -> None:
    rects = parsed(charts.strip([(0.25, "closed", "a"), (0.75, "open", "b")], "x"))
    assert [each.get("x") for each in rects] == ["0.0", "60.0"]
    assert [each.get("class") for each in rects] == ["piece-closed", "piece-open"]
