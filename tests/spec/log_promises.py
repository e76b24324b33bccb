"""The promises of `spec/Log.tla` in Python: what holds in each state."""

from __future__ import annotations

from itertools import pairwise

from tests.spec.log_state import NO_MAN, OPEN_END, PART, Entry, Ledger, Man, Seg, State

THERE = ("OPEN", "CLOSED")
ENDED = ("CLOSED", "GONE", "COLL")


def broken(s: State) -> str | None:
    """Return the name of the first promise that a state breaks, or None."""
    man, led = s.man, s.led
    if any(led[each.led - 1].st not in THERE for each in man.segs):
        return "C1"
    if not _is_sound(man, led):
        return "C3"
    if not _are_for_their_segments(man, led):
        return "C4"
    terms = [(each.log, each.ep) for each in s.ldr if each.ep]
    if len(set(terms)) != len(terms):
        return "EP"
    if any(each.st in ENDED and each.ack > each.end for each in led):
        return "H8"
    if not _is_kept(man, led):
        return "KEPT"
    contents = [_content(each, led[each.led - 1]) for each in man.segs]
    if any(
        entry[:2] not in (PART[:2], led[each.led - 1].lab[:2])
        for each, content in zip(man.segs, contents, strict=True)
        for entry in content
    ):
        return "L4"
    if not _has_no_hole(man, led, contents):
        return "C6"
    if any(_is_left(man, each) for each in led):
        return "D2"
    is_asked = any(log == man.log and to >= man.trim for log, to in s.asks)
    return "TR" if man.trim > 1 and not (man.ret or is_asked) else None


def _is_left(man: Man, ledger: Ledger) -> bool:
    """Whether a ledger has records of its own log, and that log is gone."""
    log = ledger.lab[0]
    is_gone = log not in (PART[0], man.log) and ledger.st in THERE
    return is_gone and any(entry[0] == log for entry in ledger.sent)


def _is_sound(man: Man, led: tuple[Ledger, ...]) -> bool:
    open_ones = [each for each in man.segs if each.end == OPEN_END]
    is_short = (
        len(open_ones) <= 2 and tuple(open_ones) == man.segs[len(man.segs) - len(open_ones) :]
    )
    return is_short and all(
        led[each.led - 1].st == "CLOSED" and led[each.led - 1].end == each.end
        for each in man.segs
        if each.end != OPEN_END
    )


def _are_for_their_segments(man: Man, led: tuple[Ledger, ...]) -> bool:
    is_going_up = all(a.num < b.num and a.ep <= b.ep for a, b in pairwise(man.segs))
    is_within = all(each.num < man.next and each.ep <= man.epoch for each in man.segs)
    is_labelled = all(led[each.led - 1].lab == (man.log, each.ep, each.num) for each in man.segs)
    ids = {each.led for each in man.segs}
    is_once = len(ids) == len(man.segs) and not ids & man.doomed
    return is_going_up and is_within and is_labelled and is_once


def _is_kept(man: Man, led: tuple[Ledger, ...]) -> bool:
    """Every acknowledged record is in the log, or was trimmed."""
    if man == NO_MAN or man.ret:
        return True
    at = {each.led: each for each in man.segs}
    for number, ledger in enumerate(led, start=1):
        if ledger.ack and ledger.lab[0] == man.log and ledger.lab[2] >= man.trim:
            segment = at.get(number)
            if segment is None or (segment.end != OPEN_END and segment.end < ledger.ack):
                return False
    return True


def _content(segment: Seg, ledger: Ledger) -> tuple[Entry, ...]:
    return ledger.sent[: ledger.ack if ledger.st == "OPEN" else ledger.end]


def _has_no_hole(man: Man, led: tuple[Ledger, ...], contents: list[tuple[Entry, ...]]) -> bool:
    """The records of each writer are there without a gap and each once, as far as it is decided."""
    expected: dict[tuple[int, int], int] = {}
    for segment, content in zip(man.segs, contents, strict=True):
        if led[segment.led - 1].st == "OPEN":
            return True  # what is behind it is judged when it is closed
        for log, ep, k in content:
            first = k if man.trim > 1 else 1
            if k != expected.get((log, ep), first):
                return False
            expected[log, ep] = k + 1
    return True
