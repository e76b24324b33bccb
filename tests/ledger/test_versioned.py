"""The compare-and-set loop: decisions see the newest value, lost answers are not lost changes."""

from __future__ import annotations

import random

import pytest

from quire.entry import DigestKind
from quire.errors import (
    CorruptRecordError,
    NoSuchLedgerError,
    StoreOutcomeUnknownError,
    VersionConflictError,
)
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.ledger.stored_records import StoredRecords
from quire.ledger.versioned import CHANGE_ATTEMPTS_MAX, change_metadata
from quire.metastore.layout import ledger_path
from quire.metastore.memory import MemoryStore
from tests.support.virtual import virtually

PATH = ledger_path(7)
METADATA = LedgerMetadata(7, Replication(1, 1, 1), DigestKind.NONE, "", (Fragment(0, ("b0",)),))


class RivalStore(MemoryStore):
    """Another client changes the record before each of the next puts; or the answer is lost."""

    rivals = 0
    lost = 0
    vanished = 0

    async def put(self, path: str, value: bytes, version: int) -> int:
        if self.rivals:
            self.rivals -= 1
            now = await self.get(path)
            await super().put(path, now.value, now.version)
        if self.vanished:
            self.vanished -= 1
            raise StoreOutcomeUnknownError(path, "the request was lost")
        changed = await super().put(path, value, version)
        if self.lost:
            self.lost -= 1
            raise StoreOutcomeUnknownError(path, "the answer was lost")
        return changed


def fence(metadata: LedgerMetadata) -> LedgerMetadata | None:
    opened = metadata.state is LedgerState.OPEN
    return metadata.with_state(LedgerState.IN_RECOVERY) if opened else None


def records(store: MemoryStore) -> StoredRecords:
    return StoredRecords(store, random.Random(0))


async def planted() -> RivalStore:
    store = RivalStore()
    await store.create(PATH, METADATA.encode())
    return store


@pytest.mark.parametrize(
    ("rivals", "lost", "vanished"), [(0, 0, 0), (3, 0, 0), (0, 1, 0), (1, 1, 2)]
)
def test_the_change_is_made(rivals: int, lost: int, vanished: int) -> None:
    async def main() -> None:
        store = await planted()
        store.rivals, store.lost, store.vanished = rivals, lost, vanished
        changed = await change_metadata(records(store), 7, fence)
        assert changed.metadata.state is LedgerState.IN_RECOVERY
        assert changed == await records(store).read(7)

    virtually(main)


def test_nothing_is_written_when_nothing_is_wanted() -> None:
    async def main() -> None:
        store = await planted()
        before = await records(store).read(7)
        assert await change_metadata(records(store), 7, lambda metadata: None) == before
        assert await records(store).read(7) == before

    virtually(main)


@pytest.mark.parametrize(
    ("fault", "error"), [("rivals", VersionConflictError), ("vanished", StoreOutcomeUnknownError)]
)
def test_it_gives_up_in_the_end(fault: str, error: type[Exception]) -> None:
    async def main() -> None:
        store = await planted()
        setattr(store, fault, CHANGE_ATTEMPTS_MAX)
        with pytest.raises(error):
            await change_metadata(records(store), 7, fence)
        assert (await records(store).read(7)).metadata == METADATA

    virtually(main)


def test_missing_and_damaged_records_are_told_apart() -> None:
    async def main() -> None:
        store = MemoryStore()
        with pytest.raises(NoSuchLedgerError):
            await change_metadata(records(store), 7, fence)
        await store.create(PATH, b"junk")
        with pytest.raises(CorruptRecordError, match=PATH):
            await records(store).read(7)

    virtually(main)
