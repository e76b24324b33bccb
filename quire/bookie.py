"""Port 1: the promises of a storage server, in this process or remote.

The storage node implements this; so do the gRPC stub, the simulator's lossy link, and the reference
in `quire/testing/bookie.py`. Ledger code holds a `Bookie` and cannot tell which. One
contract suite (`tests/contract/bookie`) runs over all of them.

Law, for every implementation (docs/protocol.md, "Bookie"):

  B1  A fence is permanent and survives any restart.
  B2  An acknowledged add is durable; a `deferred` add is durable once `sync` names it.
  B3  A bookie that vouched for an entry so never answers "no such entry" for it.
  B5  The first key a bookie sees for a ledger is the ledger's key permanently.
  B6  After any answer to a fencing request left, no ordinary add to that ledger is accepted; and no
      answer to a fencing request, positive or negative, leaves before key and fence are durable.

A bookie of another system may lack some of this: it may say None for facts and fences, and vouch
in `sync` without a look at key and fence. The contract suite names each of these as a capability,
and tests what holds without it.

Every method may raise `BookieUnavailableError` (from a link), `UnauthorizedError` where a key is
given, and `InvalidRequestError` for a request that no client of quire sends. Cancelling a call
abandons its answer; the work may still be done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from quire.entry import ENTRY_MAX, NO_ENTRY, BookieId, EntryId, LedgerId
from quire.errors import (
    InvalidRequestError,
    LedgerDisownedError,
    LedgerRetiredError,
    NoSuchEntryError,
    NoSuchLedgerError,
    QuireError,
)
from quire.labels import NOWHERE, Labels
from quire.outline import Outline

READ_BYTES_MAX: Final = 1024 * 1024
"""Default bound on the bytes of one read's answer; a first frame that is larger is sent alone."""

READ_ANSWER_BYTES_MAX: Final = 4 * READ_BYTES_MAX
"""Largest bound that a bookie accepts; a larger one counts as this."""


QUIRE: Final = "quire"
"""The protocol of quire's bookies: gRPC, and plain frames for runs."""


@dataclass(frozen=True, slots=True)
class LedgerTail:
    """The end of a ledger as one bookie knows it.

    `frame` is the entry with the highest id it holds and `lac_packet` the highest explicit LAC it
    was given; both are unverified bytes that the client checks. `hint` is the highest LAC in
    anything the bookie holds, read from headers without verification: good for deciding whether to
    wake, never for deciding which entries are confirmed. A ledger the bookie never saw has neither
    frame nor packet. `fenced` is None where a bookie cannot tell.
    """

    frame: bytes | None = None
    lac_packet: bytes | None = None
    hint: EntryId = NO_ENTRY
    fenced: bool | None = False


class UseKind(StrEnum):
    """The work of a connection with a ledger."""

    WRITES = "writes"
    RECOVERS = "recovers"
    FOLLOWS = "follows"
    READS = "reads"


class LedgerUse(NamedTuple):
    """A connection that uses a ledger, as one bookie knows it."""

    ledger: LedgerId
    kind: UseKind
    peer: str
    """The other end of the connection, after its identity if it has one."""
    idle_seconds: float
    """Since its last answered call; 0 while it waits for entries."""


class LedgerUses(NamedTuple):
    """The uses of a bookie's ledgers: the latest ones, and how many more there are."""

    uses: tuple[LedgerUse, ...] = ()
    left_out: int = 0


NO_USES: Final = LedgerUses()


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """A bookie's own description of itself: identity, whether it takes new entries, bytes of disk.

    `in_limbo` counts the ledgers with entries that the bookie may have lost and has not restored.
    Facts that a bookie cannot tell are None.
    """

    bookie: BookieId
    writable: bool
    disk_free_bytes: int
    disk_total_bytes: int
    ledgers: int | None
    in_limbo: int | None = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    """What its storage did since the start, by name (docs/operations.md, "Counters")."""
    highest: LedgerId | None = None
    """The highest ledger that it has entries of or dropped, −1 for none; None if it cannot tell."""
    in_use: LedgerUses = NO_USES
    """The connections that use its ledgers, as its server knows them."""


QUIRE_TLS: Final = "quire+tls"
"""The same inside TLS, at a bookie that takes no other connections."""


class TlsPorts(NamedTuple):
    """Where a bookie takes connections with TLS, beside its ports without."""

    address: str
    """host:port"""
    runs: str | None = None
    """host:port for runs as plain frames; None where they go through gRPC."""


