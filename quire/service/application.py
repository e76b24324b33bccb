"""The interface between an application and a service. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from quire.checked import check_types
from quire.errors import ConfigurationError
from quire.log.manifest.options import LogOptions
from quire.log.records.position import Position

R_co = TypeVar("R_co", covariant=True)


class Applied(NamedTuple):
    """Where in the log a command is; the same on every replica."""

    position: Position
    offset: int
    epoch: int


class Application(Protocol[R_co]):
    """A deterministic state machine. Called on the event loop, one call at a time, never awaited.

    An exception is a defect: it ends the service, since replicas could no longer agree.
    """

    def apply(self, command: bytes, at: Applied) -> R_co:
        """Carry out a command and return the result for the caller of `submit`.

        Args:
            command: the bytes that a replica submitted.
            at: position, offset and epoch of the command.

        Returns:
            The result. Only the replica that submitted the command delivers it.

        Guarantees: every replica applies the same commands in the same order, each of them once for
            each state that it builds.
        """
        ...

    def snapshot(self) -> bytes:
        """Return the whole state.

        Returns:
            Bytes that `restore` takes, on any replica.
        """
        ...

    def restore(self, state: bytes) -> None:
        """Replace the whole state by a result of `snapshot`.

        Args:
            state: the bytes that `snapshot` returned, in this process or another one.
        """
        ...


class Role(StrEnum):
    """The present role of a replica."""

    FOLLOWER = "follower"
    RECOVERING = "recovering"
    LEADER = "leader"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """Knobs of a service. Raises `ConfigurationError` for a value that cannot work."""

    log: LogOptions = field(default_factory=LogOptions)
    snapshot_records: int = 10_000
    """Records between two snapshots: a replica without memory applies at most so many."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.snapshot_records < 1:
            raise ConfigurationError(
                f"snapshot_records must be positive, not {self.snapshot_records}"
            )
