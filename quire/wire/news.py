"""The messages of subscriptions, and the account of bytes that both ends keep. Pure.

A connection whose sides both offer `subscriptions` carries these messages instead of runs
(docs/formats.md, "Subscriptions"). A client subscribes to ledgers, and the bookie sends *news*: the
entries it holds, the highest explicit LAC, a hint, a fence. It sends no more than it has credit
for, and the client gives credit back for all that it takes.

Both ends spend by one rule (`cost_of`), so neither can be ahead of the other: a bookie without
credit sends nothing, and a client that is sent more ends the connection.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from quire.wire import bookie_pb2 as pb
from quire.wire.adds import UNDECODABLE
from quire.wire.reads import NoMessageError

NEWS_COST: Final = 256
"""Bytes that news count for beside their own: without it, news without entries would be free."""

NEWS_BYTES_MAX: Final = 1024 * 1024
"""Bytes of entries in one message; a first entry that is larger travels alone."""

CREDIT_BYTES_MAX: Final = 4 * 1024 * 1024
"""More than a bookie keeps in the account of one subscription."""

REQUEST_BYTES_MAX: Final = 64 * 1024
"""Largest message of a client. An empty part takes two bytes there and some hundred in memory."""

PARTS_MAX: Final = 1000
"""Parts that a client puts into one message, at some 40 bytes each."""


class OverdrawnError(Exception):
    """Something was sent, or promised, against the rules of the account."""


class NewsAccount:
    """Bytes that a bookie may still send for one subscription.

    While anything is left, one more message may be sent, however large: an entry that is larger
    than all credit must pass, too. It overdraws the account, and credit fills that up first.
    """

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = 0
        self.grant(left)

    @property
    def is_open(self) -> bool:
        """Whether a message may be sent."""
        return self.left > 0

    def spend(self, cost: int) -> None:
        """Count a message. Raises `OverdrawnError` when nothing was left for it."""
        if not self.is_open:
            raise OverdrawnError(f"news of {cost} bytes, and no credit is left")
        self.left -= cost

    def grant(self, size: int) -> None:
        """Take in credit. Raises `OverdrawnError` for more than an account may hold."""
        if self.left + size > CREDIT_BYTES_MAX:
            raise OverdrawnError(
                f"credit of {self.left + size} bytes: at most {CREDIT_BYTES_MAX} are kept"
            )
        self.left += size


def cost_of(news: pb.News) -> int:
    """Return the bytes that a message takes from the account of its subscription."""
    return NEWS_COST + len(news.run) + len(news.lac_packet)


def decode_news_request(message: bytes) -> pb.NewsRequest:
    """Take a client's message apart. Raises `NoMessageError` for a message that is too long, and
    for other bytes.
    """
    if len(message) > REQUEST_BYTES_MAX:
        raise NoMessageError(f"it is longer than {REQUEST_BYTES_MAX} bytes")
    try:
        return pb.NewsRequest.FromString(message)
    except DecodeError as error:
        raise NoMessageError(UNDECODABLE) from error


def decode_news_reply(message: bytes) -> pb.NewsReply:
    """Take a bookie's message apart. Raises `NoMessageError` for bytes that are not a message."""
    try:
        return pb.NewsReply.FromString(message)
    except DecodeError as error:
        raise NoMessageError(UNDECODABLE) from error