@dataclass(frozen=True, slots=True)
class BookieAddress:
    """A registered bookie: its id and its address."""

    bookie: BookieId
    address: str
    """host:port"""
    writable: bool = True
    runs: str | None = None
    """host:port that takes runs as plain frames; None where they go through gRPC."""
    says_hello: bool = False
    """Whether a connection for runs begins with a hello from both sides."""
    labels: Labels = NOWHERE
    room: int = 0
    """Bytes free on its disk, coarsely and not quite of now; 0 if the registration has none."""
    protocol: str = QUIRE
    """The protocols that it speaks. A client chooses its link by it."""
    tls: TlsPorts | None = None
    """More ports, for the time of a roll-out of TLS."""


class Stride(NamedTuple):
    """Which entries of a fragment a bookie should hold: those at its position of the ensemble."""

    ensemble: int
    write_quorum: int
    position: int

    @property
    def gives_all(self) -> bool:
        """Whether every entry is written to every position."""
        return self.write_quorum >= self.ensemble

    def gives(self, entry: EntryId) -> bool:
        """Return whether an entry is written to the position."""
        return (self.position - entry) % self.ensemble < self.write_quorum


class Bookie(Protocol):
    """One storage server."""

    def add(
        self,
        ledger: LedgerId,
        key: bytes,
        run: bytes,
        *,
        recovery: bool = False,
        deferred: bool = False,
    ) -> Awaitable[None]:
        """Store the frames of a run; answers when all of them are durable.

        The result may be a future: a link or a bookie that can take a run in at once needs
        no task for it. The call itself raises nothing.

        With `deferred` it answers when they are accepted: a crash may lose them, and until they are
        durable no client can read them. `sync` names the durable ones.

        Calls made in order on one `Bookie` are carried out in order. Adding the same frames again
        is harmless. With `recovery` a fence is ignored and an entry already held is replaced by the
        new frame (recovery re-seals headers).

        Raises `LedgerFencedError` when the ledger is fenced and `recovery` is false,
        `ReadOnlyBookieError` and `BookieBusyError`. After an error none, some or all frames may be
        stored.
        """
        ...

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        """Return, as a run, the entries held with first ≤ id ≤ last, cut at `bytes_max`.

        Entries that are missing between the ids returned are not held, which denies nothing: they
        may have been lost, and a client that must know asks for one entry alone. At least one frame
        is returned. With `fence_key` the ledger is fenced first, durably, before any answer leaves.

        `stride` says which of the entries the bookie should hold. A bookie that looks entries up
        one by one may leave out others, unless it is asked for one alone. quire's bookies ignore
        it.

        Raises:
            NoSuchEntryError: the bookie holds none of first..`through` *and* cannot have lost any.
                It says nothing about entries after `through`, which may be below `last`.
            NoSuchLedgerError: likewise for all entries: the ledger was never seen.
            LedgerRetiredError: the ledger was deleted and dropped. It denies nothing.
            LedgerDisownedError: the ledger was given to another bookie. It denies nothing.
            EntryUnknownError: the bookie may have lost `first`.
            CorruptEntryError: its copy is damaged. It names the first requested entry that may be
                damaged.
        """
        ...

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        """Return the ledger's end as the bookie knows it, fencing the ledger first if asked.

        Raises `EntryUnknownError` when the bookie may have lost entries or a fence of this ledger,
        `LedgerRetiredError` and `LedgerDisownedError` as `read`.
        """
        ...

    async def wait_tail(self, ledger: LedgerId, above: EntryId, timeout: float) -> LedgerTail:
        """Return once `hint` exceeds `above`, the ledger is fenced, or `timeout` seconds went by.

        A ledger the bookie never saw is waited for as well. Never fences.
        """
        ...

    async def write_lac(self, ledger: LedgerId, key: bytes, packet: bytes) -> None:
        """Remember an explicit LAC and wake waiting reads. Not journaled; the highest one wins.

        Raises `LedgerFencedError` when the ledger is fenced.
        """
        ...

    async def sync(
        self, ledger: LedgerId, key: bytes, first: EntryId, last: EntryId
    ) -> list[tuple[EntryId, EntryId]]:
        """Make everything accepted for a ledger durable, then return the ids first ≤ id ≤ last
        held, as ascending, disjoint, inclusive (first, last) ranges.

        The bookie names the entries it holds instead of saying "done", so that a bookie that
        restarted after a deferred add cannot vouch for lost entries. Raises `LedgerFencedError`
        when the ledger is fenced: every entry named was accepted before any fence. Raises
        `CorruptEntryError` when a copy that must be looked at is damaged.
        """
        ...

    async def list_entries(
        self, ledger: LedgerId, first: EntryId = 0
    ) -> list[tuple[EntryId, EntryId]]:
        """Return the ids held from `first` on as ascending, disjoint, inclusive (first, last)
        ranges, complete up to the last of them.

        An answer that takes long to compute, or fills a message, is cut: the next call goes on
        after the last range (`list_all`). Nothing is returned only when nothing is held from
        `first` on. Raises
        `CorruptEntryError` when the next copy that must be looked at is damaged.
        """
        ...

    async def list_ledgers(self, first: LedgerId = 0) -> list[tuple[LedgerId, LedgerId]]:
        """Return the ids from `first` on of ledgers with at least one entry held, as ascending,
        disjoint, inclusive (first, last) ranges, complete up to the last of them.

        An answer that fills a message is cut: the next call goes on after the last range
        (`list_all`).
        """
        ...

    async def outlines(self, ledgers: Sequence[LedgerId]) -> list[Outline | None]:
        """Return the outlines of some ledgers (`OUTLINES_MAX` at most), in their order: which
        entries are held, in three numbers. None where only `list_entries` tells.

        Reads nothing from the disk. A ledger that the bookie never saw has no entries.
        """
        ...

    async def info(self) -> BookieInfo:
        """Return the bookie's account of itself."""
        ...


