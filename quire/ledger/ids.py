"""Ledger ids: each one is given out once, by compare-and-set on a counter.

A client takes ids in blocks that grow from 1 to 64 as it creates ledgers, so that a client that
creates many does not meet the others at the counter each time, and a client that creates a single
ledger wastes none. The rest of a block is never used after the client ends: ids grow, they are
not dense. An hour after it was drawn a block is thrown away: a repaired bookie takes old ids
without a record for ids of deleted ledgers (repair/census.py).
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, NoReturn

from quire.aio.backoff import Backoff
from quire.aio.retry import retry
from quire.entry import LedgerId
from quire.errors import (
    ConflictError,
    CorruptRecordError,
    NoSuchNodeError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    StoreWentBackError,
)
from quire.fields import NOTHING, Unknown
from quire.metastore.changes import Change, Create, Put
from quire.metastore.cluster import Cluster, adopted_incarnation
from quire.metastore.layout import CLUSTER, LEDGER_IDS, LEDGERS, parse_ledger
from quire.metastore.record import RecordFormat
from quire.metastore.store import MetadataStore

VERSION: Final = 1

WITHHELD: Final = 2
"""Version of the counter of a store that was put back from a backup: no id may be given out before
an operator has adopted the store. Programs that do not know it refuse the record."""

FORMAT: Final = RecordFormat("ledger-ids", frozenset({"next"}), (VERSION, WITHHELD))

BLOCK_MAX: Final = 64

BLOCK_SECONDS: Final = 3600.0
"""How long ids of a block are given out."""

ATTEMPTS_MAX: Final = 64
"""Attempts to move the counter: with the back-off below, room for about as many rivals."""

BACKOFF: Final = Backoff(first=0.001, last=0.5, spread=1.0)
"""Rivals meet at one record: they part by drawing from the whole of each pause."""


class LedgerIds:
    """One client's supply of ledger ids. Concurrent calls get different ids."""

    def __init__(self, store: MetadataStore, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._block = range(0)
        self._drawn_at = 0.0
        self._block_size = 1
        self._taking = asyncio.Lock()
        self.incarnation = 0
        """The store's incarnation when the block was drawn, to be noted in the ledger's record. It
        may be too low when the ledger is created, never too high."""

    async def next(self) -> LedgerId:
        """Return an id that no other client gets. Raises the store's errors, and
        `StoreWentBackError` when the store lost its counter or was restored from a backup
        (protocol.md, I1).

        Cancelling, and an unknown outcome, lose ids but never give one out twice.
        """
        async with self._taking:
            now = asyncio.get_running_loop().time()
            if not self._block or now - self._drawn_at > BLOCK_SECONDS:
                self._block = range(0)  # also if the next steps fail
                self.incarnation = await adopted_incarnation(self._store)
                self._block = await self._take_block(self._block_size)
                self._drawn_at = now
                self._block_size = min(2 * self._block_size, BLOCK_MAX)
            ledger, self._block = self._block[0], self._block[1:]
            return ledger

    async def skip(self) -> LedgerId:
        """Take an id that no ledger gets, and return it: it is above every id given out before.

        Raises as `next`.
        """
        async with self._taking:
            await adopted_incarnation(self._store)
            return (await self._take_block(1))[0]

    async def _take_block(self, size: int) -> range:
        try:
            return await retry(
                partial(self._move, size),
                self._rng,
                on=(ConflictError, StoreOutcomeUnknownError),
                backoff=BACKOFF,
                attempts=ATTEMPTS_MAX,
            )
        except (ConflictError, StoreOutcomeUnknownError) as error:
            reason = f"{LEDGER_IDS} could not be moved in {ATTEMPTS_MAX} attempts: {error}"
            raise StoreUnavailableError(self._store.uri, reason) from error

    async def _move(self, size: int) -> range:
        try:
            found = await self._store.get(LEDGER_IDS)
        except NoSuchNodeError:
            marking = await self._marking()
            await self._check_no_ledgers()
            await self._store.commit([Create(LEDGER_IDS, encode_counter(size)), *marking])
            return range(size)
        counter = decode_counter(found.value)
        if counter.is_withheld:
            raise StoreWentBackError(
                f"metadata store {self._store.uri}",
                "it was put back from a backup, and was not adopted",
            )
        first = counter.following
        moved = encode_counter(first + size, unknown=counter.unknown)
        await self._store.put(LEDGER_IDS, moved, found.version)
        return range(first, first + size)

    async def _marking(self) -> list[Change]:
        """Return the change that notes in the cluster's record that there was a counter.

        Raises `StoreWentBackError` when the note is there: the counter was lost. The records of
        ledgers alone do not prove that, because all of them may be deleted by now.
        """
        try:
            found = await self._store.get(CLUSTER)
        except NoSuchNodeError:  # a store of ledgers alone, without bookies that registered
            return []
        cluster = Cluster.decode(found.value)
        if cluster.counted:
            await self._refuse("it has given ledger ids out")
        return [Put(CLUSTER, replace(cluster, counted=True).encode(), found.version)]

    async def _check_no_ledgers(self) -> None:
        """Raise `StoreWentBackError` when there are ledgers without a counter.

        Their ids would be given out a second time.
        """
        for shard in await self._store.children(LEDGERS):
            if ledgers := await self._store.children(f"{LEDGERS}/{shard}"):
                await self._refuse(f"it has ledger {parse_ledger(ledgers[-1])}")

    async def _refuse(self, proof: str) -> NoReturn:
        """Raise `StoreWentBackError` for a counter that is missing despite a proof that it existed.

        A counter that is there by now was created by another client since it was looked for, and
        the proof comes from that client: `ConflictError`.
        """
        with suppress(NoSuchNodeError):
            await self._store.get(LEDGER_IDS)
            raise ConflictError(f"{LEDGER_IDS} was created meanwhile")
        raise StoreWentBackError(
            f"metadata store {self._store.uri}", f"{proof}, and no counter {LEDGER_IDS}"
        )


class Counter(NamedTuple):
    """The record of the next id."""

    following: LedgerId
    is_withheld: bool = False
    unknown: Unknown = NOTHING


def encode_counter(
    following: LedgerId, *, is_withheld: bool = False, unknown: Unknown = NOTHING
) -> bytes:
    """Return the record of a counter; a withheld one gives out nothing until it is adopted."""
    return FORMAT.encode({"next": following}, unknown, WITHHELD if is_withheld else VERSION)


def decode_counter(data: bytes) -> Counter:
    """Return the contents of a counter's record. Raises `CorruptRecordError`."""
    version, body, unknown = FORMAT.decode(LEDGER_IDS, data)
    following = body.get("next")
    if type(following) is not int or following < 0:
        raise CorruptRecordError(LEDGER_IDS, f"version {version}, next id {following!r}")
    return Counter(following, version == WITHHELD, unknown)
