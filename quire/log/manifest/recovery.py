"""Shared steps of processes that change a log's list of segments: recovery, access, labels.

A takeover, the ingest of a job's ledgers and the search for orphans all end open segments in the
same way, and ask the same questions before they do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final

from quire.entry import EntryId, LedgerId
from quire.errors import CorruptEntryError, LogBeingDeletedError, LogSealedError, NoSuchLedgerError
from quire.ledger.catalog import LedgerCatalog
from quire.log.manifest.manifest import EMPTY, LogManifest, Segment, SegmentEnd
from quire.log.manifest.options import LogOptions, of_log
from quire.log.records.batch import decode_header
from quire.log.records.encryption import last_txid_of
from quire.log.records.keyring import Keyring
from quire.log.segment_store.port import (
    SegmentCapability,
    SegmentFacts,
    SegmentOptions,
    SegmentStore,
)

_log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 100
"""Lost races in one takeover; with pauses up to 2 s the time limit usually comes first."""

KEY_LABEL: Final = "key"
"""The label of a ledger that names the key of its first batches."""

OTHER_BYTES: Final = (
    "recovery kept other bytes than this leader sent: does the ledger's id mean two ledgers? "
    "`quire metadata check` compares ledgers"
)


async def recover_segment(
    segments: SegmentStore, segment: Segment, first_offset: int, password: bytes
) -> SegmentEnd:
    """Fence and close a segment's ledger and return how it ended.

    Raises the ledger's errors; `CorruptEntryError` when the last entry cannot belong there.
    """
    reader = await segments.seal(segment.ledger, password=password)
    try:
        last = await reader.last_confirmed()
        if last < 0:
            return EMPTY
        payload = (await reader.read_entry(last)).payload
        length = reader.facts.length or 0
    finally:
        await reader.close()
    header = decode_header(payload, segment.ledger, last)
    txid = last_txid_of(payload, segment.ledger, last)
    if header.epoch != segment.epoch or header.first_offset < first_offset + last:
        raise CorruptEntryError(
            segment.ledger,
            last,
            f"epoch {header.epoch}, offset {header.first_offset} cannot be in a segment of "
            f"epoch {segment.epoch} that starts at offset {first_offset}",
        )
    records = header.next_offset - first_offset
    return SegmentEnd(last, header.count, records, length, header.timestamp_ms, txid)


async def check_kept(
    segments: SegmentStore,
    ledger: LedgerId,
    first: EntryId,
    payloads: Sequence[bytes],
    password: bytes,
) -> None:
    """Compare entries of a closed ledger, from `first` on, with what a leader sent as them.

    An entry's id does not prove its bytes: in a store that went back in time a ledger's id may mean
    two ledgers, and bookies keep the first bytes that they get for an entry.

    Raises `CorruptEntryError` for the first entry with other bytes, and the ledger's errors.
    """
    reader = await segments.seal(ledger, password=password)
    last = first + len(payloads) - 1
    async with reader, aclosing(reader.read_runs(first, last)) as runs:
        async for run in runs:
            for entry in run:
                if entry.payload != payloads[entry.entry - first]:
                    raise CorruptEntryError(ledger, entry.entry, OTHER_BYTES)


async def recover_open_segments(
    segments: SegmentStore, manifest: LogManifest, password: bytes
) -> dict[int, SegmentEnd]:
    """Recover the open segments, oldest first, and return the ends by segment number."""
    ends: dict[int, SegmentEnd] = {}
    offset = None
    for segment in manifest.open_segments:
        offset = segment.first_offset if offset is None else offset
        assert offset is not None, "the first open segment knows where it starts"
        ends[segment.number] = await recover_segment(segments, segment, offset, password)
        offset += ends[segment.number].records
        _log.info(
            "log %r: recovered segment %d, ledger %d, to entry %d",
            *(manifest.name, segment.number, segment.ledger, ends[segment.number].last_entry),
        )
    return ends


async def find_last_txid(segments: SegmentStore, manifest: LogManifest, password: bytes) -> int:
    """Return the last txid of a log, as far as it is announced; `NO_TXID` when it
    has none. A leader that took over now would begin after it. Never fences.

    Raises the ledger's errors.
    """
    for segment in reversed(manifest.open_segments):
        async with await segments.open(segment.ledger, password=password) as reader:
            last = await reader.last_confirmed()
            if last >= 0:
                payload = (await reader.read_entry(last)).payload
                return last_txid_of(payload, segment.ledger, last)
    return manifest.last_txid


async def check_password(
    segments: SegmentStore, manifest: LogManifest, password: bytes
) -> SegmentFacts | None:
    """Return the facts of a log's last segment, None when there is none, or no more.

    Raises `UnauthorizedError` for a password that is not the ledger's: no reader could read a log
    with different passwords.
    """
    if manifest.tail is None:
        return None
    try:
        reader = await segments.open(manifest.tail.ledger, password=password)
    except NoSuchLedgerError:
        return None  # recovery will find out why
    async with reader:
        return reader.facts


def ledger_labels(
    manifest: LogManifest, epoch: int, keyring: Keyring | None = None
) -> dict[str, str]:
    """Custom metadata of a log's next ledger: enough to rebuild a lost manifest, and the id of the
    key that its first batches are encrypted with.
    """
    labels = {
        "log": manifest.name,
        "log_id": manifest.log_id,
        "epoch": str(epoch),
        "segment": str(manifest.next_segment),
    }
    if keyring is not None and keyring.current is not None:
        labels[KEY_LABEL] = keyring.current
    return labels


def segment_options(
    options: LogOptions, manifest: LogManifest, epoch: int, segments: SegmentStore
) -> SegmentOptions:
    """Return how a log's next segment is to be stored, with labels where the store keeps some."""
    keeps_labels = SegmentCapability.LABELS in segments.capabilities
    return SegmentOptions(
        options.replication,
        options.password,
        options.digest,
        ledger_labels(manifest, epoch, options.keyring) if keeps_labels else {},
        options.placement,
        options.read_needs_password,
        manifest.log_id.encode(),
    )


async def check_settings(catalog: LedgerCatalog, settings: Mapping[str, str]) -> None:
    """Raise for options that a log cannot have: `ConfigurationError` for a value that makes no
    sense, and as `LedgerCatalog.check_read_password` where reads are to need the password.
    """
    if of_log({name: text for name, text in settings.items() if text}).read_needs_password:
        await catalog.check_read_password()


def check_writable(manifest: LogManifest) -> None:
    """Raise `LogBeingDeletedError` or `LogSealedError` for a log that takes no new segments."""
    if manifest.retired:
        raise LogBeingDeletedError(manifest.name)
    if manifest.sealed:
        raise LogSealedError(manifest.name)
