"""The log layer's invariants over a whole run: history classes after Jepsen, C1–C5 after TLA+.

Evidence: what leaders appended, what followers read, and the final log as fresh readers read it.

  lost write, unseen       an acknowledged record, if not trimmed, is in the log at its position
  duplicate                no record is at two positions
  inconsistent position    a position never shows two records
  aborted read             nobody reads what was never sent
  phantom                  what a follower read stays in the log
  skip, non-monotonic      a pass goes up, and by one in offsets, but over a trim it was told of
  send order               a leader's records stand as it appended them; a batch is together
  real time                a record stands behind everything confirmed before it was appended
  handoff                  epochs never go back: no two leaders' records interleave; an epoch's
                           records are one leader's
  C5                       what a leader began when another epoch had begun is never confirmed
  conditional append       a record that was to get an offset has that one, or is not there
  transactions             a record has the id it was given, else that of the record before it
  seal                     what is appended to a sealed log is never confirmed, and never there
  agreement                all final readers agree

The manifest is watched in manifest_watch.py.
"""

from __future__ import annotations

from itertools import pairwise

from quire.log.records.position import Position
from tests.sim.history import LogHistory, LogReading, Outcome, Seen, require


def acknowledged_records_are_in_the_log(final: list[Seen], history: LogHistory) -> None:
    at = {seen.position: seen for seen in final}
    for append in history.appends:
        for position, payload in zip(append.positions, append.payloads, strict=False):
            if history.trimmed_to is not None and position < history.trimmed_to:
                continue
            seen = at.get(position)
            require(
                seen is not None and seen.payload == payload,
                "lost write",
                f"{append.leader} was told that {payload!r} is at {position}; there is {seen}",
            )
            assert seen is not None
            require(
                seen.epoch == append.epoch or (append.is_resent and seen.epoch > append.epoch),
                "handoff",
                f"{seen} was appended at epoch {append.epoch}",
            )


def told_offsets_are_true(final: list[Seen], history: LogHistory) -> None:
    at = {seen.position: seen.offset for seen in final}
    for append in history.appends:
        if append.offset is None:
            continue
        for offset, position in enumerate(append.positions, append.offset):
            require(
                at.get(position) in (None, offset),
                "told offset",
                f"{append.leader} was told offset {offset} at {position}; it is {at.get(position)}",
            )


def no_duplicates(final: list[Seen]) -> None:
    where: dict[bytes, Position] = {}
    for seen in final:
        other = where.setdefault(seen.payload, seen.position)
        require(
            other == seen.position, "duplicate", f"{seen.payload!r} is at {other}, {seen.position}"
        )


def positions_are_consistent(final: list[Seen], readings: list[LogReading]) -> None:
    at = {seen.position: seen for seen in final}
    for reading in readings:
        for seen in reading.records:
            other = at.setdefault(seen.position, seen)
            require(
                other == seen,
                "inconsistent position",
                f"{reading.reader} read {seen}; there is {other}",
            )


def no_aborted_reads(final: list[Seen], history: LogHistory) -> None:
    kept = {payload for append in history.appends for payload in append.payloads}
    failed = {
        payload
        for append in history.appends
        if append.outcome is Outcome.FAILED
        for payload in append.payloads
    }
    passes = [final, *(reading.records for reading in history.readings)]
    for seen in (record for records in passes for record in records):
        require(seen.payload not in failed, "aborted read", f"{seen} was never sent")
        require(seen.payload in kept, "aborted read", f"{seen} was never appended")


def no_phantoms(final: list[Seen], history: LogHistory) -> None:
    there = {seen.position for seen in final}
    for reading in history.readings:
        for seen in reading.records:
            trimmed = history.trimmed_to is not None and seen.position < history.trimmed_to
            require(
                trimmed or seen.position in there,
                "phantom",
                f"{reading.reader} read {seen}, which is not in the log",
            )


