"""The question of the doors: whether a peer may make a call.

It is decided once for each peer, action and ledger.

A decision is remembered until the table changes, so a stream of runs costs one look into a dict for
each run, and a right that was taken away ends a stream that is open. Denials are counted, and
written to the log `quire.audit` with identity, action and scope.

Invariants: at most `DECISIONS_MAX` decisions are remembered. Each (identity, action) is logged at
most once in `LOG_SECONDS`, with the number of denials since.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from quire.aio.timing import time_limit
from quire.entry import LedgerId
from quire.errors import (
    BookieUnavailableError,
    InvalidRequestError,
    LedgerRetiredError,
    NoSuchNodeError,
    NotPermittedError,
    QuireError,
)
from quire.metastore.store import MetadataStore
from quire.rights.decide import Decision, Verdict, decide, may_somewhere
from quire.rights.ledger_logs import LedgerLogs
from quire.rights.roles import Action
from quire.rights.scopes import CLUSTER, Scope
from quire.rights.watch import RightsWatch
from quire.wire.identity import Identity

DECISIONS_MAX: Final = 65_536
LOG_SECONDS: Final = 10.0
LOGGED_MAX: Final = 1024
"""So many identities and actions are remembered with the time of their last line."""

LOOK_UP_SECONDS: Final = 1.0
"""How long a call waits for the record of its ledger."""

_audit = logging.getLogger("quire.audit")


class Denials:
    """The denials of one server since its start."""

    def __init__(self) -> None:
        self.counts: Counter[Action] = Counter()
        self._said: dict[tuple[Identity, Action], tuple[float, int]] = {}
        """When each was logged last, and how many were not logged since."""

    def note(self, identity: Identity, action: Action, scope: Scope, decision: Decision) -> None:
        """Count a denial, and log it unless the same was logged a moment ago."""
        self.counts[action] += 1
        now, key = asyncio.get_running_loop().time(), (identity, action)
        at, unsaid = self._said.pop(key, (-LOG_SECONDS, 0))
        if now - at < LOG_SECONDS:
            self._said[key] = (at, unsaid + 1)
            return
        if len(self._said) >= LOGGED_MAX:
            del self._said[next(iter(self._said))]
        self._said[key] = (now, 0)
        why = "no rule allows it" if decision.rule is None else f"a rule: {decision.rule}"
        _audit.warning(
            "denied %s to %s on %s (%s); %d more since the last line",
            *(action, identity, scope, why, unsaid),
            extra={
                "audit": 1,
                "identity": str(identity),
                "action": str(action),
                "scope": str(scope),
                "denied": unsaid + 1,
            },
        )


class Guard:
    """Decides by the newest table of one process."""

    def __init__(
        self,
        watch: RightsWatch,
        log_of: Callable[[LedgerId], Awaitable[str | None]],
        server: str = "the server",
    ) -> None:
        """`log_of` is `LedgerLogs.log_of`; `server` is the bookie that decides."""
        self.denials = Denials()
        self._watch = watch
        self._log_of = log_of
        self._server = server
        self._table = watch.table
        self._decided: dict[tuple[Identity, Action, LedgerId | None], tuple[Scope, Decision]] = {}

    def admits(self, identity: Identity, action: Action, ledger: LedgerId | None = None) -> bool:
        """Return whether a call is known to be permitted; False may mean that it must be asked."""
        if self._watch.table is None:
            return True
        found = self._remembered(identity, action, ledger)
        return found is not None and found[1].is_allowed

    async def check(
        self, identity: Identity, action: Action, ledger: LedgerId | None = None
    ) -> None:
        """Return when a call is permitted.

        Raises:
            NotPermittedError: it is denied.
            LedgerRetiredError: a read of a ledger without a record: it was deleted.
            BookieUnavailableError: the store cannot say which log the ledger belongs to.
        """
        found = self._remembered(identity, action, ledger)
        scope, decision = found or await self._decide(identity, action, ledger)
        if not decision.is_allowed:
            self._deny(identity, action, scope, decision)

    async def _decide(
        self, identity: Identity, action: Action, ledger: LedgerId | None
    ) -> tuple[Scope, Decision]:
        table = self._watch.table
        scope = CLUSTER if ledger is None else Scope(ledger=ledger, is_log_known=False)
        decision = decide(identity, action, scope, table)
        if decision.verdict is Verdict.DEPENDS:
            assert ledger is not None, "only the log of a ledger can be unknown"
            found = await self._scope_of(ledger)
            if found is None:
                if action is Action.READ:  # the client reads the record, too, and finds it gone
                    raise LedgerRetiredError(ledger)
                return Scope(ledger=ledger), Decision(Verdict.DENIED)
            scope, decision = found, decide(identity, action, found, table)
        if table is self._watch.table:  # it may have changed while the log was looked up
            if len(self._decided) >= DECISIONS_MAX:
                self._decided.clear()
            self._decided[identity, action, ledger] = scope, decision
        return scope, decision

    def check_log(self, identity: Identity, action: Action, log: str | None) -> None:
        """Return when a call about a log, or about the cluster, is permitted.

        Raises `NotPermittedError` when it is denied.
        """
        scope = Scope(log=log)
        decision = decide(identity, action, scope, self._watch.table)
        if not decision.is_allowed:
            self._deny(identity, action, scope, decision)

    def recheck(self, identity: Identity, action: Action, log: str) -> Callable[[], None]:
        """Return a check for a call that goes on for long: it decides again once the table has
        changed. Raises as `check_log`.
        """
        seen = self._watch.table

        def check() -> None:
            nonlocal seen
            if seen is not self._watch.table:
                self.check_log(identity, action, log)
                seen = self._watch.table

        return check

    def may(self, identity: Identity, action: Action, log: str) -> bool:
        """Return whether a call about a log would be permitted; no denial is counted."""
        return decide(identity, action, Scope(log=log), self._watch.table).is_allowed

    def may_somewhere(self, identity: Identity, action: Action) -> bool:
        """Return whether an action is permitted on the cluster, or on some logs; no denial is
        counted.
        """
        return may_somewhere(identity, action, self._watch.table)

    def _deny(self, identity: Identity, action: Action, scope: Scope, decision: Decision) -> None:
        self.denials.note(identity, action, scope, decision)
        raise NotPermittedError(str(identity), str(action), str(scope))

    async def _scope_of(self, ledger: LedgerId) -> Scope | None:
        """Return the scope of a ledger with its log; None for a ledger without a record."""
        try:
            async with time_limit(LOOK_UP_SECONDS):
                return Scope(await self._log_of(ledger), ledger)
        except (NoSuchNodeError, InvalidRequestError):  # not created yet, deleted, or impossible
            return None
        except (QuireError, TimeoutError) as error:
            reason = f"it cannot find the log of ledger {ledger}: {error or 'no answer in time'}"
            raise BookieUnavailableError(self._server, reason) from error

    def _remembered(
        self, identity: Identity, action: Action, ledger: LedgerId | None
    ) -> tuple[Scope, Decision] | None:
        if self._table is not self._watch.table:
            self._table = self._watch.table
            self._decided.clear()
        return self._decided.get((identity, action, ledger))


@asynccontextmanager
async def guarding(store: MetadataStore, server: str = "the server") -> AsyncIterator[Guard]:
    """Have a guard in the block, which follows the table of a cluster.

    Raises the store's errors and `CorruptRecordError`: nothing is served without rights that are
    known.
    """
    watch = RightsWatch(store)
    await watch.look()
    watch.start()
    try:
        yield Guard(watch, LedgerLogs(store).log_of, server)
    finally:
        await watch.close()
