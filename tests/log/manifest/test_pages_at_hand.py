"""Pages that a program remembers: the ones used last, and as many as it was told."""

from __future__ import annotations

from random import Random

import pytest

from quire.log.manifest.page import Page, Reference, reference_to
from quire.log.manifest.page_tree import Place
from quire.log.manifest.pages_at_hand import PagesAtHand
from quire.log.manifest.segment import Segment, SegmentEnd
from quire.metastore.memory import MemoryStore
from tests.log.manifest.paging import LOG_ID

ENDED = SegmentEnd(1, 2, 3, 4, 5)
PAGE = Page(0, (Segment(1, 7, 1, 6, 0, ENDED),))


def place(name: str) -> Place:
    reference: Reference = reference_to(PAGE, name, b"")
    return Place(0, reference)


def held(pages: PagesAtHand, names: str) -> str:
    return "".join(name for name in names if pages.get(place(name)) is not None)


def test_the_page_that_was_used_last_is_kept() -> None:
    pages = PagesAtHand(MemoryStore(), LOG_ID, None, 3)
    for name in "abc":
        pages.hold(name, PAGE)
    assert pages.get(place("a")) is PAGE
    pages.hold("d", PAGE)
    assert held(pages, "abcd") == "acd"
    pages.hold("a", PAGE)  # again: it is the youngest now
    pages.hold("e", PAGE)
    assert held(pages, "abcde") == "ade"


def test_a_page_that_is_not_at_hand_is_said_to_be_missing() -> None:
    pages = PagesAtHand(MemoryStore(), LOG_ID, None, 3)
    assert pages.get(place("a")) is None
    assert pages.fresh_of([place("a")]) == {}
    with pytest.raises(KeyError):
        pages.page("a")


def test_an_edit_has_pages_of_its_own() -> None:
    pages = PagesAtHand(MemoryStore(), LOG_ID, Random(1), 1)
    for edit in (pages.for_edit(), pages.for_edit()):  # also before there is any page
        first = edit.add(PAGE, LOG_ID, ())
        second = edit.add(PAGE, LOG_ID, ())
        assert set(edit.fresh) == {first.name, second.name}
        assert edit.fresh_of([Place(0, second)]) == {second.name: edit.fresh[second.name]}
    assert not pages.fresh
    pages.hold("a", PAGE)
    assert pages.for_edit().get(place("a")) is PAGE
