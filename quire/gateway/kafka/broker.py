"""What all requests of Kafka's protocol share: the gateway's parts, and a connection's state."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from quire.client import Client
from quire.errors import InvalidRequestError
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.nodes import Nodes
from quire.gateway.kafka.served import ServedBatches
from quire.gateway.limits import Admission, GatewayLimits
from quire.gateway.owners import Owners
from quire.gateway.quotas import Direction, Quotas, client_of
from quire.gateway.tokens import Token
from quire.rights.calls import GROUPED
from quire.rights.guard import Guard
from quire.rights.roles import Action
from quire.wire.identity import ANONYMOUS, Identity

PARTITION: Final = 0
"""The one partition of a topic."""

DESCRIBING: Final = (Action.OBSERVE, Action.APPEND, Action.READ)
"""Each of these rights lets its holder know where a topic is, as in Kafka."""

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic(log: str) -> bool:
    """Return whether a topic can have a log's name."""
    return _TOPIC.fullmatch(log) is not None and log not in (".", "..")


def check_topic(log: str) -> None:
    """Raise `InvalidRequestError` for a name that Kafka's clients do not take."""
    if not is_topic(log):
        raise InvalidRequestError(
            f"topic {log!r}: a name has 1 to 249 letters, digits, dots, underscores and hyphens"
        )


def security_protocol(*, has_tls: bool, has_tokens: bool) -> str:
    """Return Kafka's name of how clients speak to a port."""
    return f"{'SASL_' if has_tokens else ''}{'SSL' if has_tls else 'PLAINTEXT'}"


@dataclass(eq=False)
class Broker:
    """The parts of one gateway that requests work with."""

    client: Client
    owners: Owners
    nodes: Nodes
    admission: Admission
    quotas: Quotas
    limits: GatewayLimits
    guard: Guard | None = None
    tokens: tuple[Token, ...] = ()
    has_tls: bool = False
    served: ServedBatches = field(default_factory=ServedBatches)

    @property
    def listener(self) -> str:
        """The port with its protocol, as clients are told."""
        protocol = security_protocol(has_tls=self.has_tls, has_tokens=bool(self.tokens))
        return f"{protocol}://{self.nodes.mine.address}"

    def check(self, session: KafkaSession, action: Action, log: str | None) -> None:
        """Raise `NotPermittedError` unless the caller may carry out an action on a log."""
        if self.guard is not None:
            self.guard.check_log(session.identity, action, log)

    def check_described(self, session: KafkaSession, log: str) -> None:
        """Raise `NotPermittedError` unless the caller may know where a topic is."""
        if not self.may_describe(session, log):
            self.check(session, DESCRIBING[0], log)

    def may_describe(self, session: KafkaSession, log: str) -> bool:
        """Return whether the caller may know where a topic is."""
        return any(self.may(session, each, log) for each in DESCRIBING)

    def check_grouped(self, session: KafkaSession) -> None:
        """Raise `NotPermittedError` unless the caller may have to do with groups of consumers."""
        guard = self.guard
        if guard is not None and not any(
            guard.may_somewhere(session.identity, each) for each in sorted(GROUPED)
        ):
            self.check(session, Action.READ, None)

    def charge(self, session: KafkaSession, direction: Direction, size: int, records: int) -> None:
        """Count a client's appends or reads; its next such request waits if they are too much."""
        session.throttle = self.quotas.charge(session.name, direction, size, records)

    def may(self, session: KafkaSession, action: Action, log: str) -> bool:
        """Return whether the caller may carry out an action on a log."""
        return self.guard is None or self.guard.may(session.identity, action, log)


@dataclass(eq=False)
class KafkaSession:
    """The state of one connection."""

    identity: Identity = ANONYMOUS
    is_known: bool = False
    """Whether it showed a token, or the gateway needs none."""
    client: str = ""
    address: str = ""
    throttle: float = 0.0
    """Seconds that the client has to wait after its last request."""
    readings: dict[str, Any] = field(default_factory=dict)
    """Open readers by topic (fetching.py)."""

    @property
    def name(self) -> str:
        """The client, as its quotas know it."""
        return client_of(self.identity, self.address)


Handler: TypeAlias = Callable[[Broker, KafkaSession, Any], Awaitable[Fields | None]]
"""Answers one kind of request; None: it has no answer."""
