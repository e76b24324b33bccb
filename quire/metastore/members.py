"""The registered programs of a cluster: its bookies and its clients.

A client registers too (`registered`): an ephemeral record that says which formats it speaks, so
that an upgrade is not finished over its head. It is a service to the operator, and decides nothing
else: a client that cannot write the record works all the same. Commands that are over in moments do
not register.

A client reads the feature level *after* its record is there. So either it sees the level that is
being raised to, or the operator's `--finish` sees its record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from quire.aio.tasks import Tasks
from quire.aio.timing import time_limit
from quire.errors import (
    CorruptRecordError,
    FormatLevelError,
    NoSuchNodeError,
    QuireError,
)
from quire.metastore.cluster import read_cluster
from quire.metastore.layout import BOOKIES, CLIENTS, bookie_path
from quire.metastore.levels import (
    PROGRAM_FIELDS,
    THIS_PROGRAM,
    Member,
    Program,
    program_of,
)
from quire.metastore.record import RecordFormat
from quire.metastore.registration import decode_registration, registered_program
from quire.metastore.store import MetadataStore, Session

FORMAT: Final = RecordFormat("client", PROGRAM_FIELDS | {"where"})

REGISTER_SECONDS: Final = 2.0
"""A client registers when it has lived for so long."""

SESSION_SECONDS: Final = 30.0
"""How long a dead client stays registered."""

CLOSE_SECONDS: Final = 1.0
"""A client that ends waits so long for a store that is away; its record then ends by itself."""

_log = logging.getLogger(__name__)


def encode_client(where: str, program: Program = THIS_PROGRAM) -> bytes:
    """Return the record of a client; `where` names its host and process."""
    return FORMAT.encode({"where": where, **program.fields()})


def decode_client(path: str, data: bytes) -> Member:
    """Return the client of a record. Raises `CorruptRecordError`, naming the path."""
    body = FORMAT.decode(path, data).body
    where = body.get("where")
    if not isinstance(where, str):
        raise CorruptRecordError(path, f"where {where!r}")
    try:
        return Member("client", path.rpartition("/")[2], where, program_of(body))
    except ValueError as error:
        raise CorruptRecordError(path, str(error)) from error


async def read_members(store: MetadataStore) -> list[Member]:
    """Return the registered programs: bookies, then clients. Raises the store's errors."""
    return [
        *[each for name in await store.children(BOOKIES) if (each := await _bookie(store, name))],
        *[each for name in await store.children(CLIENTS) if (each := await _client(store, name))],
    ]


async def _bookie(store: MetadataStore, bookie: str) -> Member | None:
    """Return a bookie, None if it is gone."""
    with suppress(NoSuchNodeError):
        data = (await store.get(bookie_path(bookie))).value
        try:
            address = decode_registration(bookie, data).address
            return Member("bookie", bookie, address, registered_program(bookie, data))
        except CorruptRecordError:
            return Member("bookie", bookie, "", None)
    return None


async def _client(store: MetadataStore, name: str) -> Member | None:
    """Return a client, None if it is gone."""
    path = f"{CLIENTS}/{name}"
    with suppress(NoSuchNodeError):
        data = (await store.get(path)).value
        try:
            return decode_client(path, data)
        except CorruptRecordError:
            return Member("client", name, "", None)
    return None


@asynccontextmanager
async def registered(store: MetadataStore, name: str, where: str) -> AsyncIterator[None]:
    """Keep a client registered while the block runs."""
    tasks = Tasks()
    tasks.start(_keep(store, f"{CLIENTS}/{name}", where), "client record")
    try:
        yield
    finally:
        await tasks.stop()


async def _keep(store: MetadataStore, path: str, where: str) -> None:
    while True:
        await asyncio.sleep(REGISTER_SECONDS)
        try:
            session = await store.open_session(SESSION_SECONDS)
            try:
                await _register(store, session, path, where)
                await session.wait_expired()
            finally:
                with suppress(QuireError, TimeoutError):
                    async with time_limit(CLOSE_SECONDS):
                        await session.close()
        except FormatLevelError as error:
            _log.warning("%s", error)
            return
        except QuireError as error:  # it must not end a client that has no right to register
            _log.debug("this client is not registered: %s", error)
            await asyncio.sleep(SESSION_SECONDS)


async def _register(store: MetadataStore, session: Session, path: str, where: str) -> None:
    """Write the record, then see whether this program speaks the cluster's level."""
    await session.create(path, encode_client(where))
    with suppress(NoSuchNodeError):  # a store without a cluster
        await read_cluster(store)
