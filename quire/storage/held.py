"""A run beside the entries that the bookie holds: what an add may not replace (B12, B16).

  B12 an ordinary add brings the same bytes: a writer seals an entry once
  B16 a recovery seals an entry again, for another LAC, and keeps its payload. A ledger without a
      password has public keys, so the digest of the copy that is held proves the payload, and the
      bookie refuses another one. With a password the bookie cannot tell, and the access key alone
      protects the entry.

A damaged copy is not held, and any add may replace it. A copy that the disk cannot read now may be
sound: an ordinary add is refused, since another bookie can take it. A recovery has no such choice.

Not here: admission and order of adds (node.py), and runs that come meanwhile (fills.py).
"""

from __future__ import annotations

from typing import Final

from quire.bookie import READ_BYTES_MAX
from quire.entry import is_sealed_again
from quire.errors import CorruptEntryError
from quire.run import ScannedRun, split_run
from quire.storage.engine import Engine

OTHER_BYTES: Final = "it is held with other bytes, and an ordinary add never replaces an entry"

OTHER_PAYLOAD: Final = "it is held with another payload, and a recovery never changes a payload"


async def check_held(engine: Engine, run: bytes, scanned: ScannedRun, *, recovery: bool) -> None:
    """Raise `CorruptEntryError` when an entry of a run would replace one that is held."""
    await engine.settle()
    frames = dict(split_run(run))
    first, last = scanned.entries[0], scanned.last
    while first <= last:
        reading = engine.storage.read(scanned.ledger, first, last, READ_BYTES_MAX)
        try:
            found = await engine.from_disk(reading)
        except CorruptEntryError as error:
            if isinstance(error.__cause__, OSError) and not recovery:
                raise
            first = max(first, error.entry) + 1  # a chunk is named by its first entry
            continue
        if found is None:
            return
        for entry, frame in split_run(found):
            given = frames.get(entry, frame)
            if given != frame and not recovery:
                raise CorruptEntryError(scanned.ledger, entry, OTHER_BYTES)
            if given != frame and not is_sealed_again(scanned.ledger, entry, frame, given):
                raise CorruptEntryError(scanned.ledger, entry, OTHER_PAYLOAD)
            first = entry + 1
