"""Asking a ledger's last ensemble for its tail until every write set is covered.

One question serves two callers: recovery asks it with the fence, a reader without. All bookies are
asked at once and the answer is there as soon as coverage is, so that a hung bookie delays only a
caller that needs it.
"""

from __future__ import annotations

from collections.abc import Callable

from quire.bookie import LedgerTail
from quire.entry import BookieId, EntryId, Sealer
from quire.errors import LedgerRetiredError, NotPermittedError, RefusedError, UnreadableError
from quire.ledger.metadata import LedgerMetadata
from quire.ledger.quorum_call import QuorumCall, retry_transient, within
from quire.ledger.recovery_plan import start_of_recovery
from quire.ledger.roster import Bookies
from quire.ledger.verify import unverified_entry, verified_lac


async def covered_lac(
    bookies: Bookies,
    sealer: Sealer,
    metadata: LedgerMetadata,
    timeout: float,
    fence_key: bytes | None = None,
) -> EntryId:
    """Return a confirmed entry that is at or above every LAC announced before the call.

    With `fence_key` each bookie that answered is fenced. One bookie is given `timeout` seconds.

    Raises `UnreadableError` when too many bookies give no usable answer, `LedgerRetiredError` when
    one of them dropped the ledger as deleted, `NotPermittedError` when one denies it, and another
    `RefusedError` when each of them refuses this program.
    """

    def prove(tail: LedgerTail) -> EntryId | None:
        return verified_lac(sealer, tail)

    return await _covered(bookies, metadata, timeout, fence_key, prove)


async def covered_end(
    bookies: Bookies, sealer: Sealer, metadata: LedgerMetadata, timeout: float
) -> EntryId:
    """Return an entry at or above every entry that was acknowledged before the call.

    An acknowledged entry is held by an ack quorum, and the bookies asked meet every ack quorum. The
    result may be above LAC and, until it is confirmed, vanish. Raises as `covered_lac`.
    """

    def prove(tail: LedgerTail) -> EntryId | None:
        lac = verified_lac(sealer, tail)
        if lac is None or tail.frame is None:
            return lac
        return max(lac, unverified_entry(tail.frame))

    return await _covered(bookies, metadata, timeout, None, prove)


async def _covered(
    bookies: Bookies,
    metadata: LedgerMetadata,
    timeout: float,
    fence_key: bytes | None,
    prove: Callable[[LedgerTail], EntryId | None],
) -> EntryId:
    async def ask(bookie: BookieId) -> LedgerTail:
        return await bookies.bookie(bookie).read_tail(metadata.ledger, fence_key=fence_key)

    async def insist(bookie: BookieId) -> LedgerTail:
        return await within(timeout, bookie, retry_transient(lambda: ask(bookie)))

    tails: dict[int, EntryId | None] = {}
    refusals: list[RefusedError] = []
    async with QuorumCall[int, LedgerTail]() as asking:
        for position, bookie in enumerate(metadata.last_fragment.bookies):
            asking.ask(position, insist(bookie))
        while asking.outstanding:
            position, tail = await asking.next()
            if isinstance(tail, LedgerRetiredError | NotPermittedError):
                raise tail
            if isinstance(tail, RefusedError):
                refusals.append(tail)
            tails[position] = prove(tail) if isinstance(tail, LedgerTail) else None
            lac = start_of_recovery(metadata.replication, metadata.last_fragment, tails)
            if lac is not None:
                return lac
    if refusals and len(refusals) == len(tails):
        raise refusals[0]
    usable = sum(lac is not None for lac in tails.values())
    raise UnreadableError(
        metadata.ledger,
        metadata.last_fragment.first,
        f"{usable} of {len(tails)} bookies of the last ensemble gave a usable answer about its end",
    )
