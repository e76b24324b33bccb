"""Gathering the facts of a cluster's bookies from the metadata store, and from the bookies.

A bookie counts if it has a cookie, a standing, a heartbeat or a registration. The cost is some
reads for each bookie, however much is stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from quire.aio.tasks import together
from quire.bookie import BookieAddress, BookieInfo
from quire.entry import BookieId
from quire.errors import CorruptRecordError, InvalidRequestError, NoSuchNodeError, QuireError
from quire.healing.state import BookieFacts
from quire.metastore.heartbeat import Heartbeat
from quire.metastore.layout import (
    BOOKIES,
    COOKIES,
    HEARTBEATS,
    STANDINGS,
    bookie_path,
    check_bookie,
    heartbeat_path,
    standing_path,
)
from quire.metastore.registration import decode_registration, registered_program
from quire.metastore.standing import SERVING, Standing
from quire.metastore.store import MetadataStore, Versioned

T = TypeVar("T")
Ask = Callable[[BookieId], Awaitable[BookieInfo]]

ROOTS: Final = (COOKIES, STANDINGS, HEARTBEATS, BOOKIES)


async def gather_facts(store: MetadataStore, ask: Ask | None = None) -> list[BookieFacts]:
    """Return the facts of every bookie, sorted by id.

    `ask` asks a registered bookie how it is; without it none is asked. Raises the store's errors;
    a record that cannot be read is among the facts.
    """
    names = {name for root in ROOTS for name in await store.children(root)}
    return await together(*(read_facts(store, each, ask) for each in sorted(names)))


async def read_facts(store: MetadataStore, bookie: BookieId, ask: Ask | None = None) -> BookieFacts:
    """Return the facts of one bookie; raises as `gather_facts`."""
    try:
        check_bookie(bookie)
    except InvalidRequestError as error:
        return BookieFacts(bookie, damaged=(str(error),))
    damaged: list[str] = []

    def decoded(record: Versioned | None, decode: Callable[[BookieId, bytes], T]) -> T | None:
        try:
            return None if record is None else decode(bookie, record.value)
        except CorruptRecordError as error:
            damaged.append(str(error))
            return None

    registration = await _get(store, bookie_path(bookie))
    address: BookieAddress | None = decoded(registration, decode_registration)
    program = decoded(registration, registered_program) if address else None
    standing = decoded(await _get(store, standing_path(bookie)), Standing.decode)
    beat = await _get(store, heartbeat_path(bookie))
    heartbeat = decoded(beat, Heartbeat.decode)
    version = program.version if program else heartbeat.version if heartbeat else ""
    heard = beat.written_ms if beat else None
    if heard is None and heartbeat is not None:
        heard = heartbeat.at_ms
    facts = BookieFacts(
        *(bookie, address, version, standing or SERVING, heartbeat, heard),
        damaged=tuple(damaged),
    )
    return facts if ask is None or address is None else await _asked(facts, ask)


async def _get(store: MetadataStore, path: str) -> Versioned | None:
    try:
        return await store.get(path)
    except NoSuchNodeError:
        return None


async def _asked(facts: BookieFacts, ask: Ask) -> BookieFacts:
    try:
        return replace(facts, info=await ask(facts.bookie))
    except QuireError as error:
        return replace(facts, silence=str(error))