class Meaning(StrEnum):
    """What an answer without entries says about the entries asked for."""

    ABSENT = "absent"
    """The bookie holds none of them, and cannot have lost any."""
    RETIRED = "retired"
    """It dropped the ledger because it was deleted. Metadata tells whether that is true."""
    DISOWNED = "disowned"
    """It gave the ledger to another bookie."""
    UNKNOWN = "unknown"
    """Nothing: it may have lost them, or the answer is about something else."""


class Denial(NamedTuple):
    """An answer without entries: what it says about first..through. Only ABSENT denies them."""

    meaning: Meaning
    first: EntryId
    through: EntryId


def read_denial(error: QuireError, first: EntryId, last: EntryId) -> Denial:
    """Return what an error of `Bookie.read` says about the entries asked for. Pure.

    Absence reaches as far as the bookie says, and never past `last`: the bookie was not asked about
    later entries. A denial that leaves `first` out is the answer to another question.
    """
    match error:
        case LedgerRetiredError():
            return Denial(Meaning.RETIRED, first, last)
        case LedgerDisownedError():
            return Denial(Meaning.DISOWNED, first, last)
        case NoSuchLedgerError():
            return Denial(Meaning.ABSENT, first, last)
        case NoSuchEntryError(entry=denied, through=through) if denied <= first <= through:
            return Denial(Meaning.ABSENT, first, min(through, last))
    return Denial(Meaning.UNKNOWN, first, first)


async def list_all(
    ask: Callable[[EntryId], Awaitable[list[tuple[EntryId, EntryId]]]],
    first: EntryId = 0,
    last: EntryId = ENTRY_MAX,
) -> list[tuple[EntryId, EntryId]]:
    """Return the ids held from `first` to `last`, and perhaps some above, as one list.

    `ask` is `Bookie.list_entries` of one ledger, or `Bookie.list_ledgers`, and is called with
    the id to go on at. Errors of `ask` are raised.
    """
    found: list[tuple[EntryId, EntryId]] = []
    while first <= last and (piece := await ask(first)):
        if found and piece[0][0] == found[-1][1] + 1:
            piece = [(found.pop()[0], piece[0][1]), *piece[1:]]
        found += piece
        first = found[-1][1] + 1
    return found


def check_range(first: EntryId, last: EntryId) -> None:
    """Raise `InvalidRequestError` for entries that are not a range."""
    are_numbers = type(first) is int and type(last) is int
    if not are_numbers or not 0 <= first <= last:
        raise InvalidRequestError(
            f"entries {first!r} to {last!r} are not a range: expected 0 <= first <= last"
        )


def refused(error: Exception) -> asyncio.Future[None]:
    """Return what `Bookie.add` answers when it refuses a run at once."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer.set_exception(error)
    return answer
