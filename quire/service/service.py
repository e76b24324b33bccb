"""A service that survives its processes: primary and backups over one log.

Each process runs a `Service` around the same deterministic state machine. One is elected:

    leads      takes the log over, applies the records it missed, then: append → confirmed → apply
    follows    applies the log's records as they arrive
    lags too far, or starts without memory: restores the newest snapshot, continues from there

A replica applies a record only once it is permanently in the log, and applies records in the log's
order: every replica's state is the state after a prefix of the log. A leader that was deposed
without noticing can no longer get anything confirmed, neither a command nor the barrier that a read
waits for: reads through `barrier` are linearizable as well.

The application gets the leader's epoch with every command: it grows with every leader, so another
resource that remembers the highest one it saw can refuse a leader of the past.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from quire.aio.tasks import first_of, stop
from quire.aio.timing import time_limit
from quire.election.election import Election, Leader
from quire.election.leadership import Leadership
from quire.entry import as_bytes
from quire.errors import (
    ConflictError,
    DeposedError,
    HandleClosedError,
    LeadershipLostError,
    NoSuchLedgerError,
    OutcomeUnknownError,
    PositionTrimmedError,
    QuireError,
    RetryError,
    SessionExpiredError,
)
from quire.ledger.catalog import LedgerCatalog
from quire.log.directory import LogDirectory
from quire.log.leader.log import Log
from quire.log.records.position import BEGINNING, Appended, Position, Record
from quire.metastore.store import MetadataStore
from quire.service.application import Application, Applied, Role, ServiceOptions
from quire.service.office import Office
from quire.service.snapshots import Snapshot, Snapshots

COMMAND: Final = b"\x00"
BARRIER: Final = b"\x01"
PAUSE_SECONDS: Final = 0.2
"""Between two attempts to lead, or to restore, that failed."""

STEPPED_DOWN: Final = (
    OutcomeUnknownError,
    LeadershipLostError,
    SessionExpiredError,
    RetryError,
    ConflictError,
)
"""Errors that end a leadership; the log says what became of commands under way."""

R = TypeVar("R")


class _Defect(Exception):  # noqa: N818
    """An error of any kind that the application raised, not the log."""


class Service(Generic[R]):
    """One replica. Made by `Client.service`; `async with` starts and ends it."""

    def __init__(
        self,
        application: Application[R],
        election: Election,
        logs: LogDirectory,
        catalog: LedgerCatalog,
        store: MetadataStore,
        options: ServiceOptions,
    ) -> None:
        self._application = application
        self._election = election
        self._logs = logs
        self._options = options
        self._snapshots = Snapshots(store, catalog, election.name, options.log)
        self._role = Role.FOLLOWER
        self._role_changed = asyncio.Event()
        self._log_id: str | None = None
        self._next = BEGINNING
        self._offset = 0
        self._snapshot_offset = 0
        self._office: Office[list[R]] | None = None
        self._resign = asyncio.Event()
        self._heir: str | None = None
        self._has_named: bool | None = None
        """Whether the last hand-over named the successor; None before the log is closed."""
        self._failure: BaseException | None = None
        self._is_told = False
        """Whether a call has raised the failure."""
        self._main: asyncio.Task[None] | None = None
        self._snapshotting: asyncio.Task[None] | None = None

    # For the application's server.

    def __repr__(self) -> str:
        return f"<{self._title}: {self._role}, {self.applied} applied>"

    @property
    def role(self) -> Role:
        """The present role of this replica."""
        return self._role

    @property
    def epoch(self) -> int | None:
        """The epoch under which this replica leads, None when it does not."""
        return self._office.log.epoch if self._office is not None else None

    @property
    def applied(self) -> int:
        """How many records of the log this replica's state contains."""
        return self._offset

    async def leader(self) -> Leader | None:
        """Return the leader; its candidate name can be an address to send clients to.

        Returns:
            The leader's name and epoch; None before a replica has led.

        Raises:
            QuireError: as `Election.leader`.

        Cancellation: ends the call only: nothing is changed.
        """
        return await self._election.leader()

    async def submit(self, command: bytes) -> R:
        """Carry a command out and return its result, once it is permanently in the log.

        Args:
            command: the bytes for `Application.apply`.

        Returns:
            The result of `Application.apply`.

        Raises:
            LeadershipLostError: this replica does not lead. Nothing was done.
            OutcomeUnknownError: the command may or may not be carried out.

        Cancellation: does not recall the command.

        Guarantees: docs/protocol.md, "Replicated service".
        """
        try:
            return (await self._leading().submit(COMMAND + command))[0]
        except Exception as error:
            self._is_told = self._is_told or error is self._failure
            raise

    async def barrier(self) -> None:
        """Return when the state contains every command that was answered before this call.

        It costs one record.

        Raises:
            QuireError: as `submit`.

        Cancellation: ends the waiting only.

        Guarantees: a read of the application's state right after it is linearizable.
        """
        await self._leading().submit(BARRIER)

    async def hand_over(self, candidate: str | None = None) -> bool:
        """Resign in favour of a candidate, or of the next; return when another may lead.

        Args:
            candidate: the name of a replica; None for the next in the queue.

        Returns:
            False if no such candidate stands, or could be named. Then the first in the queue
            follows.

        Raises:
            LeadershipLostError: this replica does not lead, or ceased to before the log was closed.

        Cancellation: the replica may resign all the same.

        Guarantees: everything submitted is confirmed first and the log is closed, so the successor
            needs no recovery.
        """
        self._leading()
        self._heir, self._has_named = candidate, None
        self._resign.set()
        has_named = await self._left_office()
        if has_named is None:
            raise LeadershipLostError(self._election.name, "it ended before the log was closed")
        return has_named

    async def _left_office(self) -> bool | None:
        while self._office is not None:
            await self._wait_role()
        return self._has_named

    async def wait_role(self, role: Role) -> None:
        """Return when this replica has a role.

        Args:
            role: the role to wait for.

        Raises:
            QuireError: the error that ended the service; also an error of the application.

        Cancellation: ends the waiting only.
        """
        while self._role is not role:
            if self._role is Role.STOPPED:
                raise self._ending_error() or HandleClosedError(self._title)
            await self._wait_role()

    async def _wait_role(self) -> None:
        self._role_changed.clear()
        await self._role_changed.wait()

    def _set_role(self, role: Role) -> None:
        self._role = Role.STOPPED if self._role is Role.STOPPED else role
        self._role_changed.set()

    # Its life.

    async def __aenter__(self) -> Self:
        if self._main is not None:
            raise HandleClosedError(f"{self._title}, which is entered once,")
        self._main = asyncio.create_task(self._live(), name=f"service {self._election.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End this replica; a leader hands over first. A second call does nothing more.

        Raises:
            QuireError: the error that had ended the replica before; also an error of the
                application.

        Cancellation: the replica ends without handing over: the next leader recovers the log.
        """
        if self._main is None:
            return
        try:
            is_whole = self._failure is None and not self._main.cancelling()
            if self._office is not None and is_whole:
                with suppress(QuireError, TimeoutError):
                    async with time_limit(self._options.log.open_timeout):
                        await (self._left_office() if self._resign.is_set() else self.hand_over())
        finally:
            await stop(self._main)
            self._set_role(Role.STOPPED)
        if (failure := self._ending_error()) is not None:
            raise failure

    def abandon(self) -> None:
        """End this replica as a crash would: a leader does not hand over.

        `close` then waits for the end.
        """
        if self._main is not None:
            self._main.cancel()

    @property
    def _title(self) -> str:
        """The service's name, for messages."""
        return f"service {self._election.name!r}"

    @property
    def has_ended(self) -> bool:
        """Whether this replica does not run: it was never entered, or closed, or it failed."""
        return self._main is None or self._main.done()

    @property
    def _untold(self) -> str | None:
        """The error that ended this replica, if no call has raised it yet."""
        if self._failure is None or self._is_told:
            return None
        return str(self._failure) or repr(self._failure)

    def _ending_error(self) -> BaseException | None:
        """Return what ended this replica, for a call that raises it."""
        self._is_told = True
        return self._failure

    async def _live(self) -> None:
        while True:
            following = asyncio.create_task(self._follow(), name="follower")
            try:
                async with self._election.lead() as leadership:
                    await stop(following)
                    await self._lead(leadership)
            except STEPPED_DOWN as error:
                logging.getLogger(__name__).info("%s steps down: %s", self._election.name, error)
                await asyncio.sleep(PAUSE_SECONDS)
            except Exception as error:
                self._failure = self._failure or _cause(error)
                self._set_role(Role.STOPPED)
                return
            finally:
                await stop(following)
                self._set_role(Role.FOLLOWER)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        if self._main is not None:
            self._main.cancel()
        self._set_role(Role.STOPPED)

    # Following.

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_on(follow=True)
                return
            except STEPPED_DOWN:
                await asyncio.sleep(PAUSE_SECONDS)
            except Exception as error:
                self._fail(_cause(error))
                return

    async def _read_on(self, *, follow: bool) -> None:
        """Apply the log's next records; restore a snapshot if they were trimmed."""
        while True:
            await self._restore()
            # `BEGINNING` would be where the log begins, trimmed or not: at its very end, perhaps.
            start = self._offset if self._next == BEGINNING else self._next
            reader = await self._logs.read(
                self._election.name,
                start,
                follow=follow,
                wait_for_log=follow,
                password=self._options.log.password,
                keyring=self._options.log.keyring,
                log_id=self._log_id,
            )
            try:
                async with reader:
                    async for record in reader:
                        self._log_id = reader.log_id
                        self._apply_record(record)
                return
            except PositionTrimmedError:
                if (snapshot := await self._snapshots.newest()) is None:
                    raise
                if snapshot.offset <= self._offset:
                    raise

    async def _restore(self) -> None:
        """Restore the newest snapshot if it is ahead of our state.

        Raises `NoSuchLedgerError` when its ledger is gone, and it is not because of a newer one.
        """
        missing: Snapshot | None = None
        while (snapshot := await self._snapshots.newest()) is not None:
            if snapshot.offset <= self._offset:
                return
            try:
                state = await self._snapshots.read(snapshot)
            except NoSuchLedgerError:
                if snapshot == missing:
                    raise
                missing = snapshot
                continue
            try:
                self._application.restore(state)
            except Exception as error:
                raise _Defect from error
            self._log_id, self._next = snapshot.log_id, snapshot.position
            self._offset = self._snapshot_offset = snapshot.offset
            return

    def _apply_record(self, record: Record) -> None:
        """Carry out the next record. Raises `PositionTrimmedError` when it is not the next."""
        if record.offset != self._offset:  # BEGINNING is where the log begins, trimmed or not
            found = str(record.position)
            raise PositionTrimmedError(self._election.name, f"offset {self._offset}", found)
        try:
            self._apply(record.payload, Applied(record.position, record.offset, record.epoch))
        except Exception as error:
            raise _Defect from error

    def _apply(self, payload: bytes, at: Applied) -> list[R]:
        """Carry one record out; a barrier changes nothing."""
        result = [self._application.apply(payload[1:], at)] if payload[:1] == COMMAND else []
        self._next, self._offset = at.position.after, at.offset + 1
        return result

    # Leading.

    def _leading(self) -> Office[list[R]]:
        if self._office is None or self._resign.is_set():
            raise LeadershipLostError(self._election.name, "this replica does not lead")
        return self._office

    async def _lead(self, leadership: Leadership) -> None:
        self._set_role(Role.RECOVERING)
        self._resign.clear()
        name, options = self._election.name, self._options.log
        log = await self._logs.open(
            name,
            options,
            is_leader=lambda: not leadership.is_lost,
            floor=self._snapshots.first_needed,
        )
        try:
            await self._read_on(follow=False)
            self._log_id = log.log_id
            self._office = office = Office(log, partial(self._apply_confirmed, log))
            self._set_role(Role.LEADER)
            ends = (log.wait_deposed(), leadership.wait_lost(), self._resign.wait())
            await first_of(*ends)
            leadership.check()
            if not self._resign.is_set():
                await log.drain()  # raises why the log has ended
                return
            try:
                has_named = await leadership.hand_over(self._heir)
            except QuireError:
                await office.close_log()
                self._has_named = False
                raise
            await office.close_log()
            self._has_named = has_named
        finally:
            await self._leave(log)

    async def _leave(self, log: Log) -> None:
        log.abandon()
        try:
            if self._office is not None:
                await self._office.end()
            if self._snapshotting is not None:
                await stop(self._snapshotting)
        finally:
            self._office = None
            self._set_role(Role.FOLLOWER)

    def _apply_confirmed(self, log: Log, payload: bytes, appended: Appended) -> list[R]:
        """Carry out a confirmed record: the next record of the log."""
        if self._failure is not None:
            raise DeposedError(log.name, log.epoch, f"its state lacks a command: {self._failure}")
        try:
            assert appended.offset == self._offset, f"{appended} follows offset {self._offset}"
            result = self._apply(payload, Applied(*appended, log.epoch))
        except BaseException as error:
            self._fail(error)
            raise
        self._consider_snapshot(log)
        return result

    def _consider_snapshot(self, log: Log) -> None:
        due = self._offset - self._snapshot_offset >= self._options.snapshot_records
        if not due or (self._snapshotting is not None and not self._snapshotting.done()):
            return
        self._snapshot_offset = self._offset
        try:
            state = as_bytes(self._application.snapshot())
        except Exception as error:
            self._fail(error)
            return
        work = self._write_snapshot(log, self._next, self._offset, state)
        self._snapshotting = asyncio.create_task(work, name="snapshot")

    async def _write_snapshot(self, log: Log, at: Position, offset: int, state: bytes) -> None:
        logger = logging.getLogger(__name__)
        try:
            await self._snapshots.write(
                *(log.log_id, at, offset, state, log.options.replication),
                read_needs_password=log.options.read_needs_password,
            )
        except QuireError as error:
            logger.warning("no snapshot at offset %d: %s", offset, error)
            return
        try:
            await log.trim(at)
        except QuireError as error:  # the next leader trims after its own snapshot
            logger.info("not trimmed after the snapshot at offset %d: %s", offset, error)


def _cause(error: BaseException) -> BaseException:
    """Return the error for the operator of the service."""
    return error.__cause__ or error if isinstance(error, _Defect) else error
