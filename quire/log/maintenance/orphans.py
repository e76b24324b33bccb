"""Orphans: ledgers that no log lists any more. Rebuild: a manifest that was lost.

Every ledger of a log carries labels (`ledger_labels`): log, identity, epoch and segment number.

An *orphan* is left by a leader that crashed between creating a ledger and listing it. A ledger is
an orphan when a later epoch has begun, because its creator can no longer list it. It is also an
orphan when its log does not exist, it is empty, and it was closed before the log could list it. Its
age only spares takeovers that are under way; no clock decides. A log is deleted ledgers first.
So ledgers with records and no manifest mean that the manifest is lost, and it can be made from
them.

A manifest is *rebuilt* from the labels alone. The ledgers are recovered, so a leader that still
lives is fenced and deposed. Lost are trim points inside a segment, the log's options, the list
of ingested jobs, and whether the log was sealed.

An epoch may have been handed out as a fencing token, and a leader that wrote nothing left no
ledger with its epoch. But each leader created a ledger, and ids are given out once. So the
rebuilt log continues far above the last known epoch and the number of ids given out. It takes an
id itself, so that the next rebuild continues above that. No clock decides: it is unknown which
leader's clock was wrong. The remaining records tell the offsets in use. Without any record the
rebuilt log is a new log with an identity of its own: a client that continues by the old identity
gets an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from quire.entry import LedgerId
from quire.errors import (
    ConflictError,
    CorruptRecordError,
    ManifestExistsError,
    MissingPageError,
    NoSuchLedgerError,
    NoSuchLogError,
    QuireError,
)
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.metadata import LedgerMetadata
from quire.log.manifest.manifest import LogManifest, Segment
from quire.log.manifest.options import READ_NEEDS_PASSWORD
from quire.log.manifest.pages_at_hand import ask, lists
from quire.log.manifest.record import ManifestRecord, once
from quire.log.manifest.recovery import recover_segment
from quire.log.records.batch import decode_header
from quire.log.records.position import BEGINNING, Position
from quire.log.segment_store.ledgers import LedgerSegments
from quire.metastore.layout import log_path

FORSAKEN_SECONDS: Final = 3600.0
"""Age at which a gc looks at a ledger of a log that does not exist: takeovers last a minute."""

EPOCHS_PER_ID: Final = 1 << 16
"""Epochs skipped for each ledger id that was given out. A rebuild takes one id, so this many
takeovers may use ids of blocks drawn before it, and leave nothing, before the next rebuild."""

EPOCH_MAX: Final = (1 << 62) - 1
"""A batch stores its epoch in 63 bits: a rebuilt log keeps half of them for its future."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a ledger: the log it was made for."""

    log: str
    log_id: str
    epoch: int
    segment: int

    @classmethod
    def of(cls, custom_metadata: Mapping[str, str]) -> Labels | None:
        """Return the labels of a ledger, None when it was made for no log."""
        try:
            return cls(
                custom_metadata["log"],
                custom_metadata["log_id"],
                int(custom_metadata["epoch"]),
                int(custom_metadata["segment"]),
            )
        except (KeyError, ValueError):
            return None


def is_orphan(metadata: LedgerMetadata, manifest: LogManifest | None, now_ms: int) -> bool:
    """Whether no manifest lists a ledger of a log or ever will, unless the manifest is lost.
    Pure.

    A ledger of a doomed page counts as one, too: it is to be deleted anyway. Raises
    `PagesNeededError`.
    """
    labels = Labels.of(metadata.custom_metadata)
    if labels is None:
        return False
    if manifest is None or _is_anothers(labels, manifest):
        return now_ms - metadata.created_ms > FORSAKEN_SECONDS * 1000
    is_known = manifest.lists(metadata.ledger) or metadata.ledger in manifest.doomed
    return not is_known and labels.epoch < manifest.epoch


async def find_orphans(
    catalog: LedgerCatalog, describe: Callable[[str], Awaitable[LogManifest]], now_ms: int
) -> tuple[LedgerId, ...]:
    """Return the orphans among all ledgers. Each manifest is read after the ledger's metadata."""
    orphans = []
    async for metadata in catalog.each():
        labels = Labels.of(metadata.custom_metadata)
        if labels is None:
            continue
        try:
            manifest = await describe(labels.log)
        except NoSuchLogError:
            manifest = None
        if not await _is_orphan(metadata, manifest, now_ms):
            continue
        if _is_anothers(labels, manifest) and not await _is_given_up(catalog, describe, metadata):
            continue
        orphans.append(metadata.ledger)
    return tuple(orphans)


