"""The log that a ledger was made for, from the ledger's record.

The creator of a ledger writes the log's name into the record, where it never changes. A peer that
may change records of the metadata store can change that name, too, and it can delete the ledger:
the store's own rights come first (docs/decisions/0036-rights.md).

Invariant: at most `LEDGERS_MAX` names are remembered, the newest ones.
"""

from __future__ import annotations

from typing import Final

from quire.entry import LedgerId
from quire.ledger.metadata import LedgerMetadata
from quire.metastore.layout import ledger_path
from quire.metastore.store import MetadataStore

LEDGERS_MAX: Final = 65_536
"""A hundred bytes each."""

LOG: Final = "log"
"""The label of a ledger's record that names its log."""


class LedgerLogs:
    """The logs of ledgers, each read once while it is remembered."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._known: dict[LedgerId, str | None] = {}

    async def log_of(self, ledger: LedgerId) -> str | None:
        """Return the name of a ledger's log, None for a ledger of its own.

        Raises `NoSuchNodeError` for a ledger without a record, `CorruptRecordError`,
        `InvalidRequestError` for an impossible id, and the store's errors.
        """
        if ledger in self._known:
            return self._known[ledger]
        path = ledger_path(ledger)
        metadata = LedgerMetadata.decode(path, (await self._store.get(path)).value)
        if len(self._known) >= LEDGERS_MAX:
            del self._known[next(iter(self._known))]
        log = self._known[ledger] = metadata.custom_metadata.get(LOG)
        return log
