"""The way of an answer to its client: gathered within one budget, handed over within another.

    gathering     bytes that reads may gather at the same time (quota.py)
    unread        bytes of answers that clients have not taken, of all connections

An answer that stalls, or that loses its place to others, ends the connection of its client
(quire/wire/peer_sockets.py says why no less helps). A client of quire takes an answer at once,
whatever its application does: it stalls only when its process does.

A unary answer over gRPC is one message. gRPC sends it after the handler has returned, so it counts
until its call is over.

Invariant: memory for answers is bounded by the two budgets together. What gRPC keeps of a part is
counted: one copy beside ours.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from quire.aio.timing import time_limit
from quire.bookie import READ_ANSWER_BYTES_MAX
from quire.entry import BookieId
from quire.errors import BookieBusyError
from quire.storage.serving.held_bytes import HeldBytes
from quire.wire.peer_sockets import end_connection
from quire.wire.reads import encode_parts
from quire.wire.transport import ENDED_ERRORS, RESOURCE_EXHAUSTED, ServerContext

UNREAD: Final = "answers that were not taken hold too many bytes, or one for too long"

GATHERED_BYTES_MAX: Final = 16 * READ_ANSWER_BYTES_MAX
"""More would wait for the disk in one queue or another."""

_COPIES: Final = 2
"""Of the part that is on its way: the message, and what gRPC has of it."""


class UntakenAnswers:
    """The bytes of answers that wait to be written on one connection in plain frames.

    Together they have one place in the budget, which is as old as the last progress: answers that
    wait for others of their connection are not stalled. `drop` ends the connection.
    """

    __slots__ = ("_bookie", "_drop", "_is_over", "_owner", "_size", "_unread")

    def __init__(
        self, unread: HeldBytes, bookie: BookieId, owner: str, drop: Callable[[str], None]
    ) -> None:
        self._unread, self._bookie, self._owner, self._drop = unread, bookie, owner, drop
        self._size = 0
        self._is_over = False

    def add(self, size: int) -> None:
        """Count an answer. Raises `BookieBusyError` when there is no space for it."""
        if self._is_over or not self._hold(self._size + size):
            raise BookieBusyError(self._bookie, UNREAD)
        self._size += size

    def progressed(self) -> None:
        """The client takes something."""
        self._unread.renew(self)

    def remove(self, size: int) -> None:
        """Count an answer no longer: it was written, or given up."""
        if self._is_over:
            return
        self._size -= size
        if self._size:
            self._hold(self._size)
        else:
            self._unread.release(self)

    def _hold(self, size: int) -> bool:
        return self._unread.hold(self, size, self._dropped, self._owner)

    def _dropped(self, reason: str) -> None:
        self._is_over = True
        self._drop(reason)

    def close(self) -> None:
        """Count nothing any more: the connection is gone."""
        self._is_over = True
        self._unread.release(self)


class UntakenReplies:
    """The bytes of unary answers over gRPC that their clients have not taken, by connection.

    gRPC tells of an answer only that its call is over. A connection that stalls is ended, with all
    of its calls.
    """

    def __init__(self, unread: HeldBytes, bookie: BookieId) -> None:
        self._unread, self._bookie = unread, bookie
        self._connections: dict[str, UntakenAnswers] = {}
        self._calls: Counter[str] = Counter()
        """Calls by connection."""

    def add(self, size: int, context: ServerContext, owner: str) -> None:
        """Count an answer until its call is over. Raises `BookieBusyError` without space for it."""
        peer, size = context.peer(), (1 + _COPIES) * size
        untaken = self._connections.get(peer)
        if untaken is None:
            end = partial(self._end, peer)
            untaken = UntakenAnswers(self._unread, self._bookie, owner, end)
        untaken.add(size)
        self._connections[peer] = untaken
        self._calls[peer] += 1
        context.add_done_callback(partial(self._taken, peer, size))  # type: ignore[arg-type]

    def _taken(self, peer: str, size: int, _: object) -> None:
        untaken = self._connections[peer]
        untaken.progressed()
        untaken.remove(size)
        self._calls[peer] -= 1
        if not self._calls[peer]:
            del self._calls[peer], self._connections[peer]

    @staticmethod
    def _end(peer: str, _: str) -> None:
        end_connection(peer)


class NotTakenError(Exception):
    """A client did not take its answer."""


async def hand_over(
    run: bytes, context: ServerContext, unread: HeldBytes, bookie: BookieId, owner: str
) -> None:
    """Write the parts of an answer, as fast as the client takes them.

    Args:
        run: the answer.
        context: the call.
        unread: the budget.
        bookie: the bookie that answers.
        owner: the peer, which shares the budget with others.

    Raises:
        NotTakenError: the client took too long.
        BookieBusyError: there is no space, before the first part.
    """
    holder, is_first = object(), True
    try:
        async with time_limit(None) as limit:
            now = asyncio.get_running_loop().time

            def drop(reason: str) -> None:
                limit.reschedule(now())

            for part in encode_parts(run):
                size = len(run) + _COPIES * len(part)
                if not unread.hold(holder, size, drop, owner) and is_first:
                    raise BookieBusyError(bookie, UNREAD)
                await context.write(part)
                unread.release(holder)
                is_first = False
    except TimeoutError as error:
        raise NotTakenError(UNREAD) from error
    finally:
        unread.release(holder)


async def give_up(context: ServerContext) -> None:
    """End a call with an answer that its client does not take, and the connection of the client.

    Its frames, and the answer in them, must be gone already: the abort may take its time.
    """
    end_connection(context.peer())
    with suppress(*ENDED_ERRORS):
        await context.abort(RESOURCE_EXHAUSTED, UNREAD)
