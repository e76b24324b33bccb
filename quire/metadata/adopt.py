"""Letting a store count again that has gone back in time.

Ids that were given out after the backup are on bookies, and perhaps in the hands of clients that
still live. So the counter is lifted above every id that is known, by a wide margin, before the
cluster's record says that the incarnation is adopted: bookies serve, and ids are given out, only
then. Cut short, it is repeated; the counter is lifted once more, which costs ids and nothing else.

The margin is drawn at random. One backup may be put back twice, and nothing in the second store
tells of the first: an equal margin would give the same ids out again. So is the incarnation of a
store that was put back without a restore, as from a snapshot of a disk: an equal one would begin
the same epochs again.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from quire.entry import LedgerId
from quire.errors import ConfigurationError, InvalidRequestError, NoSuchNodeError
from quire.ledger.ids import Counter, decode_counter, encode_counter
from quire.metadata.restore import INCARNATIONS_SKIPPED_MAX, MARKER
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, LEDGER_ID_MAX, LEDGER_IDS, LEDGERS, parse_ledger
from quire.metastore.store import MetadataStore

MARGIN: Final = 1_000_000
"""Ids that may have been given out since the backup. At one ledger a second it covers 11 days."""

MARGINS_MAX: Final = 1 << 20
"""An adoption skips 1 to this many margins. Two adoptions of one backup draw the same number once
in a million times. The ids that there are last for millions of adoptions."""


class Adopted(NamedTuple):
    """What an adoption did."""

    incarnation: int
    first_id: LedgerId
    """The first ledger id that is given out from now on."""


async def adopt(
    store: MetadataStore, at_least: LedgerId = 0, rng: random.Random | None = None
) -> Adopted:
    """Adopt the present incarnation of a store, or begin a new one where it was adopted before.

    Args:
        store: the store, with its cluster and ledgers as they are to be believed.
        at_least: an id above all that bookies hold, where more than a million ledgers were made
            since the backup.
        rng: draws the margin, and the incarnation that is begun; by default from the system's
            entropy.

    Returns:
        The incarnation, and the first id that is given out.

    Raises:
        ConfigurationError: a restore was cut short there. To repeat it after the adoption would
            put old records over newer ones.
        NoSuchNodeError: the store holds no cluster.
        InvalidRequestError: `at_least` is not an id, or leaves too few ids above it.
        ConflictError: another adoption is under way; look, and repeat if needed.
    """
    highest = LEDGER_ID_MAX - 2 * MARGIN * MARGINS_MAX
    if not 0 <= at_least <= highest:
        raise InvalidRequestError(f"{at_least} is not in 0..{highest}")
    await _check_restored(store)
    record = await store.get(CLUSTER)
    cluster = Cluster.decode(record.value)
    counter, version = await _counter(store)
    known = max(counter.following, at_least, await _highest(store) + 1)
    drawing = rng or random.SystemRandom()
    first = known + MARGIN * drawing.randint(1, MARGINS_MAX)
    if version is None:
        await store.create(LEDGER_IDS, encode_counter(first))
    else:
        await store.put(LEDGER_IDS, encode_counter(first, unknown=counter.unknown), version)
    skipped = drawing.randint(1, INCARNATIONS_SKIPPED_MAX) if cluster.adopted else 0
    incarnation = cluster.incarnation + skipped
    adopted = replace(cluster, incarnation=incarnation, adopted=True, counted=True)
    await store.put(CLUSTER, adopted.encode(), record.version)
    return Adopted(incarnation, first)


async def _check_restored(store: MetadataStore) -> None:
    """Raise `ConfigurationError` while the marker of a restore is there."""
    with suppress(NoSuchNodeError):
        await store.get(MARKER)
        raise ConfigurationError(
            f"metadata store {store.uri}: the restore of a backup was cut short there; run "
            "`quire metadata restore` again with the same file, then adopt"
        )


async def _counter(store: MetadataStore) -> tuple[Counter, int | None]:
    try:
        found = await store.get(LEDGER_IDS)
    except NoSuchNodeError:
        return Counter(0), None
    return decode_counter(found.value), found.version


async def _highest(store: MetadataStore) -> LedgerId:
    """Return the highest ledger that the store has a record of, −1 for none."""
    for shard in reversed(await store.children(LEDGERS)):
        if ledgers := await store.children(f"{LEDGERS}/{shard}"):
            return parse_ledger(ledgers[-1])
    return -1
