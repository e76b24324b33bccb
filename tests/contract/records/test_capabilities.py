"""What the records of some systems can do, and how those of others refuse it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from quire.errors import (
    NodeExistsError,
    NoSuchLedgerError,
    NoSuchNodeError,
    UnsupportedError,
    VersionConflictError,
)
from quire.ledger.domains import Placement
from quire.ledger.records import RecordsCapability
from quire.metastore.changes import Change, Create, Delete
from quire.metastore.cluster import Cluster
from quire.metastore.layout import CLUSTER, cookie_path
from tests.contract.capabilities import lacks, needs, unexamined
from tests.contract.records.subjects import SUBJECTS, Run, Subject
from tests.contract.records.test_records import metadata_of

NOTE: Sequence[Change] = (Create("/note", b"n"),)


@needs(RecordsCapability.TRANSACTIONS)
def test_a_record_and_its_note_change_together(run: Run) -> None:
    async def check(subject: Subject) -> None:
        await subject.one.create(metadata_of(7), NOTE)
        assert (await subject.store.get("/note")).value == b"n"
        with pytest.raises(NodeExistsError):
            await subject.one.create(metadata_of(8), NOTE)
        with pytest.raises(NoSuchLedgerError):
            await subject.other.read(8)
        with pytest.raises(NoSuchNodeError) as caught:
            await subject.one.delete(7, along=[Delete("/missing")])
        assert caught.value.path == "/missing"
        await subject.other.read(7)
        await subject.one.delete(7, along=[Delete("/note")])
        with pytest.raises(NoSuchNodeError):
            await subject.store.get("/note")

    run(check)


@needs(RecordsCapability.TRANSACTIONS)
def test_a_guard_lets_others_change_only_while_the_record_is_the_same(run: Run) -> None:
    async def check(subject: Subject) -> None:
        made = await subject.one.create(metadata_of(7))
        await subject.store.commit([Create("/one", b""), *subject.one.guard(made)])
        after = await subject.one.read(7)
        assert after.metadata == made.metadata
        await subject.other.change(made.metadata.closed(-1, 0), after.version)
        with pytest.raises(VersionConflictError):
            await subject.store.commit([Create("/two", b""), *subject.one.guard(after)])
        with pytest.raises(NoSuchNodeError):
            await subject.store.get("/two")

    run(check)


@lacks(RecordsCapability.TRANSACTIONS)
def test_a_note_along_with_a_record_is_refused(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(UnsupportedError, match=RecordsCapability.TRANSACTIONS.value):
            await subject.one.create(metadata_of(7), NOTE)
        with pytest.raises(NoSuchLedgerError):
            await subject.other.read(7)
        made = await subject.one.create(metadata_of(7))
        with pytest.raises(UnsupportedError, match=RecordsCapability.TRANSACTIONS.value):
            await subject.one.delete(7, along=NOTE)
        with pytest.raises(UnsupportedError, match=RecordsCapability.TRANSACTIONS.value):
            subject.one.guard(made)
        assert await subject.other.read(7) == made
        with pytest.raises(NoSuchNodeError):
            await subject.store.get("/note")

    run(check)


@needs(RecordsCapability.CUSTOM, RecordsCapability.POLICY, RecordsCapability.TOKEN)
def test_a_record_keeps_everything(run: Run) -> None:
    async def check(subject: Subject) -> None:
        custom = {"owner": "me"}
        wanted = replace(
            metadata_of(7),
            custom_metadata=custom,
            full_quorum=True,
            placement=Placement.parse("require=rack:2"),
            token="t",
        )
        await subject.one.create(wanted)
        assert (await subject.other.read(7)).metadata == wanted

    run(check)


@lacks(RecordsCapability.CUSTOM)
def test_custom_metadata_is_refused(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(UnsupportedError, match=RecordsCapability.CUSTOM.value):
            await subject.one.create(replace(metadata_of(7), custom_metadata={"owner": "me"}))
        with pytest.raises(NoSuchLedgerError):
            await subject.one.read(7)

    run(check)


@lacks(RecordsCapability.POLICY)
def test_a_policy_for_closing_or_placement_is_refused(run: Run) -> None:
    async def check(subject: Subject) -> None:
        for policy in ({"full_quorum": True}, {"placement": Placement.parse("require=rack:2")}):
            with pytest.raises(UnsupportedError, match=RecordsCapability.POLICY.value):
                await subject.one.create(replace(metadata_of(7), **policy))
        with pytest.raises(NoSuchLedgerError):
            await subject.one.read(7)

    run(check)


@lacks(RecordsCapability.TOKEN)
def test_without_tokens_no_client_takes_a_record_for_its_own(run: Run) -> None:
    """A record of another client that came first has another token, or none."""

    async def check(subject: Subject) -> None:
        await subject.one.create(replace(metadata_of(7), token="mine"))
        assert (await subject.one.read(7)).metadata.token == ""

    run(check)


async def put_back(subject: Subject) -> None:
    """Leave the store as a restore and an adoption do."""
    await subject.store.create(CLUSTER, Cluster("c", incarnation=1).encode())
    await subject.store.create(cookie_path("b9"), b"")


@needs(RecordsCapability.INCARNATIONS)
def test_a_ledger_of_before_a_restore_makes_every_bookie_suspect(run: Run) -> None:
    async def check(subject: Subject) -> None:
        old = await subject.one.create(metadata_of((await subject.one.next_id()).ledger))
        await put_back(subject)
        assert list(await subject.one.suspects(old.metadata)) == ["b9"]
        new = await subject.other.next_id()
        assert new.incarnation == 1
        young = replace(metadata_of(new.ledger), incarnation=new.incarnation)
        assert list(await subject.one.suspects((await subject.one.create(young)).metadata)) == []

    run(check)


@lacks(RecordsCapability.INCARNATIONS)
def test_without_incarnations_no_bookie_is_suspect(run: Run) -> None:
    async def check(subject: Subject) -> None:
        old = await subject.one.create(metadata_of(7))
        await put_back(subject)
        assert list(await subject.one.suspects(old.metadata)) == []

    run(check)


def test_every_capability_that_may_be_missing_is_examined() -> None:
    tests = [each for _, each in inspect.getmembers(sys.modules[__name__], inspect.isfunction)]
    subjects = {name: each.capabilities for name, each in SUBJECTS.items()}
    assert unexamined(tests, subjects, RecordsCapability) == []
    assert unexamined([], subjects, RecordsCapability) == sorted(
        each.name for each in RecordsCapability
    )
