"""The records of one request over HTTP, appended.

Without a condition each record is an append of its own, so that records of many requests share
entries. Such a request may be refused after some of its records were queued. Its caller is told of
these: an answer that promises that nothing happened would have it write them twice.
"""

from __future__ import annotations

import asyncio

from quire.errors import OutcomeUnknownError, QuireError
from quire.gateway.answers import PartlyAppendedError
from quire.gateway.bodies import Submission
from quire.log.leader.log import Log
from quire.log.records.position import Appended


async def append_batch(log: Log, batch: Submission) -> list[Appended]:
    """Append the records of a request, and return their places once they are certain.

    Raises:
        PartlyAppendedError: the first records are in the log, and the next one was refused.
        QuireError: the errors of `Log.append`; no record is in the log, unless the error is an
            `OutcomeUnknownError`.
    """
    expected, producer, txid = batch.expected_offset, batch.producer_sequence, batch.txid
    if batch.is_atomic or (expected, producer, txid) != (None, None, None):
        return await log.append_many(
            batch.records, expected_offset=expected, producer_sequence=producer, txid=txid
        )
    futures: list[asyncio.Future[Appended]] = []
    places: list[Appended] = []
    refusal: QuireError | None = None
    try:
        for record in batch.records:
            futures.append(await log.submit(record))  # noqa: PERF401 what was queued counts
    except QuireError as error:
        refusal = error
    try:
        for future in futures:
            places.append(await future)  # noqa: PERF401 likewise
    except QuireError as error:
        refusal = error
    if refusal is None:
        return places
    if not places or isinstance(refusal, OutcomeUnknownError):
        raise refusal
    raise PartlyAppendedError(len(places), len(batch.records), refusal) from refusal
