"""One call: the rights of its caller, and messages in both directions.

A message of the client is read only after the client has shown its token, and within a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError

from quire.aio.timing import time_limit
from quire.errors import InvalidRequestError
from quire.gateway.answers import StalledError
from quire.gateway.app import Gateway
from quire.gateway.quotas import Direction, client_of
from quire.rights.roles import Action
from quire.wire.identity import Identity
from quire.wire.peer_sockets import parse_peer
from quire.wire.transport import ServerContext

ANSWER_SECONDS: Final = 60.0
"""A client takes a message within so long."""

MessageT = TypeVar("MessageT")


class Caller:
    """A call under way, and its caller."""

    def __init__(self, gateway: Gateway, context: ServerContext, identity: Identity) -> None:
        self.gateway = gateway
        self.context = context
        self.identity = identity
        peer = parse_peer(context.peer())
        self.client = client_of(identity, context.peer() if peer is None else peer[0])

    def check(self, action: Action, log: str | None) -> None:
        """Raise `NotPermittedError` unless the caller may carry out an action on a log."""
        if self.gateway.guard is not None:
            self.gateway.guard.check_log(self.identity, action, log)

    def may(self, action: Action, log: str) -> bool:
        """Return whether the caller may carry out an action on a log."""
        guard = self.gateway.guard
        return guard is None or guard.may(self.identity, action, log)

    def rechecking(self, action: Action, log: str) -> Callable[[], None]:
        """Return what raises once the caller has lost a right, for calls that last."""
        guard = self.gateway.guard
        return _nothing if guard is None else guard.recheck(self.identity, action, log)

    def check_quota(self, direction: Direction) -> None:
        """Raise `QuotaError` for a client that has used up its quota."""
        self.gateway.quotas.check(self.client, direction)

    async def pace(self, direction: Direction, size: int, records: int) -> None:
        """Count bytes and records of the client, and wait if they were too many."""
        wait = self.gateway.quotas.charge(self.client, direction, size, records)
        if wait:
            await asyncio.sleep(wait)

    @staticmethod
    def decode(decode: Callable[[bytes], MessageT], data: bytes) -> MessageT:
        """Return a message. Raises `InvalidRequestError`."""
        try:
            return decode(data)
        except DecodeError:
            reason = f"a message of {len(data)} bytes is not as logs.proto says"
            raise InvalidRequestError(reason) from None

    async def write(self, message: Any) -> None:
        """Send a message. Raises `StalledError` for a client that takes none."""
        try:
            async with time_limit(ANSWER_SECONDS):
                await self.context.write(message)
        except TimeoutError:
            raise StalledError(f"no message was taken for {ANSWER_SECONDS:g} s") from None


def _nothing() -> None:
    """Everything is permitted."""
