"""Ensembles in short, and a store in trouble while they change."""

from __future__ import annotations

from quire.errors import StoreOutcomeUnknownError, StoreUnavailableError
from quire.ledger.metadata import LedgerMetadata
from tests.support.writing import PATH

UNKNOWN = StoreOutcomeUnknownError(PATH, "by order of the test")
AWAY = StoreUnavailableError("memory:", "by order of the test")


def ensembles(metadata: LedgerMetadata) -> list[tuple[int, str]]:
    return [(fragment.first, "".join(fragment.bookies)) for fragment in metadata.fragments]
