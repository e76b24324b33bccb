"""The entries that a bookie must hold of a ledger, by its metadata. Pure."""

from __future__ import annotations

from quire.entry import BookieId
from quire.ledger.metadata import LedgerMetadata
from quire.storage.maintenance.replicas_port import Owed, Stretch


def owed_by(metadata: LedgerMetadata, bookie: BookieId) -> Owed:
    """Return the entries that have a bookie in their write sets, as far as that is settled.

    In an open ledger, these are the entries of its finished fragments.
    """
    firsts = [fragment.first for fragment in metadata.fragments[1:]]
    last = metadata.last_entry
    ends = [first - 1 for first in firsts] + ([] if last is None else [last])
    cycle = metadata.replication.ensemble
    stretches: list[Stretch] = []
    for fragment, end in zip(metadata.fragments, ends, strict=False):
        if bookie in fragment.bookies and fragment.first <= end:
            position = fragment.bookies.index(bookie)
            written = metadata.replication.is_written_to
            remainders = tuple(each for each in range(cycle) if written(each, position))
            stretches.append(Stretch(fragment.first, end, cycle, remainders))
    return Owed(tuple(stretches), metadata.is_closed, metadata.key_check)
