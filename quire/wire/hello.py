"""The hello with which both sides of a connection for runs begin (docs/formats.md, "Wire").

A hello says which program speaks, which feature levels it knows, and which features of the
connection it offers. Both sides use the features that both offer. The bookie's hello may refuse the
client, with a reason: a client that is refused hears why, instead of a closed connection.

    {"identity": "…", "version": "0.2.0", "speaks": [1, 2], "features": [], "stream": "…",
     "refusal": {…}}

A field that a side does not know is ignored, and so is a feature. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from quire.requests import checked_id
from quire.version import SPEAKS, Speaks, __version__
from quire.wire.reads import NoMessageError

HELLO_BYTES_MAX: Final = 16 * 1024
"""Largest hello: a peer may not say more before it is known."""

SUBSCRIPTIONS: Final = "subscriptions"
"""The connection carries subscriptions (news.py) instead of runs."""

READS: Final = "reads"
"""The connection carries reads (framed_reads.py) instead of runs."""

FEATURES: Final[frozenset[str]] = frozenset({SUBSCRIPTIONS, READS})
"""The offers of this program's bookies. A client offers the wanted use of the connection. The name
`bundles` is reserved."""

_TEXT_MAX: Final = 1000
_VERSION_MAX: Final = 64


class Refusal(NamedTuple):
    """Why a bookie does not serve a client."""

    reason: str
    is_passing: bool = False
    """The same client may be served later, as when too many are connected."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What one side says of itself."""

    identity: str
    """The id of a bookie; a client may name itself."""
    version: str = __version__
    speaks: Speaks = SPEAKS
    features: frozenset[str] = frozenset()
    refusal: Refusal | None = None
    stream: str = ""
    """The id of a client's stream, by which both sides name its runs in logs; empty for none."""


def encode_hello(hello: Hello) -> bytes:
    """Return the message of a hello."""
    body: dict[str, Any] = {
        "identity": hello.identity,
        "version": hello.version,
        "speaks": list(hello.speaks),
        "features": sorted(hello.features),
    }
    if hello.stream:
        body["stream"] = hello.stream
    if hello.refusal is not None:
        reason, is_passing = hello.refusal
        body["refusal"] = {"reason": reason[:_TEXT_MAX], "passing": is_passing}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def decode_hello(message: bytes) -> Hello:
    """Return the hello in a message. Raises `NoMessageError` for bytes that are not one."""
    if len(message) > HELLO_BYTES_MAX:
        raise NoMessageError(f"a hello of {len(message)} bytes")
    try:
        body = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise NoMessageError(f"not a hello: {type(error).__name__}") from error
    match body:
        case {
            "identity": str(identity),
            "version": str(version),
            "speaks": [int(lowest), int(highest)],
            "features": [*features],
        } if 0 < lowest <= highest and all(isinstance(each, str) for each in features):
            refusal, stream = _refusal(body.get("refusal")), checked_id(body.get("stream"))
            speaks = Speaks(lowest, highest)
            return Hello(identity, version, speaks, frozenset(features), refusal, stream)
    raise NoMessageError("not a hello: its fields have other types")


def _refusal(body: object) -> Refusal | None:
    match body:
        case None:
            return None
        case {"reason": str(reason), "passing": bool(is_passing)}:
            return Refusal(reason[:_TEXT_MAX], is_passing)
    raise NoMessageError("not a hello: its refusal has other fields")


def judge(client: Hello, bookie: Hello) -> Refusal | None:
    """Return why a bookie cannot serve a client; None if it can."""
    lowest = max(client.speaks.lowest, bookie.speaks.lowest)
    if lowest <= min(client.speaks.highest, bookie.speaks.highest):
        return None
    version = client.version[:_VERSION_MAX]  # it is not believed, and goes into a log
    return Refusal(
        f"the client (quire {version!r}) speaks feature levels {client.speaks.lowest} to "
        f"{client.speaks.highest}, the bookie (quire {bookie.version}) speaks "
        f"{bookie.speaks.lowest} to {bookie.speaks.highest}: upgrade the older one"
    )


def shared(offers: Iterable[Hello]) -> frozenset[str]:
    """Return the features that all sides offer."""
    return frozenset.intersection(*(each.features for each in offers))
