"""What some segment stores can do, and how the others refuse it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from quire.errors import (
    NoSuchLedgerError,
    NoSuchNodeError,
    UnsupportedError,
    VersionConflictError,
)
from quire.ledger.domains import Placement
from quire.log.records.encryption import Encryption
from quire.log.records.keyring import Keyring
from quire.log.segment_store.port import SegmentCapability, SegmentOptions
from quire.metastore.changes import Change, Create, Delete
from tests.contract.capabilities import lacks, needs, unexamined
from tests.contract.segments.subjects import SUBJECTS, Run, Subject

WANTED = SegmentOptions()
NOTE: Sequence[Change] = (Create("/note", b"n"),)
KEYRING = Keyring({"a": bytes(32)}, current="a")


@needs(SegmentCapability.TRANSACTIONS)
def test_a_segment_and_its_note_change_together(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await subject.one.create(WANTED, lambda ledger: [Create(f"/note-{ledger}", b"")])
        note = f"/note-{sink.ledger}"
        assert (await subject.store.get(note)).value == b""
        await sink.close()
        with pytest.raises(NoSuchNodeError):
            await subject.other.delete(sink.ledger, [Delete("/missing")])
        await (await subject.other.open(sink.ledger)).close()
        await subject.other.delete(sink.ledger, [Delete(note)])
        with pytest.raises(NoSuchNodeError):
            await subject.store.get(note)
        with pytest.raises(NoSuchLedgerError):
            await subject.one.open(sink.ledger)

    run(check)


@needs(SegmentCapability.TRANSACTIONS)
def test_a_guard_fails_once_another_client_sealed_the_segment(run: Run) -> None:
    async def check(subject: Subject) -> None:
        kept, taken = await subject.one.create(WANTED), await subject.one.create(WANTED)
        await subject.store.commit([Create("/kept", b""), *kept.guard()])
        await (await subject.other.seal(taken.ledger)).close()
        with pytest.raises(VersionConflictError):
            await subject.store.commit([Create("/taken", b""), *taken.guard()])
        for sink in (kept, taken):
            sink.abandon()

    run(check)


@lacks(SegmentCapability.TRANSACTIONS)
def test_changes_along_with_a_segment_are_refused(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await subject.one.create(WANTED)
        named = SegmentCapability.TRANSACTIONS.name.lower()
        with pytest.raises(UnsupportedError, match=named):
            await subject.one.create(WANTED, lambda ledger: NOTE)
        with pytest.raises(UnsupportedError, match=named):
            sink.guard()
        await sink.close()
        with pytest.raises(UnsupportedError, match=named):
            await subject.one.delete(sink.ledger, NOTE)
        await (await subject.other.open(sink.ledger)).close()
        with pytest.raises(NoSuchNodeError):
            await subject.store.get("/note")

    run(check)


@needs(SegmentCapability.LABELS)
def test_a_segment_keeps_its_labels_and_a_salt_of_its_own(run: Run) -> None:
    async def check(subject: Subject) -> None:
        wanted = replace(WANTED, labels={"log": "a"})
        sinks = [await subject.one.create(wanted) for _ in range(2)]
        for sink in sinks:
            async with await subject.other.open(sink.ledger) as source:
                assert source.facts == sink.facts
                assert source.facts.labels == {"log": "a"}
                assert len(source.facts.salt) == 16
            assert subject.one.fits(sink, wanted)
            assert not subject.one.fits(sink, WANTED)
            assert Encryption.of(KEYRING, sink.facts) is not None
            await sink.close()
        assert sinks[0].facts.salt != sinks[1].facts.salt

    run(check)


@lacks(SegmentCapability.LABELS)
def test_labels_are_refused_and_without_a_salt_nothing_is_encrypted(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(UnsupportedError):
            await subject.one.create(replace(WANTED, labels={"log": "a"}))
        sink = await subject.one.create(WANTED)
        assert (sink.facts.labels, sink.facts.salt) == ({}, b"")
        assert Encryption.of(None, sink.facts) is None
        with pytest.raises(UnsupportedError, match="salt"):
            Encryption.of(KEYRING, sink.facts)
        await sink.close()

    run(check)


POLICY = Placement.parse("require=rack:1")


@needs(SegmentCapability.POLICY)
def test_a_segment_of_another_policy_does_not_fit(run: Run) -> None:
    async def check(subject: Subject) -> None:
        sink = await subject.one.create(WANTED)
        assert not subject.one.fits(sink, replace(WANTED, placement=POLICY))
        await sink.close()

    run(check)


@lacks(SegmentCapability.POLICY)
def test_a_policy_of_placement_is_refused(run: Run) -> None:
    async def check(subject: Subject) -> None:
        with pytest.raises(UnsupportedError):
            await subject.one.create(replace(WANTED, placement=Placement.parse("prefer=rack:1")))

    run(check)


@needs(SegmentCapability.PARTS)
def test_where_ledgers_are_segments_they_have_transactions(run: Run) -> None:
    """A part's ledger and its note are made together (quire/log/maintenance/ingest.py)."""

    async def check(subject: Subject) -> None:
        assert SegmentCapability.TRANSACTIONS in subject.one.capabilities

    run(check)


def test_every_capability_that_may_be_missing_is_examined() -> None:
    tests = [each for _, each in inspect.getmembers(sys.modules[__name__], inspect.isfunction)]
    subjects = {name: able for name, (_, able) in SUBJECTS.items()}
    refused_elsewhere = [SegmentCapability.PARTS.name]  # tests/log/test_other_engines.py
    assert unexamined(tests, subjects, SegmentCapability) == refused_elsewhere
