"""Which pieces of logs a read is made of."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from quire.aio.tasks import each
from quire.bookkeeper.pieces import EntryPlace, LedgerPiece, within
from quire.entry import LedgerId
from quire.errors import PositionTrimmedError
from quire.spark.bookkeeper.options import ForeignOptions
from quire.spark.bookkeeper.places import Strand, by_strand, ledger_of
from quire.spark.clients import worker_client

_log: Final = logging.getLogger(__name__)

BEGINNING: Final = EntryPlace(0, 0)

LOGS_AT_ONCE_MAX: Final = 4
"""Logs that are listed at a time; each lists several parts at a time."""


def list_logs(
    options: ForeignOptions, begins: Mapping[str, Mapping[int, EntryPlace]]
) -> list[LedgerPiece]:
    """Return the pieces of all logs that the options name, from places on. Raises as the system's
    `list_pieces`.
    """
    client = worker_client(options.cluster)

    async def ask(log: str) -> Sequence[LedgerPiece]:
        wanted = begins.get(log, {})
        return await options.system.list_pieces(client._client, log, wanted, options.password)

    found = client._portal.call(each(options.logs, ask, LOGS_AT_ONCE_MAX))
    return list(chain.from_iterable(found))


def plan_batch(options: ForeignOptions) -> list[LedgerPiece]:
    """Return the pieces of a batch: all entries within the bounds that are confirmed now.

    Raises `ConfigurationError` for bounds in a part that does not exist, `PositionTrimmedError` if
    the first place is gone, and the errors of the listing.
    """
    begins, ends = options.begins, options.ends
    listed = list_logs(options, dict.fromkeys(options.logs, begins))
    found = by_strand(listed)
    options.check_parts({part for _, part in found})
    for strand, pieces in found.items():
        if strand[1] in begins:
            check_left(options, strand, begins[strand[1]], pieces)
    cut = [within(piece, BEGINNING, ends.get(piece.part)) for piece in listed]
    return [piece for piece in cut if piece.entries]


def check_left(
    options: ForeignOptions,
    strand: Strand,
    begin: EntryPlace,
    pieces: Sequence[LedgerPiece],
    ledger: LedgerId | None = None,
) -> None:
    """Raise `PositionTrimmedError` if entries may be gone between a place and the entries that
    are left.

    With `failOnDataLoss=false` it warns. Ledgers between the place and the first one may have come
    and gone: only the ledger of the place itself proves that nothing is missing. A segment that was
    truncated in part begins after the place. One with another ledger than the place had is of a log
    that was recreated; a segment from which nothing was read may have been made again.
    """
    found = ledger_of(pieces, begin)
    is_other = bool(begin.entry) and None not in (ledger, found) and ledger != found
    has_place = any(piece.number == begin.number and piece.first <= begin.entry for piece in pieces)
    if has_place and not is_other:
        return
    log, part = strand
    place = f"{begin.number}:{begin.entry}:{part}"
    left = f"{pieces[0].number}:{pieces[0].first}:{part}" if pieces else "none"
    if is_other:
        place, left = f"{place} in ledger {ledger}", f"{left} in ledger {found}"
    if options.fail_on_data_loss:
        raise PositionTrimmedError(
            log, place, f"{left} (let retention keep unread entries, or give failOnDataLoss=false)"
        )
    _log.warning("entries of %s from %s to %s may be lost: they were deleted", log, place, left)
