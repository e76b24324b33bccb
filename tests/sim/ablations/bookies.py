"""Safeguards of a bookie: fences, durability, keys, and what it says about damage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from quire.errors import CorruptEntryError, LedgerFencedError, QuireError
from quire.storage import direct_adds, node
from quire.storage.disk.blocks import align
from quire.storage.entries import doubtful, entry_log, ledger_state, ledger_storage
from quire.storage.journal import record, replay, segments
from quire.storage.journal.record import Record, RecordKind, read_header
from quire.storage.maintenance import compaction, deletions, read_repair, self_repair
from quire.storage.serving import births
from tests.sim.ablations.patch import Patch
from tests.sim.disk import SimFile, SimMount


def ignore_fence() -> list[Patch]:
    async def check_fence(self: Any, state: Any) -> None:
        return None

    return [(node.BookieNode, "_check_fence", check_fence)]


def take_runs_without_a_look_at_the_fence() -> list[Patch]:
    """Runs of known ledgers are taken in one step, whatever was accepted before them."""

    def is_welcome(_: Any, state: Any, run: Any, key: bytes, recovery: bool, mood: Any) -> bool:
        is_new = state.key is not None and run.entries[0] > state.highest
        return is_new and state.accepts(key) and mood.has_room

    return [(direct_adds.DirectAdds, "_is_welcome", is_welcome)]


def answer_before_fence_is_durable() -> list[Patch]:
    async def fence(self: Any, ledger: int, key: bytes) -> None:
        state = await self._authorize(ledger, key)
        if not state.is_fenced and state.fence is None:
            state.fence = self._engine.append_fence(ledger, key)
            state.key = key
            state.is_fenced = True

    return [(node.BookieNode, "_fence", fence)]


def forget_fences_at_restart() -> list[Patch]:
    async def fence(self: Any, ledger: int, key: bytes) -> None:
        state = await self._authorize(ledger, key)
        self._note_key(state, key)
        await self._engine.settle()
        state.is_fenced = True
        state.wake()

    return [(node.BookieNode, "_fence", fence)]


def ack_before_sync() -> list[Patch]:
    whole = SimFile.write

    async def write(self: Any, offset: int, data: Any, *, sync: bool = False) -> None:
        is_journal = self._path.endswith(segments.SEGMENT_SUFFIX) or offset > 0
        await whole(self, offset, data, sync=sync and not is_journal)

    return [(SimFile, "write", write)]


def never_sync_directories() -> list[Patch]:
    async def sync_directory(self: Any, directory: str = "") -> None:
        await self.disk.turn(self)

    return [(SimMount, "sync_directory", sync_directory)]


def replay_without_checksums() -> list[Patch]:
    def read_record(data: bytes, offset: int, identity: int, sequence: int) -> Record | None:
        header = read_header(data, offset, identity)
        if header is None or header.sequence != sequence:
            return None
        start = offset + record.RECORD_HEADER_BYTES
        end = start + header.size
        after = align(end) if header.is_last else end
        return Record(RecordKind(header.kind), sequence, data[start:end], after)

    return [(record, "read_record", read_record)]


def replay_past_gaps() -> list[Patch]:
    whole = record.read_record

    def read_record(data: bytes, offset: int, identity: int, sequence: int) -> Record | None:
        header = read_header(data, offset, identity)
        return None if header is None else whole(data, offset, identity, header.sequence)

    return [(record, "read_record", read_record)]


def start_on_a_damaged_journal() -> list[Patch]:
    def find_proof(data: bytes, offset: int, identity: int, sequence: int) -> int | None:
        return None

    return [(replay, "find_proof", find_proof)]


def start_on_a_journal_that_was_cut() -> list[Patch]:
    async def load_segment(disk: Any, bookie: str, number: int) -> Any:
        return (await replay.load_remains(disk, bookie, number))[:2]

    return [(replay, "load_segment", load_segment)]


def take_damage_for_absence() -> list[Patch]:
    whole = ledger_storage.LedgerStorage.read

    async def read(self: Any, ledger: int, first: int, last: int, bytes_max: int) -> bytes | None:
        try:
            return await whole(self, ledger, first, last, bytes_max)
        except CorruptEntryError:
            return None

    return [(ledger_storage.LedgerStorage, "read", read)]


def take_any_key() -> list[Patch]:
    def accepts(self: Any, key: bytes) -> bool:
        return True

    return [(ledger_state.LedgerState, "accepts", accepts)]


def deny_in_limbo() -> list[Patch]:
    def is_doubtful(self: Any, ledger: int) -> bool:
        return False

    return [(ledger_storage.LedgerStorage, "is_doubtful", is_doubtful)]


def repair_without_fences() -> list[Patch]:
    def doubt(self: Any, check: str = "") -> None:
        self.in_limbo = True

    async def check_fence(self: Any, state: Any) -> None:
        if state.fence is not None:
            await asyncio.shield(state.fence)
        if state.is_fenced:
            raise LedgerFencedError(state.ledger)

    return [
        (ledger_state.LedgerState, "doubt", doubt),
        (node.BookieNode, "_check_fence", check_fence),
    ]


def doubt_only_what_is_named() -> list[Patch]:
    def contains(self: Any, ledger: int) -> bool:
        return False

    return [(doubtful.Horizon, "__contains__", contains)]


def leave_limbo_at_once() -> list[Patch]:
    async def mend(self: Any, copies: Any, ledger: int) -> bool:
        return True

    return [(self_repair.Mender, "_mend", mend)]


def take_other_bytes() -> list[Patch]:
    async def same(engine: Any, run: bytes, scanned: Any, *, recovery: bool) -> None:
        return None

    return [(node, "check_held", same)]


def begin_any_ledger() -> list[Patch]:
    return [(births.BornBookie, "_passes", lambda self, ledger: True)]


def forget_damage_at_once() -> list[Patch]:
    async def patch(self: Any, copies: Any, ledger: int, chunk: Any) -> bool:
        self._storage.leave_out(ledger, chunk)
        return True

    return [(read_repair.Patcher, "patch", patch)]


def delete_upon_an_error() -> list[Patch]:
    whole = deletions.MetadataDeletions.deleted

    async def deleted(self: Any, ledgers: Sequence[int]) -> list[int]:
        try:
            return await whole(self, ledgers)
        except QuireError:
            return list(ledgers)

    return [(deletions.MetadataDeletions, "deleted", deleted)]


def compact_without_states() -> list[Patch]:
    def rows(self: Any, files: Any) -> bytes:
        return b""

    return [(compaction.Compactor, "_rows", rows)]


def remove_before_the_checkpoint() -> list[Patch]:
    whole = ledger_storage.LedgerStorage.replace

    async def replace(self: Any, old: Sequence[int], index: Any) -> None:
        for number in old:
            await self._disk.unlink(entry_log.entries_path(number))
        await whole(self, old, index)

    return [(ledger_storage.LedgerStorage, "replace", replace)]


def forget_what_a_full_disk_refused() -> list[Patch]:
    whole = ledger_storage.LedgerStorage._flush

    async def flush(self: Any, position: Any) -> int:
        taken = dict(self.memory.changed)
        try:
            return await whole(self, position)
        except OSError:
            for ledger in taken:
                self.memory.changed.pop(ledger, None)
            raise

    return [(ledger_storage.LedgerStorage, "_flush", flush)]


def start_after_half_a_repair() -> list[Patch]:
    return [(ledger_storage, "UNFINISHED", "no such file")]


def tell_of_the_chunk() -> list[Patch]:
    async def read(self: Any, ledger: int, first: int, last: int, bytes_max: int) -> Any:
        return await self._engine.from_disk(self._storage.read(ledger, first, last, bytes_max))

    return [(node.BookieNode, "_read", read)]
