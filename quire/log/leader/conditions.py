"""Conditions of an append, and the marks stored with its records: producer sequence, txid, keys,
headers and event times.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from quire.errors import InvalidRequestError
from quire.log.records.attributes import Attributes
from quire.log.records.position import check_offset
from quire.log.records.producers import ProducerSequence
from quire.log.records.txids import check_txid


class Marks(NamedTuple):
    """The marks stored with every record of a group."""

    producer_sequence: ProducerSequence | None = None
    txid: int | None = None
    attributes: tuple[Attributes, ...] = ()
    """Of each record; none if no record has any."""

    def cost(self, records: int) -> int:
        """The most bytes that a producer sequence adds to a batch."""
        return self.producer_sequence.cost(records) if self.producer_sequence else 0

    def attribute_bytes(self) -> int:
        """The bytes of keys, headers and event times, which count as those of payloads do."""
        return sum(each.cost() for each in self.attributes)


UNMARKED: Final = Marks()


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions of an append.

    The record gets `expected_offset`, its producer sequence is new, and its txid is not below the
    last txid.
    """

    expected_offset: int | None = None
    marks: Marks = UNMARKED


ALWAYS: Final = Terms()


def make_terms(
    expected_offset: int | None,
    producer_sequence: ProducerSequence | None,
    txid: int | None,
    attributes: tuple[Attributes, ...] = (),
) -> Terms:
    """Return the terms of an append; `ALWAYS` without any.

    Raises `InvalidRequestError` for an invalid producer sequence, txid or offset.
    """
    if expected_offset is not None:
        check_offset(expected_offset)
    if producer_sequence is None and txid is None and not attributes:
        return ALWAYS if expected_offset is None else Terms(expected_offset)
    if producer_sequence is not None:
        if not isinstance(producer_sequence, ProducerSequence):
            raise InvalidRequestError(
                f"not a producer sequence: {producer_sequence!r} "
                "(expected ProducerSequence(producer, sequence))"
            )
        producer_sequence.check()
    if txid is not None:
        check_txid(txid)
    return Terms(expected_offset, Marks(producer_sequence, txid, attributes))
