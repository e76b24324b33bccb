"""The bytes of a manifest's record, in its three versions, and the invariants of its content.

    version 1   all segments as rows, and the jobs
    version 2   the same, of a log that has tiers
    version 3   the head of a paged manifest: the youngest segments as rows, references to pages
                of the older ones (page_tree.py); jobs have a record of their own

Pure: no clock and no I/O. Source: docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from quire.errors import CorruptRecordError
from quire.log.manifest.ages import NO_AGES, ages_of_row
from quire.log.manifest.holder import holder_of_row
from quire.log.manifest.jobs import Forgotten, job_from_row
from quire.log.manifest.page import Summary, follow_each_other, reference_from_row
from quire.log.manifest.page_tree import NO_BORDER, Border, Levels, Place, places_of
from quire.log.manifest.schema import FIELDS, NO_SETTINGS, check_types
from quire.log.manifest.segment import segment_from_row
from quire.log.records.position import Position
from quire.metastore.record import Encoded, RecordFormat, encode_value

Manifest: TypeAlias = Any
"""A `LogManifest`: its module imports this one."""

VERSION: Final = 1
COLD_VERSION: Final = 2
PAGED_VERSION: Final = 3
FORMAT: Final = RecordFormat("log", FIELDS, (VERSION, COLD_VERSION, PAGED_VERSION))

OPEN_SEGMENTS_MAX: Final = 2
FIRST_SEGMENT: Final = 1

_PAGED: Final = ("levels", "border", "doomed_pages")
_JOBS: Final = ("jobs", "forgotten_jobs")


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the record of a manifest."""
    body = {name: getattr(manifest, name) for name in FIELDS - {"segments", *_PAGED}}
    body["segments"] = [each.row(manifest.tiers) for each in manifest.rows]
    body["trimmed_to"] = str(manifest.trimmed_to)
    body["settings"] = dict(manifest.settings)
    body["ages"] = manifest.ages.row()
    if manifest.ages == NO_AGES:
        del body["ages"]
    if not manifest.retired:
        del body["retired"]
    if manifest.holder is None:
        del body["holder"]
    else:
        body["holder"] = manifest.holder.row()
    if not manifest.trimmed_timestamp_ms:
        del body["trimmed_timestamp_ms"]
    if manifest.is_paged:
        return FORMAT.encode(_paged_body(manifest, body), manifest.unknown, PAGED_VERSION)
    body["jobs"] = [each.row() for each in manifest.jobs]
    if not manifest.forgotten_jobs:
        del body["forgotten_jobs"]
    if manifest.tiers:
        return FORMAT.encode(body, manifest.unknown, COLD_VERSION)
    del body["tiers"], body["doomed_files"]
    return FORMAT.encode(body, manifest.unknown)


