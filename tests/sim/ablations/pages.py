"""Removing the safeguards of manifests in pages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from quire.errors import NodeExistsError
from quire.log.maintenance import doomed, page_sweep
from quire.log.manifest import manifest, pages_at_hand, record
from quire.log.manifest.page import Page, Reference, reference_to
from quire.log.reading import reader
from quire.metastore.changes import Create, Put
from quire.metastore.layout import page_path
from tests.sim.ablations.patch import Patch


def sweep_without_a_guard() -> list[Patch]:
    def unchanged(self: Any, manifest: Any, version: Any) -> tuple[()]:
        return ()

    return [(record.ManifestRecord, "unchanged", unchanged)]


def name_pages_before_they_are_there() -> list[Patch]:
    whole = record.ManifestRecord._make

    async def write_pages(self: Any, after: Any) -> list[Any]:
        fresh = after.pages.fresh_of(after.places)
        self.late = [Create(page_path(after.log_id, name), fresh[name]) for name in sorted(fresh)]
        return []

    async def make(self: Any, changes: Any) -> None:
        await whole(self, changes)
        for each in self.__dict__.pop("late", ()):
            await self.store.create(each.path, each.value)

    return [
        (record.ManifestRecord, "_write_pages", write_pages),
        (record.ManifestRecord, "_make", make),
    ]


def use_names_again() -> list[Patch]:
    whole = record.ManifestRecord._write_pages

    def add(self: Any, page: Page, log_id: str, tiers: Any) -> Reference:
        of = page.summary()
        name = f"{page.level:04x}{of.first:012x}"
        self.fresh[name] = data = page.encode(log_id, tiers)
        self.hold(name, page)
        return reference_to(page, name, data)

    async def write_pages(self: Any, after: Any) -> Any:
        fresh = after.pages.fresh_of(after.places)
        for name in sorted(fresh):
            with suppress(NodeExistsError):  # "it is ours, of an attempt before"
                await self.store.create(page_path(after.log_id, name), fresh[name])
        after.pages.fresh.clear()
        return await whole(self, after)

    return [
        (pages_at_hand.PagesAtHand, "add", add),
        (record.ManifestRecord, "_write_pages", write_pages),
    ]


def show_trimmed_rows() -> list[Patch]:
    whole = pages_at_hand.Walk.__init__

    def init(self: Any, log: Any, first: int = 0, **named: Any) -> None:
        whole(self, log, first, **named)
        self._first = first

    return [(pages_at_hand.Walk, "__init__", init)]


def forget_the_last_txid() -> list[Patch]:
    whole = manifest.LogManifest._without_trimmed

    def without_trimmed(self: Any) -> Any:
        return replace(whole(self), trimmed_transaction=self.trimmed_transaction)

    return [(manifest.LogManifest, "_without_trimmed", without_trimmed)]


def forget_pages_first() -> list[Patch]:
    async def empty(*_: Any) -> bool:
        return True

    return [(doomed, "_empty", empty)]


def sweep_below_doomed_pages() -> list[Patch]:
    async def below_doomed(_: Any, place: Any) -> list[str]:
        return [place.reference.name]

    return [(page_sweep, "_below_doomed", below_doomed)]


def write_jobs_before_the_head() -> list[Patch]:
    whole = record.ManifestRecord._jobs_change

    async def jobs_change(self: Any, before: Any, after: Any) -> list[Any]:
        for change in await whole(self, before, after):
            if isinstance(change, Create):
                await self.store.create(change.path, change.value)
            elif isinstance(change, Put):
                await self.store.put(change.path, change.value, change.version)
        return []

    return [(record.ManifestRecord, "_jobs_change", jobs_change)]


def keep_rows_of_open_segments() -> list[Patch]:
    async def known(self: Any) -> Any:
        seen, here = self._seen, self._course.next
        if seen is None or self._start is not None or here < seen.trimmed_to:
            return None
        found = await pages_at_hand.segment_from(seen, here.segment)
        if found is None or found.end is not None:
            return found
        from quire.log.manifest.manifest import EMPTY

        end = EMPTY._replace(last_entry=max(0, here.entry - 1), last_slots=1, records=1)
        return replace(found, end=end)

    return [(reader.LogReader, "_known", known)]
