"""The keys of ledgers whose reads need them, for the links of one client.

A ledger's handle knows its key and asks a bookie by the port `Bookie`, whose reads have no key: a
bookie in this process needs none. The link that crosses a network adds it (remote.py).

Invariant: at most `KEYS_MAX` keys are kept, the last that were used.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from quire.entry import LedgerId, guards_reads

KEYS_MAX: Final = 65_536


class ReadKeys:
    """The keys that one client has proven to know. On one loop.

    `has_tls` tells whether the client reaches bookies by TLS. Without it keys travel openly, and no
    bookie can prove that it may copy entries.
    """

    def __init__(self, *, has_tls: bool = True) -> None:
        self.has_tls = has_tls
        self._keys: OrderedDict[LedgerId, bytes] = OrderedDict()

    def learn(self, ledger: LedgerId, key: bytes) -> None:
        """Remember the key of a ledger, if it guards reads."""
        if not guards_reads(key):
            return
        self._keys[ledger] = key
        self._keys.move_to_end(ledger)
        if len(self._keys) > KEYS_MAX:
            self._keys.popitem(last=False)

    def of(self, ledger: LedgerId) -> bytes:
        """Return the key to read a ledger with, empty if it needs none."""
        key = self._keys.get(ledger)
        if key is None:
            return b""
        self._keys.move_to_end(ledger)
        return key