def _paged_body(manifest: Manifest, body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a head: empty ones are left out."""
    for name in _JOBS:
        del body[name]
    for name in ("tiers", "doomed_files"):
        if not body[name]:
            del body[name]
    if manifest.levels:
        body["levels"] = _level_rows(manifest.levels)
        body["border"] = list(manifest.border)
    if manifest.doomed_pages:
        rows = [[each.level, each.reference.row()] for each in manifest.doomed_pages]
        body["doomed_pages"] = rows
    return body


@lru_cache(maxsize=16)
def _level_rows(levels: Levels) -> Encoded:
    """Return the rows of references: most changes of a head leave them as they are."""
    return encode_value([[each.row() for each in level] for level in levels])


@lru_cache(maxsize=16)
def _summaries(levels: Levels) -> tuple[tuple[Summary, ...], bool]:
    """Return the summaries of a head's pages, the oldest first, and whether they continue each
    other.
    """
    found = tuple(each.reference.of for each in places_of(levels))
    return found, follow_each_other(found)


def decode_manifest(path: str, data: bytes) -> dict[str, Any]:
    """Return the fields of the manifest of a record. Raises `CorruptRecordError`."""
    version, body, unknown = FORMAT.decode(path, data)
    try:
        check_types(body)
        body["tiers"] = tuple(body.get("tiers", ()))
        body["doomed_files"] = tuple(body.get("doomed_files", ()))
        _check_version(version, body)
        segments = body.pop("segments")
        body["rows"] = tuple(segment_from_row(row, body["tiers"]) for row in segments)
        body["settings"] = body["settings"] or NO_SETTINGS
        body["trimmed_to"] = Position.parse(body["trimmed_to"])
        body["doomed"] = tuple(body["doomed"])
        body["jobs"] = tuple(map(job_from_row, body.get("jobs", ())))
        forgotten = body.get("forgotten_jobs", ())
        body["forgotten_jobs"] = tuple(Forgotten(*row) for row in forgotten)
        if "holder" in body:
            body["holder"] = holder_of_row(body["holder"])
        if "ages" in body:
            body["ages"] = ages_of_row(body["ages"])
        if version == PAGED_VERSION:
            body |= _paged_fields(body)
    except (TypeError, ValueError, KeyError) as error:
        raise CorruptRecordError(path, f"not a log manifest: {error}") from error
    return {**body, "unknown": unknown}


def _check_version(version: int, body: dict[str, Any]) -> None:
    """Raise `ValueError` for fields that a record of this version does not have."""
    foreign: Sequence[str] = _JOBS if version == PAGED_VERSION else _PAGED
    found = [name for name in foreign if name in body]
    if version != PAGED_VERSION and (version == COLD_VERSION) != bool(body["tiers"]):
        raise ValueError(f"version {version} with {len(body['tiers'])} tiers")
    if found:
        raise ValueError(f"version {version} with {', '.join(found)}")


def _paged_fields(body: dict[str, Any]) -> dict[str, Any]:
    levels = [tuple(map(reference_from_row, level)) for level in body.get("levels", ())]
    doomed = body.get("doomed_pages", ())
    return {
        "is_paged": True,
        "has_jobs": False,
        "levels": tuple(levels),
        "border": Border(*body.get("border", NO_BORDER)),
        "doomed_pages": tuple(Place(level, reference_from_row(row)) for level, row in doomed),
    }


def broken_invariants(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the invariants that do not hold; empty when all is well."""
    rows = manifest.rows
    pairs = list(pairwise(rows))
    ledgers = [*(each.ledger for each in rows if each.is_hot), *manifest.doomed]
    open_ones = manifest.open_segments
    of, _ = _summaries(manifest.levels)
    starts = [of[-1].end_offset if of else manifest.first_offset]
    starts += [each.end_offset for each in rows]
    ids = [manifest.trimmed_transaction, *(each.last_txid for each in of)]
    ids += [each.end.last_txid for each in rows if each.end]
    numbers: Sequence[int] = [*(each.last for each in of), *(each.number for each in rows)]
    holds = {
        "numbers": all(one < other for one, other in pairwise(numbers))
        and all(FIRST_SEGMENT <= each < manifest.next_segment for each in numbers),
        "epochs": all(one.epoch <= other.epoch for one, other in pairs)
        and all(each.epoch <= manifest.epoch for each in rows),
        "ledgers": len(set(ledgers)) == len(ledgers),
        "two-open": len(open_ones) <= OPEN_SEGMENTS_MAX
        and rows[len(rows) - len(open_ones) :] == open_ones,
        "offsets": [each.first_offset for each in rows] == starts[:-1],
        "transactions": ids == sorted(ids),
        "sealed": not (manifest.sealed and open_ones),
        "trim": manifest.trimmed_to <= Position(manifest.next_segment, 0, 0),
        "cold": all(each.end for each in rows if each.cold),
        "ages": manifest.ages.check(),
        "pages": not of or _pages_hold(manifest),
    }
    return tuple(name for name, held in holds.items() if not held)


def _pages_hold(manifest: Manifest) -> bool:
    """Whether the pages that the head names continue each other, up to sealed rows, and the log
    begins in the oldest.
    """
    of, is_whole = _summaries(manifest.levels)
    rows, border, oldest = manifest.rows, manifest.border, of[0]
    return (
        manifest.is_paged
        and bool(manifest.levels[-1])
        and bool(rows)
        and rows[0].end is not None
        and is_whole
        and oldest.first <= border.first <= oldest.last
        and oldest.first_offset <= manifest.first_offset < oldest.end_offset
        and 0 <= border.segments < oldest.segments
        and 0 <= border.bytes <= oldest.bytes
    )
