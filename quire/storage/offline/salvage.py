"""Starting again with the sound files, after a bookie may have lost acknowledged data.

A damaged bookie refuses to start: it would deny entries that it acknowledged. When the operator
accepts the loss, all sound data is kept, and everything else is put in doubt:

  - an entry log with a whole index counts; damage inside a chunk is found when it is read;
  - every readable record of the journal with right checksums counts, even if records before it are
    missing;
  - damage to the journal before the checkpoint's position costs nothing as long as all other files
    are sound: entry logs have those records. It counts as damage only beside other damage, so that
    a look, a check (check.py) and a start of the bookie agree;
  - damaged files are set aside under another name, and no file is deleted;
  - every ledger the bookie has, and every ledger that the caller says it may have had, is in limbo:
    fenced, because its fence may be lost, and *unknown* wherever its entries are not held;
  - the bookie may have answered a fence for other ledgers that existed, and have left their
    metadata since; they are in limbo as soon as a client asks for them (doubtful.py).

A marker file keeps the bookie from starting until the repair has finished. The repair can be begun
again at any time. Not here: which ledgers a bookie may have had (quire/repair), how ledgers become
whole again (self_repair.py).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quire.entry import LedgerId
from quire.errors import CorruptStorageError, InvalidRequestError
from quire.run import scan_run
from quire.storage.disk.blocks import BLOCK_BYTES
from quire.storage.disk.port import Disk
from quire.storage.disk.state_file import encode_state, read_state, write_state
from quire.storage.entries.checkpoint import FIRST, PATHS, Checkpoint, decode_checkpoint
from quire.storage.entries.damage import Damage
from quire.storage.entries.doubtful import Horizon
from quire.storage.entries.entry_files import EntryFiles
from quire.storage.entries.entry_log import (
    ENTRIES,
    ENTRIES_SUFFIX,
    EntryIndex,
    entries_path,
    load_index,
)
from quire.storage.entries.formatting import check_first
from quire.storage.entries.ledger_storage import UNFINISHED, LedgerStorage
from quire.storage.entries.retired_file import PATHS as RETIRED_PATHS
from quire.storage.entries.retired_file import RetiredFile, read_retired
from quire.storage.journal.options import StorageOptions
from quire.storage.journal.record import Record, RecordKind, find_proof, read_header, read_record
from quire.storage.journal.replay import JournalPosition, ends_soundly, load_remains
from quire.storage.journal.segments import JOURNAL, SEGMENT_SUFFIX, Segments, numbered, segment_path
from quire.storage.offline.check import OPEN_FILES_MAX, reason_of, verify_chunks

ASIDE_SUFFIX: Final = ".damaged"
NOWHERE: Final = Checkpoint(0, JournalPosition(0, 0, 0), ())

_LEDGER: Final = struct.Struct(">q")


class Doubt(NamedTuple):
    """A ledger that the bookie may have had data of; `check` tells its key ("": unknown)."""

    ledger: LedgerId
    check: str = ""


@dataclass(slots=True)
class Salvage:
    """The result of a salvage."""

    files: int = 0
    records: int = 0
    ledgers: int = 0
    """Put into limbo by name; others that existed are so when they are asked for."""
    damage: list[Damage] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    """New names of damaged files."""


async def mark_unfinished(disk: Disk, below: LedgerId = 0) -> None:
    """Let no bookie start on a disk before `salvage` has returned. Raises OSError."""
    await write_state(disk, UNFINISHED, encode_state(UNFINISHED, 1, {"limbo_below": below}))


async def salvage(
    disk: Disk,
    bookie: str,
    doubts: Iterable[Doubt],
    horizon: Horizon,
    *,
    rng: random.Random,
    options: StorageOptions | None = None,
) -> Salvage:
    """Make the disk of a stopped bookie fit to be served, with everything in limbo.

    `doubts` are the ledgers the bookie may have had, `horizon` is around all it may have fenced.
    The caller has compared the disk's cookie. Raises OSError; whatever ends it, it is to be called
    again, and no bookie starts on the disk before it has returned.
    """
    work = _Salvaging(disk, bookie, options or StorageOptions(), rng)
    return await work.run(doubts, horizon)


async def examine(
    disk: Disk,
    bookie: str,
    doubts: Iterable[Doubt],
    horizon: Horizon,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Salvage:
    """Return what `salvage` would, and change nothing. Damage inside entry logs is looked for and
    told as well; a salvage leaves it to later readers.

    `on_progress` is told how many entry logs are done, and of how many. Raises OSError.
    """
    work = _Salvaging(disk, bookie, StorageOptions(), random.Random())  # which draws nothing here
    return await work.examine(doubts, horizon, on_progress)


class _Salvaging:
    """One repair of a directory."""

    def __init__(
        self, disk: Disk, bookie: str, options: StorageOptions, rng: random.Random
    ) -> None:
        self._disk = disk
        self._bookie = bookie
        self._storage = LedgerStorage(disk, bookie, options)
        self._segments = Segments(disk, bookie, options, rng, _never)
        self._found = Salvage()
        self._aside: list[str] = []
        self._aside_first: list[str] = []
        """Files that the repair writes anew; a damaged one tells nothing if it is read again."""
        self._kept: list[EntryIndex] = []
        self._covered: list[Damage] = []
        """Of the journal before the checkpoint's position."""

    async def run(self, doubts: Iterable[Doubt], horizon: Horizon) -> Salvage:
        """See `salvage`."""
        sequence = await self._gather(horizon)
        await mark_unfinished(self._disk, horizon.below)
        for path in self._aside_first:
            await self._set_aside(path)
        for directory in (JOURNAL, ENTRIES):
            await self._disk.make_directory(directory)
        await self._disk.sync_directory()
        self._doubt(doubts)
        before = await self._keep(sequence)
        for path in self._aside:  # only now: a repair that is begun again reads them once more
            await self._set_aside(path)
        await self._segments.load(0)
        await self._segments.release(before)
        await self._disk.unlink(UNFINISHED)
        await self._disk.sync_directory()
        await self._storage.close()
        return self._found

    async def examine(
        self,
        doubts: Iterable[Doubt],
        horizon: Horizon,
        on_progress: Callable[[int, int], None],
    ) -> Salvage:
        """See `examine`."""
        await self._gather(horizon)
        aside = (*self._aside_first, *self._aside)
        self._found.aside += [await self._aside_of(path) for path in aside]
        self._doubt(doubts)
        files = EntryFiles(self._disk, OPEN_FILES_MAX)
        try:
            for done, index in enumerate(self._kept, 1):
                async for _, damage in verify_chunks(files, index):
                    if damage is not None:
                        self._found.damage.append(damage)
                on_progress(done, len(self._kept))
        finally:
            await files.close()
        return self._found

    async def _gather(self, horizon: Horizon) -> int:
        """Read everything that can be believed; return a sequence number above all records."""
        checkpoint = await self._checkpoint()
        indexes, highest = await self._indexes(checkpoint)
        files = tuple(index.number for index in indexes)
        joined = horizon.joined(checkpoint.horizon)
        start = Checkpoint(checkpoint.generation, NOWHERE.position, files, joined)
        self._storage.adopt(start, indexes, highest, await self._retired_ids(checkpoint))
        self._found.files, self._kept = len(files), indexes
        numbers = numbered(await self._names(JOURNAL), SEGMENT_SUFFIX)
        needed, _, sequence = checkpoint.position
        if needed and needed not in numbers:
            self._found.damage.append(Damage(segment_path(needed), "it is missing"))
        for number in numbers:
            # Also those before it: a repair that was cut short has not set them aside.
            before = sequence if number >= needed else 0
            sequence = max(sequence, await self._replay(number, before, checkpoint.position))
        if self._found.damage or UNFINISHED in await self._disk.list():
            self._found.damage += self._covered
            self._aside += [each.path for each in self._covered]
        return sequence

    async def _checkpoint(self) -> Checkpoint:
        """Return the latest whole checkpoint, or an empty one."""
        latest, missing = NOWHERE, list[str]()
        for path in PATHS:
            try:
                data = await read_state(self._disk, path)
                if data is None:
                    missing.append(path)
                    continue
                found = decode_checkpoint(path, data)
            except (CorruptStorageError, OSError) as error:
                self._found.damage.append(Damage(path, reason_of(error)))
            else:
                latest = max(latest, found, key=lambda each: each.generation)
        if missing and not await self._never_served(latest):
            self._found.damage += [Damage(path, "it is missing") for path in missing]
        return latest

    async def _retired_ids(self, checkpoint: Checkpoint) -> RetiredFile:
        """Return the newest whole file of retired ids. Ids missing from it stay in doubt: the
        horizon has every id that has no record (quire/repair/census.py).
        """
        found, damage = await read_retired(self._disk, self._bookie)
        self._found.damage += [Damage(error.path, error.reason) for error in damage]
        self._aside_first = [error.path for error in damage]
        if found.generation < checkpoint.retired and not damage:
            path = RETIRED_PATHS[checkpoint.retired % 2]
            self._found.damage.append(Damage(path, "it is missing"))
        return found._replace(generation=max(found.generation, checkpoint.retired))

    async def _never_served(self, checkpoint: Checkpoint) -> bool:
        """Tell whether a checkpoint is the first one and was the only one ever."""
        try:
            await check_first(self._disk, self._bookie, checkpoint)
        except (CorruptStorageError, OSError) as error:
            reason_of(error)  # damage says that there was more; other errors are raised
            return False
        return checkpoint == FIRST

    async def _indexes(self, checkpoint: Checkpoint) -> tuple[list[EntryIndex], int]:
        """Return the entry logs that are whole, oldest data first, and the highest number.

        Those no checkpoint lists hold nothing that was not acknowledged or superseded: they stand
        before all others.
        """
        present = numbered(await self._names(ENTRIES), ENTRIES_SUFFIX)
        unlisted = [number for number in present if number not in checkpoint.files]
        found: list[EntryIndex] = []
        for number in (*unlisted, *checkpoint.files):
            path = entries_path(number)
            try:
                found.append(await load_index(self._disk, number, self._bookie))
            except (CorruptStorageError, OSError) as error:
                self._found.damage.append(Damage(path, reason_of(error)))
                if number in present:
                    self._aside.append(path)
        return found, max([0, *present, *checkpoint.files])

    async def _replay(self, number: int, sequence: int, start: JournalPosition) -> int:
        """Apply every sound record of a segment; `sequence` is the highest number seen, 0 when
        none was, and so is the result. The bookie would begin at `start`.
        """
        path = segment_path(number)
        try:
            data, header, is_whole = await load_remains(self._disk, self._bookie, number)
        except (CorruptStorageError, OSError) as error:
            self._tell(Damage(path, reason_of(error)), is_covered=number < start.segment)
            return sequence
        is_covered = number < start.segment or (
            is_whole and number == start.segment and ends_soundly(data, header.identity, start)
        )
        expected = BLOCK_BYTES
        for offset, record in _records(data, header.identity):
            is_whole &= offset == expected and (not sequence or record.sequence <= sequence + 1)
            expected = record.end
            sequence = max(sequence, record.sequence)
            self._apply(record)
        proof = find_proof(data, BLOCK_BYTES, header.identity, sequence + 1)
        if not is_whole or proof is not None:
            self._tell(Damage(path, "records are missing or damaged"), is_covered=is_covered)
        return sequence

    def _tell(self, damage: Damage, *, is_covered: bool) -> None:
        if is_covered:
            self._covered.append(damage)
        else:
            self._found.damage.append(damage)
            self._aside.append(damage.path)

    def _apply(self, record: Record) -> None:
        self._found.records += 1
        if record.kind is RecordKind.RUN:
            try:
                self._storage.memory.apply_run(scan_run(record.body))
            except InvalidRequestError:
                return  # no writer's: it would not have been accepted
        elif record.kind is not RecordKind.MARK:
            (ledger,) = _LEDGER.unpack_from(record.body)
            apply_key = self._storage.apply_key
            is_fence = record.kind is RecordKind.FENCE
            (self._storage.apply_fence if is_fence else apply_key)(
                ledger, record.body[_LEDGER.size :]
            )

    async def _names(self, directory: str) -> list[str]:
        """Return the names in a directory; none when it is not there."""
        try:
            return await self._disk.list(directory)
        except FileNotFoundError:
            return []

    async def _set_aside(self, path: str) -> None:
        aside = await self._aside_of(path)
        await self._disk.rename(path, aside)
        await self._disk.sync_directory(path.rpartition("/")[0])
        self._found.aside.append(aside)

    async def _aside_of(self, path: str) -> str:
        """Return the new name of a file set aside."""
        directory, _, name = path.rpartition("/")
        names = await self._disk.list(directory)
        aside = next(each for each in _aside_names(name) if each not in names)
        return f"{directory}/{aside}" if directory else aside

    def _doubt(self, doubts: Iterable[Doubt]) -> None:
        """Put everything held or named into limbo."""
        storage = self._storage
        for ledger, check in doubts:
            storage.doubt(ledger, check)
        for ledger in sorted(storage.states):
            storage.states[ledger].doubt()
            storage.touch(ledger)
        self._found.ledgers = len(storage.states)

    async def _keep(self, sequence: int) -> int:
        """Write it all down: the retired ids, a file, a journal to go on with, and both
        generations of the checkpoint, so that none is left that knows nothing of the limbo.

        Return the segment before which none is needed any more.
        """
        await self._segments.load(0)
        segment = await self._segments.create(previous=0)
        await segment.file.close()
        position = JournalPosition(segment.header.number, BLOCK_BYTES, sequence)
        await self._storage.keep_retired()
        for _ in PATHS:
            await self._storage.flush(lambda: position)
        return position.segment


def _records(data: bytes, identity: int) -> Iterator[tuple[int, Record]]:
    """Yield every record of a segment that passes its checks, and where it begins; after a
    record that fails them, look for the next batch.
    """
    offset = BLOCK_BYTES
    while offset < len(data):
        header, record = read_header(data, offset, identity), None
        if header is not None:
            with suppress(ValueError):  # a kind of record that is not known
                record = read_record(data, offset, identity, header.sequence)
        if record is None:
            offset = (offset // BLOCK_BYTES + 1) * BLOCK_BYTES
        else:
            yield offset, record
            offset = record.end


def _aside_names(name: str) -> Iterator[str]:
    stem, number = name.partition(".")[0], 1
    yield stem + ASIDE_SUFFIX
    while True:
        number += 1
        yield f"{stem}{ASIDE_SUFFIX}-{number}"


def _never(error: BaseException) -> None:
    raise AssertionError("no segment is prepared here") from error
