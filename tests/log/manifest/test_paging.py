"""A manifest in pages is what a plain list of segments would be, and its head stays small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from quire.errors import CorruptRecordError
from quire.log.manifest import page
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.page import Page, Summary, decode_page, reference_to
from quire.log.manifest.page_tree import Border, Place, below
from quire.log.manifest.pages_at_hand import Walk
from tests.log.manifest.paging import LOG_ID, Pair, Shelf, page_rows
from tests.support.log_cluster import run
from tests.support.seeds import seeds

FIELDS = (
    *("epoch", "next_segment", "first_offset", "trimmed_to", "trimmed_transaction"),
    *("trimmed_timestamp_ms", "first_position", "end_offset", "last_txid", "last_timestamp_ms"),
    *("segment_count", "first_number", "tail", "open_segments"),
)


def check_same(pair: Pair) -> None:
    """Everything that can be asked has the same answer with and without pages."""
    plain, paged, shelf = pair.plain, pair.paged, pair.shelf
    for name in FIELDS:
        assert getattr(paged, name) == getattr(plain, name), name
    segments = shelf.answer(paged, lambda: paged.segments)
    assert segments == plain.segments
    doomed, files = all_doomed(paged, shelf)
    assert doomed == set(plain.doomed)
    assert files == set(plain.doomed_files)
    for number in range(plain.first_number - 1, plain.next_segment + 2):
        found = shelf.answer(paged, lambda number=number: paged.segment_from(number))  # type: ignore[misc]
        assert found == plain.segment_from(number)
        found = shelf.answer(paged, lambda number=number: paged.segment_before(number))  # type: ignore[misc]
        assert found == plain.segment_before(number)
    for ledger in range(pair._ledger + 1):
        asked = shelf.answer(paged, lambda ledger=ledger: paged.lists(ledger))  # type: ignore[misc]
        assert asked == plain.lists(ledger)
    live = sum(each.bytes or 0 for each in plain.segments)
    paged_bytes = sum(each.reference.of.bytes for each in paged.places) - paged.border.bytes
    assert paged_bytes + sum(each.bytes or 0 for each in paged.rows) == live


def leaves(places: list[Place], shelf: Shelf, tiers: Any = ()) -> list[Segment]:
    found: list[Segment] = []
    for place in places:
        content = shelf._decode(place, tiers)
        found += [*content.segments, *leaves(below(content), shelf, tiers)]
    return found


def all_doomed(paged: LogManifest, shelf: Shelf) -> tuple[set[int], set[str]]:
    rows = leaves(list(paged.doomed_pages), shelf, paged.tiers)
    files = {each.cold.uri for each in rows if each.cold} | set(paged.doomed_files)
    return {*paged.doomed, *(each.ledger for each in rows if each.is_hot)}, files


@pytest.mark.parametrize("seed", seeds(40, 2, usual=12))
def test_a_paged_manifest_is_the_plain_one(seed: int) -> None:
    with page_rows(2 + seed % 3):
        pair = Pair(seed)
        steps: list[Callable[[], None]] = [pair.roll, pair.roll, pair.take_over, pair.ingest]
        for step in range(60):
            pair.rng.choice([*steps, pair.trim] if step % 7 == 0 else steps)()
            count = 2 + seed % 3
            assert all(len(level) < 2 * count for level in pair.paged.levels)
            assert len(pair.paged.rows) < 2 * count + 2
            if step % 10 == 9:
                check_same(pair)


def test_a_deletion_dooms_pages_without_reading_them() -> None:
    with page_rows(2):
        pair = Pair(1)
        for _ in range(20):
            pair.ingest()
        loads = pair.shelf.loads
        pair.edit(lambda now: now.retire({}))
        assert pair.shelf.loads == loads
        assert not pair.paged.segment_count
        assert all_doomed(pair.paged, pair.shelf)[0] == set(pair.plain.doomed)


def test_a_roll_needs_no_page_at_any_length() -> None:
    with page_rows(3):
        pair = Pair(2)
        pair.take_over()
        for _ in range(200):
            pair.roll()
        pair.trim()
        loads = pair.shelf.loads
        for _ in range(50):
            pair.roll()
            pair.take_over()
        assert pair.shelf.loads == loads
        assert pair.paged.segment_count > 100


def test_changed_segments_are_copied_with_the_pages_that_name_them() -> None:
    with page_rows(2):
        pair = Pair(3)
        for _ in range(12):
            pair.ingest()
        tier = "file:///t/" + LOG_ID
        pair.edit(lambda now: replace(now, tiers=(tier,)))
        number = pair.plain.segments[5].number

        def move(segment: Segment) -> Segment:
            if segment.number != number:
                return segment
            return replace(segment, cold=ColdFile(tier, "f", 1, 2))

        before = pair.paged
        pair.edit(lambda now: now.with_segments(move, lambda of: of.spans(number)))
        check_same(pair)
        changed = [
            one for one, other in zip(before.places, pair.paged.places, strict=True) if one != other
        ]
        assert len(changed) == 1
        assert pair.shelf.answer(before, lambda: before.segments)[5].cold is None


def segment(number: int, ledger: int, offset: int, time: int = 5) -> Segment:
    end = SegmentEnd(0, 1, 1, 10, time)
    return Segment(number, ledger, 1, time, offset, end)


def test_a_summary_joins_as_its_parts_do() -> None:
    rng = Random(4)
    rows = [segment(each, rng.randint(1, 99), each, rng.randint(0, 50)) for each in range(1, 40)]
    parts = [page.summary_of(each) for each in rows]
    whole = page.joined_summary(parts)
    for cut in range(1, 39):
        halves = [page.joined_summary(parts[:cut]), page.joined_summary(parts[cut:])]
        assert page.joined_summary(halves) == whole
    times = [each.end.last_timestamp_ms for each in rows if each.end]
    drops = [max(times[: at + 1]) - time for at, time in enumerate(times)]
    assert whole.drop_ms == max(drops)


PAGE = Page(0, (segment(1, 7, 0), segment(2, 9, 1)))


def damaged(data: bytes, of: Summary) -> dict[str, tuple[bytes, str, int, Summary]]:
    other = Page(0, (segment(1, 7, 0), segment(2, 8, 1))).encode(LOG_ID, ())
    hole = Page(0, (segment(1, 7, 0), segment(2, 9, 2)))
    return {
        "bytes": (data + b" ", LOG_ID, 0, of),
        "log": (data, "2" * 32, 0, of),
        "level": (data, LOG_ID, 1, of),
        "summary": (data, LOG_ID, 0, of._replace(bytes=of.bytes + 1)),
        "another": (other, LOG_ID, 0, of),
        "hole": (hole.encode(LOG_ID, ()), LOG_ID, 0, hole.summary()),
    }


@pytest.mark.parametrize("case", ["bytes", "log", "level", "summary", "another", "hole"])
def test_a_page_is_the_one_that_was_named_or_an_error(case: str) -> None:
    data = PAGE.encode(LOG_ID, ())
    good = reference_to(PAGE, "ab", data)
    assert decode_page("/p", data, LOG_ID, 0, good, ()) == PAGE
    record, log_id, level, of = damaged(data, good.of)[case]
    reference = good._replace(of=of)
    if case in ("another", "hole"):
        reference = reference._replace(checksum=page.FORMAT.checksum(record))
    with pytest.raises(CorruptRecordError, match="/p"):
        decode_page("/p", record, log_id, level, reference, ())


def test_a_head_is_checked_against_its_references() -> None:
    with page_rows(2):
        pair = Pair(5)
        for _ in range(6):
            pair.ingest()
        head = pair.paged
        broken = [
            replace(head, border=Border(head.next_segment)),
            replace(head, first_offset=head.places[0].reference.of.end_offset),
            replace(head, levels=(*head.levels[:-1], head.levels[-1][1:])),
            replace(head, levels=(head.levels[0][1:], *head.levels[1:])),
            replace(head, rows=head.rows[1:]),
        ]
        for each in broken:
            with pytest.raises(CorruptRecordError, match="breaks"):
                LogManifest.decode("/a", each.encode())


def test_a_walk_yields_what_the_list_would() -> None:
    async def main() -> None:
        with page_rows(2):
            pair = Pair(6)
            for _ in range(10):
                pair.ingest()
            pair.trim()
            plain, paged = pair.plain, pair.paged
            middle = plain.segments[len(plain.segments) // 2].number
            assert [each async for each in Walk(paged)] == list(plain.segments)
            back = [each async for each in Walk(paged, is_backward=True)]
            assert back == list(reversed(plain.segments))
            later = [each for each in plain.segments if each.number >= middle]
            assert [each async for each in Walk(paged, middle)] == later
            assert [each async for each in Walk(paged, wants=lambda it: it in later)] == later
            assert [each async for each in Walk(paged, skips=lambda _: True)] == list(paged.rows)

    run(main)
