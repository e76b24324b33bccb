"""Safeguards of the log: take-over, roll, trim, and what a follower waits for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partialmethod
from typing import Any

from quire.errors import NoSuchLedgerError, QuireError, StoreOutcomeUnknownError
from quire.log import directory
from quire.log.leader import log, pipeline, producer_state, roller, takeover
from quire.log.leader import segments as chain
from quire.log.leader.takeover import LostRaceError
from quire.log.maintenance import cursors, orphans
from quire.log.manifest import jobs, manifest, recovery
from quire.log.manifest import record as manifest_record
from quire.log.reading import gaps, reader, search, snapshot, start
from quire.log.records import producers
from quire.log.records.position import LATEST
from tests.sim.ablations.patch import Patch


class _Peeking:
    """A store of segments that opens instead of sealing."""

    def __init__(self, segments: Any) -> None:
        self._segments = segments

    async def seal(self, ledger: int, *, password: bytes) -> Any:
        return await self._segments.open(ledger, password=password)


async def _recover_some(is_recovered: Any, catalog: Any, manifest: Any, *rest: Any) -> Any:
    ends, offset = {}, None
    for segment in manifest.open_segments:
        offset = segment.first_offset if offset is None else offset
        chosen: Any = catalog if is_recovered(segment) else _Peeking(catalog)
        ends[segment.number] = await recovery.recover_segment(chosen, segment, offset, *rest)
        offset += ends[segment.number].records
    return ends


async def without_recovery(catalog: Any, manifest: Any, *rest: Any) -> Any:
    """Find the ends of open segments as a reader would."""
    return await _recover_some(lambda segment: False, catalog, manifest, *rest)


def fence_only_the_last_ledger() -> list[Patch]:
    async def recover_open(catalog: Any, manifest: Any, *rest: Any) -> Any:
        last = manifest.open_segments[-1:]
        return await _recover_some(lambda segment: segment in last, catalog, manifest, *rest)

    return [(takeover, "recover_open_segments", recover_open)]


def write_ahead_of_the_drain() -> list[Patch]:
    async def run(self: Any) -> None:
        while True:
            if self._broken is not None:
                await self._mend(self._broken)
            elif self._chain.successor is not None and self._chain.previous is None:
                self._switch()
            elif self._may_send():
                await self._send()
            else:
                self._nudge = asyncio.get_running_loop().create_future()
                await self._nudge

    def on_ack(self: Any, segment: Any, ack: Any) -> None:
        parcels = [parcel for parcel in self._sent if parcel.ack is ack]
        if parcels and self._broken is None:
            self._broken = ack.exception()
            if self._broken is None:
                self._confirm(segment, parcels[0])
        self.nudge()

    return [(pipeline.Pipeline, "run", run), (pipeline.Pipeline, "_on_ack", on_ack)]


def install_over_anybody() -> list[Patch]:
    async def install(
        self: Any, _: Any, base: Any, ends: Any, writer: Any, floor: int, *__: Any
    ) -> Any:
        ledger = writer.ledger

        def edit(manifest: Any) -> Any:
            mine = manifest is not None and manifest.lists(ledger)
            return manifest if mine else base.take_over(ends, ledger, self._now_ms(), floor)

        return await self._record.edit(edit)

    return [(takeover.TakeOver, "_install", install)]


def say_that_a_log_is_sealed() -> list[Patch]:
    return [(manifest.LogManifest, "seal_log", lambda self: self)]


def roll_over_a_newer_leader() -> list[Patch]:
    def check_mine(self: Any, manifest: Any) -> Any:
        return manifest

    return [(chain.Chain, "check_mine", check_mine)]


def take_unknown_for_failed() -> list[Patch]:
    whole = manifest_record.ManifestRecord._write

    async def write(self: Any, *args: Any) -> Any:
        try:
            return await whole(self, *args)
        except StoreOutcomeUnknownError:
            raise LostRaceError("it failed, surely") from None

    return [(manifest_record.ManifestRecord, "_write", write)]


def accept_forgotten_producers() -> list[Patch]:
    return [(producers.Producers, "_check_new", lambda *_: None)]


def take_what_is_away_for_lost() -> list[Patch]:
    def is_lost(error: Exception) -> bool:
        return isinstance(error, gaps.LOST)

    return [(gaps, "is_lost", is_lost), (reader, "is_lost", is_lost)]


def roll_full_manifests() -> list[Patch]:
    async def has_space(self: Any) -> bool:
        return True

    return [(roller.Roller, "_has_space", has_space)]


def accept_forgotten_jobs() -> list[Patch]:
    return [(jobs.Memory, "_has_forgotten", lambda *_: False)]


def forget_producers() -> list[Patch]:
    async def finish(self: Any) -> producers.Producers:
        return producers.Producers()

    return [(producer_state.Restoration, "finish", finish)]


def forget_cursors() -> list[Patch]:
    async def slowest(self: Any, log_id: str) -> None:
        return None

    return [(cursors.LogCursors, "_slowest", slowest)]


def append_at_any_tail() -> list[Patch]:
    whole = pipeline.Pipeline._put

    def put(self: Any, group: Any, size: int, future: Any, count: int, terms: Any) -> None:
        whole(self, group, size, future, count, replace(terms, expected_offset=None))

    return [(pipeline.Pipeline, "_put", put)]


def seal_before_the_ledger_is_closed() -> list[Patch]:
    async def close(self: Any, segment: Any) -> Any:
        segment.end = segment.end or segment.confirmed
        return segment.end

    return [(chain.Chain, "_close", close)]


def sweep_young_ledgers() -> list[Patch]:
    def is_orphan(metadata: Any, manifest: Any, now_ms: int) -> bool:
        labels = orphans.Labels.of(metadata.custom_metadata)
        if labels is None or manifest is None or manifest.log_id != labels.log_id:
            return False
        return not manifest.lists(metadata.ledger) and metadata.ledger not in manifest.doomed

    return [(orphans, "is_orphan", is_orphan)]


def delete_a_spare_that_may_be_listed() -> list[Patch]:
    whole = chain.Chain._spare_writer

    async def spare_writer(self: Any) -> Any:
        if self._is_offered:
            await self._discard_spare(self.manifest)
        return await whole(self)

    return [(chain.Chain, "_spare_writer", spare_writer)]


def delete_before_the_manifest_says_so() -> list[Patch]:
    whole = log.Log.trim

    async def trim(self: Any, position: Any) -> None:
        for segment in self._chain.manifest.trim(position).doomed:
            with suppress(NoSuchLedgerError, QuireError):
                await self._desk.segments.delete(segment)
        await whole(self, position)

    return [(log.Log, "trim", trim)]


def look_at_each_segment_as_it_is_then() -> list[Patch]:
    async def walk(manifest: Any, segments: Any, open_segment: Any) -> Any:
        is_first = True
        async for segment in segments:
            async with search._opened(open_segment, segment) as reader:
                last = await reader.last_confirmed()
                if last >= 0 or is_first:
                    yield reader, last
            is_first = False

    return [
        (search, "_walk", walk),
        (start.Course, "take", partialmethod(_take_unchecked, start.Course.take)),
    ]


def _take_unchecked(self: Any, whole: Any, batch: Any, ledger: Any) -> Any:
    if self._offset is None:
        found = min(self.threshold.offset, batch.first_offset)
        self.threshold = self.threshold._replace(offset=found)
    return whole(self, batch, ledger)


def give_what_comes_next_at_the_end() -> list[Patch]:
    whole = start.Threshold.first_slot

    def first_slot(self: Any, batch: Any) -> int:
        return whole(start.Threshold(offset=self.offset), batch)

    return [(start.Threshold, "first_slot", first_slot)]


def look_for_the_end_as_reading_begins() -> list[Patch]:
    whole = reader.LogReader._begin

    async def find_end(self: Any, record: Any, log_id: Any, password: Any) -> Any:
        return LATEST, log_id

    async def begin(self: Any, manifest: Any) -> None:
        if self._start == LATEST:
            self._start = (await search.find_tail(manifest, self._open_segment)).position
        await whole(self, manifest)

    return [
        (directory.LogDirectory, "_find_end", find_end),
        (reader.LogReader, "_begin", begin),
    ]


def count_what_follows_an_open_segment() -> list[Patch]:
    whole = snapshot._LogSnapshot.add

    async def add(self: Any, segment: Any) -> bool:
        await whole(self, segment)
        return True

    return [(snapshot._LogSnapshot, "add", add)]


def take_what_was_announced_for_the_end() -> list[Patch]:
    return [(directory, "find_acknowledged_tail", search.find_tail)]
