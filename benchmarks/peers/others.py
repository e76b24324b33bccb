"""PostgreSQL, Redis, etcd and NATS: their words for `--peers`, and a line for each left out.

Each module is imported when it is wanted, because its client may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from benchmarks.peers.log_peer import LogPeer
from benchmarks.peers.peer import UnavailableError

REQUIREMENTS: Final = "benchmarks/peers/requirements.txt"


class Other(NamedTuple):
    """A class of peers."""

    module: str
    peer: str


OTHERS: Final[Mapping[str, Other]] = MappingProxyType(
    {
        "PostgreSQL": Other("postgresql", "PostgreSQL"),
        "Redis": Other("redis", "Redis"),
        "etcd": Other("etcd", "Etcd"),
        "NATS": Other("nats", "Nats"),
    }
)
"""By the words of `--peers`. A peer's name begins with its word."""


def is_other(peer: str) -> bool:
    """Whether a peer of this name is among these."""
    return peer.partition(" ")[0] in OTHERS


def place_of_other(peer: str) -> int:
    """Return where a peer of these stands among them. Raises `ValueError` of another peer."""
    return list(OTHERS).index(peer.partition(" ")[0])


def make_others(words: Sequence[str], place: Path) -> tuple[list[LogPeer], list[str]]:
    """Return the wanted peers, and a line for each that is left out."""
    made: list[LogPeer] = []
    lines: list[str] = []
    for word, other in OTHERS.items():
        if word not in words:
            continue
        try:
            made.append(_make(other, place / other.module))
        except UnavailableError as error:
            lines.append(left_out(word, error))
    return made, lines


def left_out(name: str, error: Exception) -> str:
    """Return the line about a peer that is left out."""
    return f"{name} is left out: {' '.join(str(error).split())}"


def _make(other: Other, directory: Path) -> LogPeer:
    try:
        module = import_module(f"benchmarks.peers.{other.module}")
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"its client needs the module {error.name}; say pip install -r {REQUIREMENTS}"
        ) from None
    peer: LogPeer = getattr(module, other.peer)(directory)
    return peer
