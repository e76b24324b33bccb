"""An operator's wishes: changing the standing of a bookie, by compare-and-set.

`away`, `back`, `drain` and `recommission` are pure: they map a standing to the wanted one. Each can
be repeated, and refuses what would undo another wish without a word. `change_standing` carries one
out, `forget` gives an identity up, and `wait_obeyed` waits for the bookie's own word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from quire.aio.timing import time_limit
from quire.entry import BookieId
from quire.errors import (
    CorruptRecordError,
    InvalidRequestError,
    NoSuchBookieError,
    NoSuchNodeError,
    WishRefusedError,
)
from quire.labels import Labels
from quire.metastore.changes import Change, Create, Delete, Put
from quire.metastore.changing import change_record, find_record
from quire.metastore.heartbeat import Heartbeat
from quire.metastore.layout import (
    bookie_path,
    cookie_path,
    heartbeat_path,
    moves_path,
    standing_path,
)
from quire.metastore.registration import decode_registration
from quire.metastore.standing import SERVING, Standing, Wish
from quire.metastore.store import MetadataStore, Versioned

PREFIX_MIN: Final = 4
"""A bookie may be named by so many first digits of its id, or more."""

Decide = Callable[[Standing], Standing]


def resolve(given: str, bookies: Iterable[BookieId]) -> BookieId:
    """Return the bookie that an id, or the begin of one, names.

    Raises `NoSuchBookieError`, and `InvalidRequestError` for the begin of several ids.
    """
    names = sorted(bookies)
    if given in names:
        return given
    found = [each for each in names if each.startswith(given)] if len(given) >= PREFIX_MIN else []
    if not found:
        raise NoSuchBookieError(given)
    if len(found) > 1:
        raise InvalidRequestError(
            f"{given!r} begins the ids of {len(found)} bookies: {', '.join(found)}; give more of it"
        )
    return found[0]


def away(
    bookie: BookieId, now_ms: int, seconds: float, reason: str, by: str
) -> Callable[[Standing], Standing]:
    """Return the decision to set a bookie away for some seconds from now."""

    def decide(current: Standing) -> Standing:
        if current.wish in (Wish.DRAIN, Wish.GONE):
            raise WishRefusedError(bookie, "away", [_in_the_way(bookie, current)])
        until = now_ms + max(1, round(seconds * 1000))
        return replace(
            current, wish=Wish.AWAY, reason=reason, by=by, since_ms=now_ms, until_ms=until
        )

    return decide


def drain(bookie: BookieId, now_ms: int, reason: str, by: str) -> Callable[[Standing], Standing]:
    """Return the decision to drain a bookie."""

    def decide(current: Standing) -> Standing:
        if current.wish is Wish.GONE:
            raise WishRefusedError(bookie, "drain", [_in_the_way(bookie, current)])
        if current.wish is Wish.DRAIN:
            return current
        return replace(
            current, wish=Wish.DRAIN, reason=reason, by=by, since_ms=now_ms, until_ms=None
        )

    return decide


def serve(bookie: BookieId, ends: Wish, now_ms: int, by: str) -> Callable[[Standing], Standing]:
    """Return the decision to end one wish, `away` or `drain`; without it nothing changes."""

    def decide(current: Standing) -> Standing:
        if current.wish is Wish.SERVE:
            return current
        if current.wish is not ends:
            raise WishRefusedError(bookie, "serve", [_in_the_way(bookie, current)])
        return replace(current, wish=Wish.SERVE, reason="", by=by, since_ms=now_ms, until_ms=None)

    return decide


def relabel(bookie: BookieId, labels: Labels | None) -> Callable[[Standing], Standing]:
    """Return the decision to say where a bookie is; None: where its process was started to be."""

    def decide(current: Standing) -> Standing:
        if current.wish is Wish.GONE:
            raise WishRefusedError(bookie, "relabel", [_in_the_way(bookie, current)])
        return replace(current, labels=labels)

    return decide


def _in_the_way(bookie: BookieId, current: Standing) -> str:
    if current.wish is Wish.DRAIN:
        return f"it is draining: `quire bookie recommission {bookie}` ends that"
    if current.wish is Wish.AWAY:
        return f"it is away: `quire bookie back {bookie}` ends that"
    return "its identity was given up: format an empty directory as a new bookie"


async def change_standing(store: MetadataStore, bookie: BookieId, decide: Decide) -> Standing:
    """Change a bookie's standing and return it.

    `decide` maps the newest standing to the wanted one, and may be called several times. A standing
    that cannot be read is replaced. Raises the errors of `decide` and the store's errors; after
    `StoreOutcomeUnknownError` the change may have been made, and the call can be repeated.
    """
    wanted = SERVING

    def edit(record: Versioned | None) -> bytes | None:
        nonlocal wanted
        current = _decoded(bookie, record)
        wanted = decide(current)
        return None if wanted == current and record is not None else wanted.encode()

    await change_record(store, standing_path(bookie), edit)
    return wanted


def _decoded(bookie: BookieId, record: Versioned | None) -> Standing:
    if record is None:
        return SERVING
    try:
        return Standing.decode(bookie, record.value)
    except CorruptRecordError:
        return SERVING


def _write(bookie: BookieId, record: Versioned | None, standing: Standing) -> Change:
    path = standing_path(bookie)
    if record is None:
        return Create(path, standing.encode())
    return Put(path, standing.encode(), record.version)


async def forget(
    store: MetadataStore, bookie: BookieId, now_ms: int, reason: str, by: str
) -> Standing:
    """Give a bookie's identity up: its standing is `gone`. Its cookie, its heartbeat and its
    open assignments go.

    One transaction, which can be repeated. A directory of this identity is never served again.
    Raises the store's errors. The caller has seen that no ledger names the bookie.
    """
    record = await find_record(store, standing_path(bookie))
    current = _decoded(bookie, record)
    gone = replace(current, wish=Wish.GONE, reason=reason, by=by, since_ms=now_ms, until_ms=None)
    wanted = current if current.wish is Wish.GONE else gone
    changes: list[Change] = [_write(bookie, record, wanted)]
    for path in (cookie_path(bookie), heartbeat_path(bookie), moves_path(bookie)):
        with suppress(NoSuchNodeError):
            changes.append(Delete(path, (await store.get(path)).version))
    await store.commit(changes)
    return wanted


async def wait_placed(
    store: MetadataStore, bookie: BookieId, standing: Standing, seconds: float
) -> Labels | None:
    """Return the labels of a bookie's registration, once they are those of its standing. None: they
    are not within some seconds.
    """
    path = bookie_path(bookie)
    with suppress(TimeoutError, NoSuchNodeError, CorruptRecordError):
        async with time_limit(seconds):
            while True:
                record = await store.get(path)
                shown = decode_registration(bookie, record.value).labels
                if standing.place(shown) == shown:
                    return shown
                await store.wait(path, record.version)
    return None


async def wait_obeyed(store: MetadataStore, bookie: BookieId, wish: Wish, seconds: float) -> bool:
    """Return whether a bookie says within some seconds that it obeys a wish: its heartbeat to
    operators, and its registration to clients, which choose bookies for new ledgers by it.
    """
    path = heartbeat_path(bookie)
    with suppress(TimeoutError, NoSuchNodeError, CorruptRecordError):
        async with time_limit(seconds):
            while True:
                record = await store.get(path)
                if Heartbeat.decode(bookie, record.value).wish is wish:
                    break
                await store.wait(path, record.version)
            if not wish.takes_entries:
                await _until_unoffered(store, bookie)
            return True
    return False


async def _until_unoffered(store: MetadataStore, bookie: BookieId) -> None:
    """Return when no client takes a bookie for new ledgers: it comes a little after its wish."""
    path = bookie_path(bookie)
    with suppress(NoSuchNodeError):  # it is not registered, or with Apache's records
        while decode_registration(bookie, (record := await store.get(path)).value).writable:
            await store.wait(path, record.version)
