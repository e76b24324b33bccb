"""A client of a cluster: every call of an application. `connect` (connection.py) makes it.

A `Client` does nothing itself: it forwards to the catalog (client_ledgers.py), the log directory
(client_logs.py) and the election, and remembers the handles it opened, so that none outlives it.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from quire.aio.home import at_home
from quire.checked import given_or_default
from quire.client_logs import LogClient
from quire.election.election import Election
from quire.leading import LeadingLog, Turn
from quire.leaving import OpenHandles, Stage
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.options import LedgerOptions
from quire.ledger.roster import BookieRoster
from quire.log.directory import LogDirectory
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions
from quire.metastore.store import MetadataStore
from quire.service import Application, Service, ServiceOptions
from quire.service.service import R

SESSION_SECONDS: Final = 6.0
"""Default seconds without a heartbeat after which a leader loses its leadership."""


_CLOSED: Final = contextlib.nullcontext()
"""The scope of a client that was closed."""


@at_home
class Client(LogClient):
    """A connection to one cluster. `connect` creates it.

    A client belongs to the event loop that created it, and any number of tasks of that loop may
    use it. A method that talks to the metadata store may raise `StoreUnavailableError` (the store
    changed nothing) or `StoreOutcomeUnknownError` (it may have). A handle that a method returns is
    closed at the latest when the block of `connect` ends.

    Cancellation: cancelling a call gives up waiting for it. The requested change may still happen,
        as after any lost answer.
    """

    def __init__(
        self,
        store: MetadataStore,
        roster: BookieRoster,
        catalog: LedgerCatalog,
        logs: LogDirectory,
        rng: random.Random,
        options: LedgerOptions,
        handles: OpenHandles,
    ) -> None:
        super().__init__(store, roster, catalog, logs, options, handles)
        self._scope: AbstractAsyncContextManager[object] | None = None
        self._rng = rng

    def _own(self, scope: AbstractAsyncContextManager[object]) -> None:
        """Used by `connect`: let `close` leave the scope of this client."""
        self._scope = scope

    def lead_log(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        election: str | None = None,
        candidate: str | None = None,
        session_timeout: float = SESSION_SECONDS,
    ) -> LeadingLog:
        """Lead a log whenever this process is elected: `async with` it in a loop.

            while True:
                async with client.lead_log("board") as log:
                    await log.append(b"...")

        Entering the block waits for the election and takes the log over. Bookies or a store that
        are away are tried again, with a warning. When the leadership is lost the block is
        interrupted as by `asyncio.timeout`, the loss is logged, and the loop goes on. When the
        block ends, by `break` for example, the log is closed and another candidate can lead.

        Begin the block by reading the log: appends of the last turn that had no answer may be
        there.

        Args:
            name: the log's name.
            options: options of this leader; None for the defaults.
            election: the election's name; by default the log's name.
            candidate: the name that other candidates see; by default host and process id.
            session_timeout: seconds without a heartbeat after which a leader loses its leadership.

        Returns:
            A context manager for one turn. Call `lead_log` again for the next turn.

        Raises:
            HandleClosedError: the client was closed.
            UnauthorizedError, DecryptionError, LogSealedError, LogFullError, ConfigurationError:
                on entering; waiting does not mend it. `open_log` has the conditions.
            OutcomeUnknownError, RetryError: the block ended in order, and its log could not be
                closed: submitted records may be unconfirmed.

        Cancellation: while it waits, gives up the place in the queue. In the block, closes the log
            and resigns.

        Guarantees: an error is swallowed only if the leadership is lost and the error says so
            (`OutcomeUnknownError`, `LeadershipLostError`, `SessionExpiredError`, or a group of
            them). The log is closed before the leadership ends, so the successor needs no recovery.
        """
        options = given_or_default(options, LogOptions)
        stands = self.election(election or name, candidate, session_timeout=session_timeout)

        async def open_log(is_leader: Callable[[], bool]) -> Log:
            return await self.open_log(name, options, is_leader=is_leader)

        return LeadingLog(Turn(stands, open_log, self._rng))

    def election(
        self, name: str, candidate: str | None = None, *, session_timeout: float = SESSION_SECONDS
    ) -> Election:
        """Return an election, to stand in it or to watch it.

        Args:
            name: the election's name.
            candidate: the name that other candidates see; by default host and process id.
            session_timeout: seconds without a heartbeat after which a leader loses its leadership.

        Returns:
            The election. It is not entered yet.

        Guarantees: docs/protocol.md, "Election".
        """
        who = candidate or f"{socket.gethostname()}:{os.getpid()}"
        election = Election(
            *(self._store, name, who),
            rng=self._rng,
            session_timeout=session_timeout,
            meter=self._handles.meter,
        )
        return self._handles.remember(election, Stage.ELECTION)

    def service(
        self,
        name: str,
        application: Application[R],
        candidate: str | None = None,
        *,
        options: ServiceOptions | None = None,
        session_timeout: float = SESSION_SECONDS,
    ) -> Service[R]:
        """Return one replica of a service around a deterministic state machine: `async with` it.

        Args:
            name: the name of the service, its log and its election.
            application: the state machine.
            candidate: the name that other replicas see, such as the address of this replica.
            options: options of the replica; None for the defaults.
            session_timeout: seconds without a heartbeat after which a leader loses its leadership.

        Returns:
            The replica. It starts when its block is entered.

        Guarantees: docs/protocol.md, "Replicated service".
        """
        service = Service(
            application,
            self.election(name, candidate, session_timeout=session_timeout),
            self._logs,
            self._catalog,
            self._store,
            given_or_default(options, ServiceOptions),
        )
        return self._handles.remember(service, Stage.SERVICE)

    async def close(self) -> None:
        """Close every handle that is still open, in order.

        A client that `await quire.connect(…)` returned ends with this call, as with its block. In a
        block the client goes on.

        Raises:
            OutcomeUnknownError: submitted records could not be confirmed.
            RetryError: a writer could not be closed.

        Cancellation: abandons the writers that are not closed yet. A second call does nothing.
        """
        if self._scope is None:
            await self._handles.close()
        else:
            scope, self._scope = self._scope, _CLOSED
            await scope.__aexit__(None, None, None)
