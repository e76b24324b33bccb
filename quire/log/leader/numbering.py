"""The part of `Log` for producers that begin again: where they were."""

from __future__ import annotations

from typing import Protocol, cast

from quire.log.records.producers import Producers


class _Remembers(Protocol):
    """The part of `Log` that this needs."""

    _producers: Producers


class ProducerNumbers:
    """The call of `Log` that looks into its memory of producers."""

    def last_sequence(self, producer: str) -> int | None:
        """Return the last sequence number of a producer, so that it can go on after it.

            last = log.last_sequence("shop-1")
            number = ProducerSequence("shop-1", 0 if last is None else last + 1)

        Args:
            producer: the producer's name.

        Returns:
            The number of its last append that was queued here or is in the log; None if it has
            none.

        Raises:
            ForgottenProducerError: the log has forgotten the producer: a new name is needed.
            InvalidRequestError: no producer can have the name.

        Guarantees: appends that this leader queued count, confirmed or not. Appends of a later
            leader do not: then the next append here raises `DeposedError`.
        """
        return cast(_Remembers, self)._producers.last(producer)
