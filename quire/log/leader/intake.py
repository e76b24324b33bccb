"""Records and conditions of an append, taken apart and checked before anything is queued."""

from __future__ import annotations

from collections.abc import Sequence

from quire.log.leader.conditions import Terms, make_terms
from quire.log.manifest.record import ManifestRecord
from quire.log.records.attributes import Appendable, taken
from quire.log.records.producers import ProducerSequence


async def take_in(
    log: ManifestRecord,
    records: Sequence[Appendable],
    expected_offset: int | None,
    producer_sequence: ProducerSequence | None,
    txid: int | None,
) -> tuple[list[bytes], Terms]:
    """Return the payloads and the terms of an append.

    Raises `TypeError`, `InvalidRequestError`, `LevelNeededError`, and the store's errors.
    """
    payloads, attributes = taken(records)
    terms = make_terms(expected_offset, producer_sequence, txid, attributes)
    if attributes:
        await log.check_attributes_allowed()
    return payloads, terms
