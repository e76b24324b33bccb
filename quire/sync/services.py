"""Blocking twin of a service's replica."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Generic, Self, TypeVar

from quire.election.election import Leader
from quire.service import Role, Service
from quire.sync.portal import Portal
from quire.sync.twins import twin_of

R = TypeVar("R")


@twin_of(Service, "_service")
class SyncService(Generic[R]):
    """Blocking twin of `Service`. Safe to use from several threads; `with` starts and ends it.

    The application's methods are called in the one thread of `quire.sync`, one at a time: what
    other threads read of its state needs a lock, and nothing blocking belongs there.
    """

    def __init__(self, portal: Portal, service: Service[R]) -> None:
        self._portal = portal
        self._service = service
        self._running = ExitStack()

    @property
    def role(self) -> Role:
        """See `Service.role`."""
        return self._service.role

    @property
    def epoch(self) -> int | None:
        """See `Service.epoch`."""
        return self._service.epoch

    @property
    def applied(self) -> int:
        """See `Service.applied`."""
        return self._service.applied

    def leader(self) -> Leader | None:
        """See `Service.leader`."""
        return self._portal.call(self._service.leader())

    def submit(self, command: bytes) -> R:
        """See `Service.submit`."""
        return self._portal.call(self._service.submit(command))

    def barrier(self) -> None:
        """See `Service.barrier`."""
        self._portal.call(self._service.barrier())

    def hand_over(self, candidate: str | None = None) -> bool:
        """See `Service.hand_over`."""
        return self._portal.call(self._service.hand_over(candidate))

    def wait_role(self, role: Role) -> None:
        """See `Service.wait_role`."""
        self._portal.call(self._service.wait_role(role))

    def close(self) -> None:
        """See `Service.close`."""
        self._portal.call(self._service.close())

    def __enter__(self) -> Self:
        self._running.enter_context(self._portal.hold(self._service))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.__exit__(kind, error, traceback)