def passes_go_up_by_one(readings: list[LogReading]) -> None:
    for reading in readings:
        for index, (one, other) in enumerate(pairwise(reading.records), start=1):
            require(
                other.position > one.position,
                "non-monotonic read",
                f"{reading.reader} read {other} after {one}",
            )
            require(
                other.offset == one.offset + 1
                or (index in reading.gap_before and other.offset > one.offset),
                "skip",
                f"{reading.reader} read {other} after {one}",
            )


def sends_keep_their_order(history: LogHistory) -> None:
    last: dict[tuple[str, int], Position] = {}
    for append in history.appends:
        for position in append.positions:
            key = (append.leader, append.epoch)
            before = last.get(key)
            require(
                before is None or position > before,
                "send order",
                f"{append.leader} appended {append.payloads!r} at {position} after {before}",
            )
            last[key] = position
        places = {(position.segment, position.entry) for position in append.positions}
        require(len(places) <= 1, "send order", f"batch {append.payloads!r} is spread: {places}")
        require(
            append.after is None or not append.positions or append.positions[0] > append.after,
            "real time",
            f"{append.payloads!r} is at {append.positions}, but {append.after} was confirmed "
            "before it was appended",
        )


def epochs_never_go_back(final: list[Seen]) -> None:
    for one, other in pairwise(final):
        require(other.epoch >= one.epoch, "handoff", f"{other} stands after {one}")


def only_the_leader_confirms(history: LogHistory) -> None:
    leaders: dict[int, str] = {}
    for append in history.appends:
        if append.outcome is not Outcome.OK or append.is_resent:
            continue
        require(
            append.epoch >= append.begun_in,
            "C5 a deposed leader confirms nothing",
            f"{append} was begun when epoch {append.begun_in} had begun",
        )
        other = leaders.setdefault(append.epoch, append.leader)
        require(other == append.leader, "handoff", f"{append} was confirmed, and so were {other}'s")


def txids_are_kept(final: list[Seen], history: LogHistory) -> None:
    at = {seen.payload: seen for seen in final}
    for append in history.appends:
        for payload in append.payloads:
            seen = at.get(payload)
            require(
                seen is None or append.txid is None or seen.txid == append.txid,
                "transactions",
                f"{payload!r} was appended with txid {append.txid}, it is {seen}",
            )
    given = {payload for each in history.appends for payload in each.payloads if each.txid}
    for one, other in pairwise(final):
        require(
            other.payload in given or other.txid == one.txid,
            "transactions",
            f"{other} was appended without a txid, behind {one}",
        )
        require(
            (other.txid or 0) >= (one.txid or 0),
            "transactions",
            f"{other} stands after {one}",
        )


def conditions_are_kept(final: list[Seen], history: LogHistory) -> None:
    at = {seen.payload: seen.offset for seen in final}
    for append in history.appends:
        offset = at.get(append.payloads[0])
        require(
            offset is None or append.expected_offset in (None, offset),
            "conditional append",
            f"{append.payloads!r} was to get offset {append.expected_offset}, it has {offset}",
        )


def nothing_follows_a_seal(final: list[Seen], history: LogHistory) -> None:
    there = {seen.payload for seen in final}
    for append in history.appends:
        require(
            not append.is_behind_seal
            or (append.outcome is not Outcome.OK and there.isdisjoint(append.payloads)),
            "seal",
            f"{append} was begun when the log was sealed",
        )


def check_log(finals: list[list[Seen]], history: LogHistory) -> None:
    """Run every checker. `finals` are the passes of fresh readers when all is over."""
    final = finals[0]
    for other in finals[1:]:
        require(other == final, "agreement", "two readers of the final log disagree")
    passes = [*history.readings, LogReading("the last reader", Position(0, 0, 0), final)]
    acknowledged_records_are_in_the_log(final, history)
    told_offsets_are_true(final, history)
    no_duplicates(final)
    positions_are_consistent(final, history.readings)
    no_aborted_reads(final, history)
    no_phantoms(final, history)
    passes_go_up_by_one(passes)
    sends_keep_their_order(history)
    epochs_never_go_back(final)
    only_the_leader_confirms(history)
    txids_are_kept(final, history)
    conditions_are_kept(final, history)
    nothing_follows_a_seal(final, history)
