"""Records of ledgers: made once, changed by compare-and-set, listed, watched, deleted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quire.entry import OPEN_KEY, DigestKind, key_check
from quire.errors import NodeExistsError, NoSuchLedgerError, VersionConflictError
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication
from quire.metastore.layout import LEDGER_ID_MAX, LEDGERS_PER_SHARD
from tests.contract.records.subjects import Run, Subject

SOON = 5.0


def metadata_of(ledger: int) -> LedgerMetadata:
    fragments = (Fragment(0, ("b1", "b2")),)
    return LedgerMetadata(
        ledger, Replication(2, 2, 1), DigestKind.CRC32C, key_check(OPEN_KEY), fragments
    )


def test_a_record_is_read_as_it_was_made(run: Run) -> None:
    async def check(subject: Subject) -> None:
        wanted = metadata_of(7)
        made = await subject.one.create(wanted)
        assert made == await subject.other.read(7)
        assert replace(made.metadata, token="") == wanted
        with pytest.raises(NodeExistsError):
            await subject.other.create(metadata_of(7))
        assert await subject.one.read(7) == made

    run(check)


def test_a_change_is_a_compare_and_set(run: Run) -> None:
    async def check(subject: Subject) -> None:
        made = await subject.one.create(metadata_of(7))
        fenced = made.metadata.with_state(LedgerState.IN_RECOVERY)
        changed = await subject.other.change(fenced, made.version)
        assert changed.version > made.version
        with pytest.raises(VersionConflictError):
            await subject.one.change(made.metadata.closed(-1, 0), made.version)
        assert await subject.one.read(7) == changed
        assert changed.metadata.state is LedgerState.IN_RECOVERY

    run(check)


def test_a_ledger_without_a_record_is_told_by_its_name(run: Run) -> None:
    async def check(subject: Subject) -> None:
        for call in (
            subject.one.read(7),
            subject.one.change(metadata_of(7), 1),
            subject.one.delete(7),
        ):
            with pytest.raises(NoSuchLedgerError) as caught:
                await call
            assert caught.value.ledger == 7
        assert "7" in subject.one.name(7)
        assert subject.one.uri

    run(check)


def test_a_deletion_is_of_the_version_named(run: Run) -> None:
    async def check(subject: Subject) -> None:
        made = await subject.one.create(metadata_of(7))
        later = await subject.other.change(made.metadata.closed(-1, 0), made.version)
        with pytest.raises(VersionConflictError):
            await subject.one.delete(7, made.version)
        await subject.one.delete(7, later.version)
        await subject.one.create(metadata_of(8))
        await subject.other.delete(8)
        for ledger in (7, 8):
            with pytest.raises(NoSuchLedgerError):
                await subject.other.read(ledger)

    run(check)


def test_lists_are_pages_in_the_order_of_ids(run: Run) -> None:
    async def check(subject: Subject) -> None:
        ids = [0, 1, LEDGERS_PER_SHARD - 1, LEDGERS_PER_SHARD, 5 * LEDGERS_PER_SHARD, LEDGER_ID_MAX]

        async def listed(after: int = -1) -> list[int]:
            return [each async for page in subject.other.list(after) for each in page]

        assert await listed() == []
        for ledger in reversed(ids):
            await subject.one.create(metadata_of(ledger))
        assert await listed() == ids
        for place, ledger in enumerate(ids):
            assert await listed(ledger) == ids[place + 1 :]
        await subject.one.delete(ids[3])
        assert await listed() == [*ids[:3], *ids[4:]]

    run(check)


def test_a_wait_ends_when_the_record_moves_on(run: Run) -> None:
    async def check(subject: Subject) -> None:
        one, other = subject.one, subject.other
        made = await one.create(metadata_of(7))
        waiting = asyncio.create_task(one.wait(7, made.version))
        changed = await other.change(made.metadata.closed(-1, 0), made.version)
        async with asyncio.timeout(SOON):
            await waiting
            await one.wait(7, made.version)  # the change was before the wait
        waiting = asyncio.create_task(one.wait(7, changed.version))
        await other.delete(7)
        async with asyncio.timeout(SOON):
            await waiting

    run(check)


def test_ids_are_given_out_once(run: Run) -> None:
    async def check(subject: Subject) -> None:
        taken = [(await each.next_id()).ledger for each in (subject.one, subject.other) * 20]
        assert len(set(taken)) == len(taken)
        skipped = await subject.one.skip_id()
        assert skipped > max(taken)
        assert (await subject.one.next_id()).ledger != skipped

    run(check)


def test_a_store_that_never_went_back_suspects_no_bookie(run: Run) -> None:
    async def check(subject: Subject) -> None:
        made = await subject.one.create(metadata_of((await subject.one.next_id()).ledger))
        assert list(await subject.one.suspects(made.metadata)) == []

    run(check)
