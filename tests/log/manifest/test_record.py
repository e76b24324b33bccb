"""The manifest in the store: edits survive conflicts and lost answers, and are honest otherwise."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from quire.errors import (
    ConflictError,
    CorruptRecordError,
    NoSuchLogError,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    VersionConflictError,
)
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.record import EDIT_ATTEMPTS_MAX, Edit, ManifestRecord
from quire.metastore.memory import MemoryStore
from tests.support.faulty_store import FaultyStore
from tests.support.log_cluster import NAME, PATH, lose_answer, refuse, run


def _add(name: str) -> Edit:
    """An edit that knows its own work: a setting of this name."""

    def edit(manifest: LogManifest | None) -> LogManifest:
        manifest = manifest or LogManifest(NAME, "id", 0)
        return manifest.set_options({**manifest.settings, name: "1"})

    return edit


def _record() -> tuple[FaultyStore, ManifestRecord]:
    store = FaultyStore(MemoryStore())
    return store, ManifestRecord(store, NAME, Random(7))


def test_edits_of_many_clients_all_arrive() -> None:
    async def main() -> None:
        _, record = _record()
        assert await record.find() == (None, None)
        with pytest.raises(NoSuchLogError):
            await record.read()
        names = [f"s{number}" for number in range(20)]
        await asyncio.gather(*(record.edit(_add(name)) for name in names))
        manifest, _ = await record.read()
        assert sorted(manifest.settings) == sorted(names)

    run(main)


@pytest.mark.parametrize("method", ["create", "put"])
def test_a_lost_answer_is_settled_by_reading_again(method: str) -> None:
    async def main() -> None:
        store, record = _record()
        if method == "put":
            await record.edit(_add("first"))
        store.after = lose_answer(method)
        assert "mine" in (await record.edit(_add("mine"))).settings
        writes: list[str] = []

        async def before(called: str, path: str) -> None:
            writes.append(called)

        store.before = before
        await record.edit(_add("mine"))
        assert writes == ["get"], "an edit that is done writes nothing"

    run(main)


def test_what_an_edit_raises_is_final() -> None:
    async def main() -> None:
        _, record = _record()
        asked: list[LogManifest | None] = []

        def refuses(manifest: LogManifest | None) -> LogManifest:
            asked.append(manifest)
            raise ConflictError("not now")

        with pytest.raises(ConflictError, match="not now"):
            await record.edit(refuses)
        assert asked == [None]

    run(main)


def test_what_could_not_be_settled_is_unknown_and_what_was_not_tried_is_not() -> None:
    async def main() -> None:
        store, record = _record()
        store.before = refuse()
        with pytest.raises(StoreUnavailableError):
            await record.edit(_add("mine"))
        store.before = refuse("nothing")

        async def lose_then_refuse(method: str, path: str) -> None:
            if method == "create":
                store.before = refuse()
                raise StoreOutcomeUnknownError(path, "lost")

        store.after = lose_then_refuse
        with pytest.raises(StoreOutcomeUnknownError):
            await record.edit(_add("mine"))

    run(main)


def test_an_unknown_outcome_stays_one_when_what_an_edit_looks_at_cannot_be_asked() -> None:
    async def main() -> None:
        store, record = _record()
        await record.edit(_add("first"))
        store.after = lose_answer("put")
        looks = []

        async def look() -> None:
            looks.append(await store.get(PATH))
            if len(looks) > 1:
                raise StoreUnavailableError("faulty:", "refused by order of the test")

        with pytest.raises(StoreOutcomeUnknownError):
            await record.edit(_add("mine"), look=look)
        assert "mine" in (await record.read())[0].settings

    run(main)


def test_endless_conflicts_end() -> None:
    async def main() -> None:
        store, record = _record()
        await record.edit(_add("first"))
        tries = []

        async def before(method: str, path: str) -> None:
            if method == "put":
                tries.append(path)
                raise VersionConflictError(path, 0)

        store.before = before
        with pytest.raises(ConflictError, match="changed 64 times"):
            await record.edit(_add("mine"))
        assert tries == [PATH] * EDIT_ATTEMPTS_MAX

    run(main)


def test_what_an_edit_raises_comes_through_and_nothing_is_written() -> None:
    def refuse_all(manifest: LogManifest | None) -> LogManifest:
        raise ValueError("no")

    async def main() -> None:
        _, record = _record()
        with pytest.raises(ValueError, match="no"):
            await record.edit(refuse_all)
        assert await record.find() == (None, None)

    run(main)


def test_a_damaged_manifest_is_named() -> None:
    async def main() -> None:
        store, record = _record()
        await store.create(PATH, b"noise")
        with pytest.raises(CorruptRecordError, match=PATH):
            await record.read()

    run(main)
