"""A replica sender: the frames sent to one ensemble position, and its acknowledgements.

A sender is a cursor into the backlog and a short queue of runs under way. All frames after the
cursor go as one run as soon as fewer than `runs_outstanding_max` are under way: a batch is the
frames that arrived while others travelled, without a timer. A run is acked to the owner only when
all runs before it are, so the owner's watermark has no holes. A busy bookie is asked again; any
other failure is reported once and takes the sender down.

    UP ──failure──→ DOWN ──revive──→ PROBING ──ack──→ UP
                      ↑──────failure────┘

A probing sender sends one run and delays no other sender: it skips entries confirmed meanwhile.

With deferred sync an ack means "accepted"; `sync` has the bookie name the entries that are durable.

Not here: the coroutines of its calls (sender_calls.py), deciding about a failure, deadlines (the
owner compares `oldest` with its clock), and choosing replacements. A sender belongs to one bookie;
a replaced position gets a new sender.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Protocol

from quire.aio.tasks import Tasks
from quire.bookie import Bookie, refused
from quire.entry import BookieId, EntryId, LedgerId
from quire.errors import BookieBusyError
from quire.ledger.backlog import Backlog
from quire.ledger.forcing import vouched
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.ledger.quorum_call import retry_busy, within
from quire.ledger.roster import Bookies
from quire.ledger.run_link import RunLink, run_link
from quire.ledger.sender_calls import add_again, ask, tell
from quire.wire.adds import RunEncoder


class SenderState(StrEnum):
    """Whether a sender sends."""

    UP = "up"
    PROBING = "probing"
    DOWN = "down"


class SenderOwner(Protocol):
    """The owner of a sender, called with its answers."""

    def acknowledged(self, sender: ReplicaSender, through: EntryId) -> None:
        """The sender's bookie holds all it was sent up to an entry."""
        ...

    def synced(self, sender: ReplicaSender, asked: EntryId, through: EntryId) -> None:
        """The sender's bookie was asked to vouch up to an entry, and does up to another."""
        ...

    def failed(self, sender: ReplicaSender, error: Exception) -> None:
        """The sender's bookie failed a request; the sender goes on until it is taken down."""
        ...


@dataclass(frozen=True, slots=True)
class SenderContext:
    """State shared by the senders of one writer."""

    ledger: LedgerId
    access_key: bytes
    replication: Replication
    bookies: Bookies
    backlog: Backlog
    options: LedgerOptions
    owner: SenderOwner
    tasks: Tasks
    deferred_sync: bool = False
    encoder: RunEncoder = field(init=False)
    """Of all senders: they send the same runs, as long as they keep step."""
    variables: Context = field(init=False)
    """The variables for taking answers: a stream has the answers of other writers too."""

    def __post_init__(self) -> None:
        encoder = RunEncoder(self.ledger, self.access_key, deferred=self.deferred_sync)
        object.__setattr__(self, "encoder", encoder)
        object.__setattr__(self, "variables", copy_context())


class _SentRun:
    """A run under way. A link without futures calls it with the outcome."""

    __slots__ = ("acknowledged", "answer", "data", "sender", "started", "through")

    def __init__(
        self, sender: ReplicaSender, through: EntryId, data: bytes, started: float
    ) -> None:
        self.sender = sender
        self.through = through
        self.data = data
        self.started = started
        self.answer: asyncio.Future[None] | None = None
        """None while its link tells the outcome."""
        self.acknowledged = False

    def __call__(self, error: Exception | None) -> None:
        self.sender.told(self, error)


