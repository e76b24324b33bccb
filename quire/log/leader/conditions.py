"""The conditions and marks of an append: the data stored with its records, and its preconditions.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from quire.errors import InvalidRequestError
from quire.log.records.position import check_offset
from quire.log.records.producers import Stamp
from quire.log.records.transactions import check_transaction


class Marks(NamedTuple):
    """The marks stored with every record of a group."""

    stamp: Stamp | None = None
    transaction: int | None = None

    def cost(self, records: int) -> int:
        """Bytes that a stamp adds to a batch at most."""
        return self.stamp.cost(records) if self.stamp else 0


UNMARKED: Final = Marks()


@dataclass(frozen=True, slots=True)
class Terms:
    """What an append depends on: the offset it must get, that its stamp is new, and that its
    transaction is not below the last one.
    """

    expected_offset: int | None = None
    marks: Marks = UNMARKED


ALWAYS: Final = Terms()


def make_terms(expected_offset: int | None, stamp: Stamp | None, transaction: int | None) -> Terms:
    """Return the terms of an append; `ALWAYS` without any.

    Raises `InvalidRequestError` for an invalid stamp, transaction or offset.
    """
    if expected_offset is not None:
        check_offset(expected_offset)
    if stamp is None and transaction is None:
        return ALWAYS if expected_offset is None else Terms(expected_offset)
    if stamp is not None:
        if not isinstance(stamp, Stamp):
            raise InvalidRequestError(
                f"not a stamp: {stamp!r} (expected Stamp(producer, sequence))"
            )
        stamp.check()
    if transaction is not None:
        check_transaction(transaction)
    return Terms(expected_offset, Marks(stamp, transaction))