async def _is_orphan(metadata: LedgerMetadata, manifest: LogManifest | None, now_ms: int) -> bool:
    """As `is_orphan`. A ledger that cannot be read now is left to the next gc."""
    if manifest is None:
        return is_orphan(metadata, None, now_ms)
    try:
        return await ask(manifest, lambda: is_orphan(metadata, manifest, now_ms))
    except MissingPageError:
        return False


async def find_unlisted(
    catalog: LedgerCatalog, describe: Callable[[str], Awaitable[LogManifest]]
) -> dict[str, tuple[LedgerId, ...]]:
    """Return closed ledgers with records that no manifest lists, by log."""
    found: dict[str, tuple[LedgerId, ...]] = {}
    async for metadata in catalog.each():
        labels = Labels.of(metadata.custom_metadata)
        if labels is None or metadata.last_entry is None or metadata.last_entry < 0:
            continue
        manifest: LogManifest | None = None
        with suppress(NoSuchLogError):
            manifest = await describe(labels.log)
        if _is_anothers(labels, manifest):
            found[labels.log] = (*found.get(labels.log, ()), metadata.ledger)
    return found


def _is_anothers(labels: Labels, manifest: LogManifest | None) -> bool:
    """Whether a ledger's own log has no manifest; another log of its name may have one."""
    return manifest is None or manifest.log_id != labels.log_id


async def _is_given_up(
    catalog: LedgerCatalog,
    describe: Callable[[str], Awaitable[LogManifest]],
    metadata: LedgerMetadata,
) -> bool:
    """Whether a ledger of a log without a manifest is empty, and no leader can list it any more.

    Age decides nothing here, because a clock may be wrong. The ledger is closed first. A leader
    creates a manifest together with its open ledger's record, unchanged, or not at all; so either
    the manifest is there when it is read again, or it can never list this ledger.
    """
    if not await _is_empty(catalog, metadata):
        return False
    labels = Labels.of(metadata.custom_metadata)
    assert labels is not None
    with suppress(NoSuchLogError):
        return not await lists(await describe(labels.log), metadata.ledger)
    return True


async def _is_empty(catalog: LedgerCatalog, metadata: LedgerMetadata) -> bool:
    """Whether a ledger is certainly empty. An open ledger is recovered to decide."""
    if metadata.last_entry is None:
        try:
            async with await catalog.open(metadata.ledger) as reader:
                metadata = reader._metadata
        except QuireError:
            return False
    return metadata.last_entry is not None and metadata.last_entry < 0


async def rebuild_log(
    record: ManifestRecord,
    catalog: LedgerCatalog,
    password: bytes,
    now_ms: int,
    new_log_id: str,
    log_id: str | None = None,
) -> LogManifest:
    """Make the lost manifest of a log, and return it.

    Raises `ManifestExistsError`, `ConflictError` when another client deleted it at once, and the
    errors of `rebuild_manifest`. May be cancelled and repeated.
    """
    name = record.name
    if (await record.find())[0] is not None:
        raise ManifestExistsError(name)
    manifest = await rebuild_manifest(catalog, name, password, now_ms, new_log_id, log_id)

    def edit(found: LogManifest | None) -> LogManifest:
        if found is None:
            return manifest
        if (found.log_id, found.epoch) != (manifest.log_id, manifest.epoch):
            raise ManifestExistsError(name)
        return found

    reason = f"log {name!r} may have been made and deleted meanwhile: rebuild it again"
    return await record.edit(once(edit, ConflictError(reason)))


async def rebuild_manifest(
    catalog: LedgerCatalog,
    name: str,
    password: bytes,
    now_ms: int,
    new_log_id: str,
    log_id: str | None = None,
) -> LogManifest:
    """Return the lost manifest of a log, made anew. Raises `NoSuchLogError`.

    If several logs had the name, the log with records counts: a deleted log has none, and a
    creation that lost its race may have left a ledger. If several have records, the last one is
    unknown and `log_id` decides; without it `CorruptRecordError` names them. Ledgers with
    records become segments. An ingested ledger has no segment number, so a log with one cannot
    be rebuilt: `CorruptRecordError`. Without any segment the result is a new log, with offsets
    and txids that begin again. `now_ms` is only stored as the time of creation.
    """
    ledgers = await _ledgers_of(catalog, name)
    found = [(each, labels) for each in ledgers if (labels := Labels.of(each.custom_metadata))]
    if log_id is not None:
        found = [(each, labels) for each, labels in found if labels.log_id == log_id]
    if not found:
        raise NoSuchLogError(name)
    _check_parts(name, ledgers)
    lived = await _logs_with_records(catalog, found, password)
    _check_one(name, lived)
    log_id, segments = next(iter(lived.items()), (new_log_id, ()))
    own = [(each, labels) for each, labels in found if labels.log_id == log_id or not lived]
    mine = [labels for _, labels in own]
    was_guarded = any(each.read_needs_password for each, _ in own)
    next_segment = max(labels.segment for labels in mine) + 1
    manifest = LogManifest(
        name,
        log_id,
        now_ms,
        epoch=_epoch_bound(name, max(labels.epoch for labels in mine), await catalog.skip_id()),
        rows=segments,
        next_segment=next_segment,
        first_offset=segments[0].first_offset or 0 if segments else 0,
        trimmed_to=_trim_point(segments, next_segment),
        settings={READ_NEEDS_PASSWORD: "true"} if was_guarded else {},
    )
    if broken := manifest.check():
        reason = f"the ledgers that are left break {', '.join(broken)}: some are missing"
        raise CorruptRecordError(log_path(name), reason)
    return manifest