class ReplicaSender:
    """The sender of one position, for as long as one bookie holds it."""

    __slots__ = (
        "_context",
        "_link",
        "_loop",
        "_outstanding",
        "_runs_max",
        "_syncing",
        "bookie",
        "cursor",
        "failure",
        "failures",
        "is_read_only",
        "position",
        "retry_at",
        "state",
    )

    def __init__(
        self, context: SenderContext, position: int, bookie: BookieId, first: EntryId
    ) -> None:
        """Begin up, to send from `first` on at the next `pump`."""
        self.position = position
        self.bookie = bookie
        self.cursor = first
        """The first entry not yet cut into a run."""
        self.state = SenderState.UP
        self.failures = 0
        """Failures since the last ack."""
        self.failure = ""
        """The name of the last error."""
        self.is_read_only = False
        """Whether the last failure was that the bookie takes no new entries."""
        self.retry_at = 0.0
        """Loop time when the owner revives a sender that is down."""
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._runs_max = context.options.runs_outstanding_max
        self._outstanding: deque[_SentRun] = deque()
        self._link: tuple[Bookie, RunLink | None] | None = None
        """The last link to the bookie, twice if it takes runs without futures."""
        self._syncing: asyncio.Task[None] | None = None

    @property
    def oldest(self) -> float | None:
        """Loop time when the oldest run under way was sent."""
        return self._outstanding[0].started if self._outstanding else None

    def pump(self) -> None:
        """Send waiting frames, as far as the bound on runs under way allows."""
        backlog = self._context.backlog
        pushed = backlog.pushed
        if self.cursor > pushed or self.state is SenderState.DOWN:
            return
        runs_max = 1 if self.state is SenderState.PROBING else self._runs_max
        if self.cursor < backlog.base:
            self.cursor = backlog.base  # only a probe can be late: frames wait for senders up
        while len(self._outstanding) < runs_max:
            cut = backlog.cut(self.position, self.cursor)
            if cut is None:
                return
            through, run = cut
            self.cursor = through + 1
            if run:
                self._send(through, run)
            if through == pushed:
                return

    def tell_lac(self, packet: bytes) -> None:
        """Send an explicit LAC, once; only a fence is reported."""
        context, call = self._context, partial(self._write_lac, packet)
        context.tasks.start(
            tell(call, context.options.request_timeout, self._lac_refused), f"LAC to {self.bookie}"
        )

    def sync(self, first: EntryId, last: EntryId) -> None:
        """Have the bookie vouch for its entries first..last, unless it is being asked."""
        if self._syncing is None:
            call = partial(self._call_sync, first, last)
            asking = ask(call, partial(self._synced, first, last), self._sync_failed)
            self._syncing = self._context.tasks.start(asking, f"sync of {self.bookie}")

    def take_down(self, retry_at: float) -> None:
        """Stop sending and forget the runs under way; their answers no longer count."""
        self.state = SenderState.DOWN
        self.failures += 1
        self.retry_at = retry_at
        for run in self._outstanding:
            if run.answer is not None:
                run.answer.cancel()
        self._outstanding.clear()
        if self._syncing is not None:
            self._syncing.cancel()
            self._syncing = None

    def revive(self, first: EntryId) -> None:
        """Probe a bookie that was down, from `first` on at the next `pump`."""
        assert self.state is SenderState.DOWN, f"revived while {self.state}"
        self.state = SenderState.PROBING
        self.cursor = first

    def _send(self, through: EntryId, data: bytes) -> None:
        run = _SentRun(self, through, data, self._loop.time())
        self._outstanding.append(run)
        try:
            link = self._run_link()
            if link is not None:
                link.send(self._context.encoder, data, run)
                return
            adding = self._add(run)
        except Exception as error:
            adding = refused(error)
        self._expect(run, adding)

    def _run_link(self) -> RunLink | None:
        """Return the bookie's link if it takes runs without futures."""
        bookie = self._context.bookies.bookie(self.bookie)
        if self._link is None or self._link[0] is not bookie:
            self._link = bookie, run_link(bookie)
        return self._link[1]

    def _add(self, run: _SentRun) -> Awaitable[None]:
        context = self._context
        bookie = context.bookies.bookie(self.bookie)
        return bookie.add(
            context.ledger, context.access_key, run.data, deferred=context.deferred_sync
        )

    def _expect(self, run: _SentRun, adding: Awaitable[None]) -> None:
        run.answer = self._context.tasks.keep(adding)
        run.answer.add_done_callback(partial(self._answered, run))

    def _answered(self, run: _SentRun, answer: asyncio.Future[None]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        self._settled(run, error)

    def told(self, run: _SentRun, error: Exception | None) -> None:
        """Take the outcome of a run from its link."""
        self._context.variables.run(self._settled, run, error)

    def _settled(self, run: _SentRun, error: Exception | None) -> None:
        outstanding = self._outstanding
        if run not in outstanding:
            return  # the sender was taken down: the answer came too late
        if error is None:
            run.acknowledged = True
            if outstanding[0] is run:
                self._advance()
        elif isinstance(error, BookieBusyError):
            self._expect(run, add_again(partial(self._add, run)))
        else:
            self._context.owner.failed(self, error)

    def _call_sync(self, first: EntryId, last: EntryId) -> Awaitable[list[tuple[EntryId, EntryId]]]:
        asking = retry_busy(partial(self._sync, first, last))
        return within(self._context.options.request_timeout, self.bookie, asking)

    def _sync(self, first: EntryId, last: EntryId) -> Awaitable[list[tuple[EntryId, EntryId]]]:
        context = self._context
        bookie = context.bookies.bookie(self.bookie)
        return bookie.sync(context.ledger, context.access_key, first, last)

    def _synced(self, first: EntryId, last: EntryId, held: list[tuple[EntryId, EntryId]]) -> None:
        if self._syncing is asyncio.current_task():
            self._syncing = None
            context = self._context
            through = vouched(context.replication, self.position, first, last, held)
            context.owner.synced(self, last, through)

    def _sync_failed(self, error: Exception) -> None:
        if self._syncing is asyncio.current_task():
            self._context.owner.failed(self, error)

    def _advance(self) -> None:
        """Report acks from the head of the runs under way, never past a run that is not acked."""
        outstanding = self._outstanding
        through = outstanding.popleft().through
        while outstanding and outstanding[0].acknowledged:
            through = outstanding.popleft().through
        self.failures = 0
        self.state = SenderState.UP
        self._context.owner.acknowledged(self, through)

    def _write_lac(self, packet: bytes) -> Awaitable[None]:
        context = self._context
        bookie = context.bookies.bookie(self.bookie)
        return bookie.write_lac(context.ledger, context.access_key, packet)

    def _lac_refused(self, error: Exception) -> None:
        if self.state is not SenderState.DOWN:
            self._context.owner.failed(self, error)
