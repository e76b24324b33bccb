"""Verifying a bookie's bytes, and the facts that they prove.

A bookie is trusted to store, not to tell the truth about its data: every frame and every
LAC packet is checked with the ledger's own key before anything is concluded from it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from quire.bookie import LedgerTail
from quire.entry import HEADER, NO_ENTRY, Entry, EntryId, Sealer
from quire.errors import CorruptEntryError, InvalidRequestError
from quire.run import SIZE, ScannedRun, scan_run


def verified_lac(sealer: Sealer, tail: LedgerTail) -> EntryId | None:
    """Return the highest LAC that a tail proves, None when it holds bytes that cannot be believed.

    A bookie that holds nothing of the ledger proves `NO_ENTRY`.
    """
    lac = NO_ENTRY
    try:
        if tail.frame is not None:
            lac = sealer.unseal(unverified_entry(tail.frame), tail.frame).lac
        if tail.lac_packet is not None:
            lac = max(lac, sealer.unseal_lac(tail.lac_packet))
    except CorruptEntryError:
        return None
    return lac


def unverified_entry(frame: bytes) -> EntryId:
    """Return the entry that a frame says it is; nothing is verified."""
    return int(HEADER.unpack_from(frame)[1]) if len(frame) >= HEADER.size else NO_ENTRY


def unseal_run(
    sealer: Sealer,
    run: bytes,
    first: EntryId,
    last: EntryId,
    wanted: Callable[[EntryId], bool] | None = None,
) -> tuple[list[Entry], list[EntryId]]:
    """Return the valid entries of a run and the ids of its damaged ones, within first..last.

    Entries that are not `wanted` are skipped without being verified. Bytes that are not a run, or a
    run without any requested entry, are damage of `first`.
    """
    try:
        scanned = scan_run(run)
    except InvalidRequestError:
        return [], [first]
    if scanned.first > last or scanned.last < first:
        return [], [first]
    if wanted is None and scanned.stride is not None:
        with suppress(CorruptEntryError):  # then frame by frame, to know which
            return _unseal_uniform(sealer, scanned, scanned.stride, first, last), []
    view = memoryview(run)
    entries: list[Entry] = []
    damaged: list[EntryId] = []
    has_requested = False
    for at in scanned.frames:
        entry = at.entry
        if not first <= entry <= last:
            continue
        has_requested = True
        if wanted is not None and not wanted(entry):
            continue
        try:
            entries.append(sealer.unseal(entry, view[at.offset : at.offset + at.size]))
        except CorruptEntryError:
            damaged.append(entry)
    return (entries, damaged) if has_requested else ([], [first])


def pushed_entries(
    sealer: Sealer,
    run: bytes,
    lac_packet: bytes | None,
    lacks: Callable[[EntryId], bool],
    *,
    proves: bool,
) -> tuple[list[Entry], EntryId]:
    """Return the valid entries of pushed bytes that are of use, and the highest LAC that the bytes
    prove. Unsound bytes are passed over.

    Args:
        sealer: of the ledger.
        run: entries that a bookie pushed; empty for none.
        lac_packet: an explicit LAC that it pushed.
        lacks: tells whether an entry is of use.
        proves: whether a LAC is looked for. Otherwise only useful entries are verified.
    """
    lac, entries = NO_ENTRY, list[Entry]()
    with suppress(InvalidRequestError):
        scanned = scan_run(run) if run else None
        if scanned is not None and (proves or lacks(scanned.last) or lacks(scanned.first)):
            is_all_new = lacks(scanned.first) and lacks(scanned.last)
            last = scanned.last if proves else NO_ENTRY

            def wanted(entry: EntryId) -> bool:
                return entry == last or lacks(entry)

            entries, _ = unseal_run(
                *(sealer, run, scanned.first, scanned.last), None if is_all_new else wanted
            )
            lac = max((entry.lac for entry in entries), default=NO_ENTRY)
    if lac_packet is not None:
        with suppress(CorruptEntryError):
            lac = max(lac, sealer.unseal_lac(lac_packet))
    return entries, lac


def _unseal_uniform(
    sealer: Sealer, run: ScannedRun, stride: int, first: EntryId, last: EntryId
) -> list[Entry]:
    low = max(first - run.first, 0)
    frames = run.cut(low, min(last + 1 - run.first, run.count))
    return sealer.unseal_many(run.first + low, frames, stride, SIZE.size)
