"""Errors between programs of different releases, and between different systems."""

from __future__ import annotations

from quire.errors.base import (
    ConfigurationError,
    ConflictError,
    CorruptRecordError,
    InvalidRequestError,
    NotFoundError,
)


class WishRefusedError(ConflictError):
    """A bookie cannot be sent away, drained or forgotten as things are."""

    def __init__(self, bookie: str, wish: str, obstacles: list[str]) -> None:
        super().__init__(f"bookie {bookie} cannot be set to {wish}: {'; '.join(obstacles)}")
        self.bookie = bookie
        self.wish = wish
        self.obstacles = obstacles


class RightsRefusedError(ConflictError):
    """A change of the table of rights would lock its own administrators out."""

    def __init__(self, obstacles: list[str]) -> None:
        super().__init__(
            f"the rules stay as they are: {'; '.join(obstacles)}; pass --anyway to insist"
        )
        self.obstacles = obstacles


class NoSuchBookieError(NotFoundError):
    """The cluster has no record of a bookie."""

    def __init__(self, bookie: str) -> None:
        super().__init__(
            f"bookie {bookie!r} is not known: give its id, or the first four digits or more"
        )
        self.bookie = bookie


class UpgradeRefusedError(ConflictError):
    """Registered programs do not speak the feature level that the upgrade would raise to."""

    def __init__(self, level: int, members: list[str]) -> None:
        super().__init__(
            f"the upgrade to feature level {level} cannot be finished: {', '.join(members)}; "
            "upgrade or stop them first"
        )
        self.level = level
        self.members = members


class FormatLevelError(ConfigurationError):
    """The cluster's feature level is not among the levels that this program speaks."""

    def __init__(self, level: int, lowest: int, highest: int) -> None:
        remedy = (
            "upgrade quire here"
            if level > highest
            else "finish the upgrade with a program in between (quire cluster upgrade --finish)"
        )
        super().__init__(
            f"the cluster is at feature level {level}, and this program speaks {lowest} to "
            f"{highest}: {remedy}"
        )
        self.level = level
        self.lowest = lowest
        self.highest = highest


class LevelNeededError(ConfigurationError):
    """The call writes a format that the cluster's feature level does not allow yet."""

    def __init__(self, what: str, level: int, found: int) -> None:
        super().__init__(
            f"{what} needs feature level {level}, the cluster is at {found}: upgrade all programs, "
            "then run `quire cluster upgrade --finish`"
        )
        self.what = what
        self.level = level
        self.found = found


class UnsupportedError(InvalidRequestError):
    """The system cannot do what the call asks for, and never will."""

    def __init__(self, system: str, what: str) -> None:
        super().__init__(f"{system} does not support {what}: do without it, or use another system")
        self.system = system
        self.what = what


class OpenedReadOnlyError(UnsupportedError):
    """The cluster of another system was opened to be read only."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, "changes")
        self.args = (
            f"the ledgers at {uri} were opened to be read only: add write=true to the URI to "
            "create, recover, change or delete anything",
        )


class UnreadableContentError(UnsupportedError):
    """Data of another system that quire cannot read, and does not pass over."""

    def __init__(self, subject: str, what: str, remedy: str) -> None:
        super().__init__(subject, what)
        self.args = (f"{subject} {what}: {remedy}",)


class NoSuchTopicError(NotFoundError):
    """The metadata store has no record of a topic of Pulsar."""

    def __init__(self, topic: str, path: str, uri: str) -> None:
        super().__init__(
            f"{topic} is not at {path} of {uri}: check the name and the root of the URI. Topics "
            "with metadata in Oxia, etcd or RocksDB have no record in ZooKeeper, and cannot "
            "be read"
        )
        self.topic = topic
        self.path = path
        self.uri = uri


class NoSuchDlogError(NotFoundError):
    """The metadata store has no record of a log of DistributedLog."""

    def __init__(self, log: str, path: str, uri: str) -> None:
        super().__init__(
            f"DistributedLog's log {log} is not at {path} of {uri}: check the namespace, the name "
            "and the root of the URI"
        )
        self.log = log
        self.path = path
        self.uri = uri


class RefusedError(InvalidRequestError):
    """A bookie refuses this program as it is: a certificate, an option or a right is missing."""


class TlsMismatchError(RefusedError):
    """A bookie takes TLS connections only, or none, and this client wants the opposite."""

    def __init__(self, bookie: str, reason: str) -> None:
        super().__init__(f"bookie {bookie} {reason}")
        self.bookie = bookie
        self.reason = reason


class ClientRefusedError(RefusedError):
    """A bookie does not serve this client. Another bookie would refuse it for the same reason."""

    def __init__(self, bookie: str, reason: str) -> None:
        super().__init__(f"bookie {bookie} refuses this client: {reason}")
        self.bookie = bookie
        self.reason = reason


class NotPermittedError(RefusedError):
    """The table of rights does not let this identity do it. No other bookie would permit it."""

    def __init__(self, identity: str, action: str, scope: str) -> None:
        super().__init__(
            f"{identity} has no right to {action} on {scope}: `quire rights check {identity} "
            f"{action}` says why, and `quire rights grant` gives a role that has it"
        )
        self.identity = identity
        self.action = action
        self.scope = scope


class MissingRightsError(CorruptRecordError):
    """The table of rights was lost. A server that starts before it is back denies each call."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "the table of rights was lost; servers that start now deny each call: put a whole "
            "table there with `quire rights apply FILE`",
        )
