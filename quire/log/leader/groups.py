"""Appending several records as one: the part of `Log` for batches that readers see whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from quire.aio.home import Home
from quire.log.leader.failure import Failure
from quire.log.leader.intake import take_in
from quire.log.leader.pipeline import Pipeline
from quire.log.manifest.record import ManifestRecord
from quire.log.records.attributes import NewRecord
from quire.log.records.position import Appended
from quire.log.records.producers import ProducerSequence


class _Groups(Protocol):
    """The part of `Log` that this needs."""

    _home: Home
    _failure: Failure
    _record: ManifestRecord
    _pipeline: Pipeline


class GroupAppends:
    """The calls of `Log` that append several records atomically."""

    async def submit_many(
        self,
        records: Sequence[bytes | NewRecord],
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> asyncio.Future[list[Appended]]:
        """Queue records once there is space, and return the future of their places.

        Args:
            records: payloads or `NewRecord`s; together they fit an entry.
            expected_offset: queue only if the first record gets this offset, as in `submit`.
            producer_sequence: one for all records, as in `submit`.
            txid: one for all records, as in `submit`.

        Returns:
            A future of the position and offset of each record. Futures complete in order of
            submission.

        Raises:
            QuireError: the errors of `submit`.

        Cancellation: as of `submit`.

        Guarantees: readers see all records or none.
        """
        log = cast(_Groups, self)
        log._home.check(self)
        with log._failure:
            given = (expected_offset, producer_sequence, txid)
            group, terms = await take_in(log._record, records, *given)
            if not group:  # only now: an iterator does not tell that it is empty
                return _nothing()
            return await log._pipeline.submit(group, len(group), terms)

    async def append_many(
        self,
        records: Sequence[bytes | NewRecord],
        *,
        expected_offset: int | None = None,
        producer_sequence: ProducerSequence | None = None,
        txid: int | None = None,
    ) -> list[Appended]:
        """Append records atomically: readers see all of them or none.

        Args:
            records: payloads or `NewRecord`s; together they fit an entry.
            expected_offset: append only if the first record gets this offset, as in `submit`.
            producer_sequence: one for all records, as in `submit`.
            txid: one for all records, as in `submit`.

        Returns:
            Position and offset of each record.

        Raises:
            QuireError: the errors of `submit`.

        Cancellation: does not recall the records.
        """
        future = await self.submit_many(
            records, expected_offset=expected_offset, producer_sequence=producer_sequence, txid=txid
        )
        with cast(_Groups, self)._failure:
            return await future


def _nothing() -> asyncio.Future[list[Appended]]:
    """Return the places of no records."""
    future: asyncio.Future[list[Appended]] = asyncio.get_running_loop().create_future()
    future.set_result([])
    return future