async def _logs_with_records(
    catalog: LedgerCatalog, found: Sequence[tuple[LedgerMetadata, Labels]], password: bytes
) -> dict[str, tuple[Segment, ...]]:
    """Return the segments of each log that has a record, by the log's identity."""
    lived = {}
    for log_id in dict.fromkeys(labels.log_id for _, labels in found):
        its = [(metadata, labels) for metadata, labels in found if labels.log_id == log_id]
        if segments := await _segments_of(catalog, its, password):
            lived[log_id] = segments
    return lived


def _check_one(name: str, lived: Mapping[str, Sequence[Segment]]) -> None:
    """Raise when several logs have records: ids and clocks do not order the creation of logs."""
    if len(lived) > 1:
        each = (
            f"{log_id} (ledgers {', '.join(str(segment.ledger) for segment in segments[:5])}"
            f"{', …' if len(segments) > 5 else ''})"
            for log_id, segments in lived.items()
        )
        raise CorruptRecordError(
            log_path(name),
            f"{len(lived)} logs of this name have records: {'; '.join(each)}; rebuild one of them "
            "by its id (`quire log rebuild --log-id`)",
        )


async def _segments_of(
    catalog: LedgerCatalog, ledgers: Sequence[tuple[LedgerMetadata, Labels]], password: bytes
) -> tuple[Segment, ...]:
    """Recover the ledgers of one log and return its segments: those with records."""
    segments = []
    for metadata, labels in sorted(
        ledgers, key=lambda each: (each[1].segment, each[1].epoch, each[0].ledger)
    ):
        first = await _first_offset(catalog, metadata.ledger, password)
        if first is None:
            continue
        open_one = Segment(
            labels.segment, metadata.ledger, labels.epoch, metadata.created_ms, first
        )
        end = await recover_segment(LedgerSegments(catalog), open_one, first, password)
        segments.append(replace(open_one, end=end))
    return tuple(segments)


def _epoch_bound(name: str, known: int, following: LedgerId) -> int:
    """Return an epoch that no leader has had, above a known one. `following` is above every ledger
    id that was given out.
    """
    bound = known + following * EPOCHS_PER_ID
    if bound > EPOCH_MAX:
        reason = f"epoch {known} and ledger id {following} leave no epoch for a rebuilt log"
        raise CorruptRecordError(log_path(name), reason)
    return bound


def _trim_point(segments: Sequence[Segment], next_segment: int) -> Position:
    """Return the start of the remaining records. A log that begins with offset 0 was not
    trimmed, whatever the number of its first segment: earlier segments may never have been
    written.
    """
    if not segments:
        return Position(next_segment, 0, 0)
    return BEGINNING if segments[0].first_offset == 0 else segments[0].start


async def _ledgers_of(catalog: LedgerCatalog, name: str) -> list[LedgerMetadata]:
    """Return the ledgers made for logs of this name, parts of jobs among them, by id."""
    found = []
    for ledger in sorted(await catalog.list()):
        with suppress(NoSuchLedgerError):  # of another log, deleted meanwhile
            metadata = await catalog.metadata(ledger)
            if metadata.custom_metadata.get("log") == name:
                found.append(metadata)
    return found


def _check_parts(name: str, ledgers: Iterable[LedgerMetadata]) -> None:
    """Raise for a part that may have been ingested: at an end of the log no gap would show it."""
    for each in ledgers:
        if "job" in each.custom_metadata and each.last_entry is not None and each.last_entry >= 0:
            raise CorruptRecordError(
                log_path(name),
                f"ledger {each.ledger} of job {each.custom_metadata['job']!r} may be a segment of "
                "the log, and nothing says which: delete it if the log can do without its records",
            )


async def _first_offset(catalog: LedgerCatalog, ledger: LedgerId, password: bytes) -> int | None:
    """Recover a ledger and return its first offset, None if it is empty."""
    async with await catalog.open(ledger, password=password) as reader:
        if await reader.last_confirmed() < 0:
            return None
        return decode_header((await reader.read_entry(0)).payload, ledger, 0).first_offset
