"""Everything on a stopped bookie's disk, verified, without changing any of it.

The same readers that the bookie starts with are run over cookie, checkpoints, journal and entry
logs; besides, every chunk of every entry log is read and compared with its checksum. Traces of a
crash (a torn tail, an unlisted file, one of two checkpoints) do not count as damage. The digests of
entries are not checked: a bookie does not have the passwords.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from quire.entry import LedgerId
from quire.errors import (
    ConfigurationError,
    CorruptEntryError,
    CorruptStorageError,
    InvalidRequestError,
)
from quire.run import scan_run
from quire.storage.disk.port import Disk, is_unreadable
from quire.storage.disk.state_file import read_state
from quire.storage.entries.checkpoint import PATHS, Checkpoint, decode_checkpoint, read_checkpoint
from quire.storage.entries.damage import Damage
from quire.storage.entries.entry_files import EntryFiles
from quire.storage.entries.entry_log import EntryIndex, entries_path, load_index
from quire.storage.entries.formatting import check_first
from quire.storage.entries.ledger_state import decode_rows
from quire.storage.entries.ledger_storage import UNFINISHED
from quire.storage.entries.retired_file import PATHS as RETIRED
from quire.storage.entries.retired_file import is_older, read_retired
from quire.storage.identity.cookie import read_cookie
from quire.storage.journal.record import Record, RecordKind
from quire.storage.journal.replay import replay
from quire.storage.journal.segments import JOURNAL, SEGMENT_SUFFIX, numbered, segment_path

OPEN_FILES_MAX = 8


@dataclass(slots=True)
class Findings:
    """The files and entries that a check looked at, and its findings."""

    bookie: str
    files: int = 0
    chunks: int = 0
    bytes: int = 0
    records: int = 0
    ledgers: set[LedgerId] = field(default_factory=set)
    limbo: set[LedgerId] = field(default_factory=set)
    """Ledgers that the bookie knows it may have lost data of."""
    retired: LedgerId = -1
    """The highest ledger that the bookie dropped, -1 for none."""
    damage: list[Damage] = field(default_factory=list)

    @property
    def highest(self) -> LedgerId:
        """The highest ledger that the bookie has entries of or dropped, -1 for none. With damage it
        may have had a higher one.
        """
        return max(self.retired, *self.ledgers, -1)


async def check_disk(
    disk: Disk, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> Findings:
    """Verify a disk that no bookie serves.

    `on_progress` is told how many entry logs are done, and of how many.

    Raises `ConfigurationError` when it has no cookie, or is a part of a bookie,
    `CorruptStorageError` when the cookie cannot be believed, and OSError when something else than
    damage keeps a file from being read.
    """
    cookie = await read_cookie(disk)
    if cookie is None:
        raise ConfigurationError("the directory is not a bookie's: it has no cookie")
    if cookie.part:
        raise ConfigurationError(
            f"the directory is a part of bookie {cookie.bookie}: name its main directory"
        )
    findings = Findings(cookie.bookie, files=1)
    await _check_generations(disk, findings)
    if UNFINISHED in await disk.list():
        findings.damage.append(Damage(UNFINISHED, "a repair was begun and not finished"))
    try:
        checkpoint = await read_checkpoint(disk)
        await check_first(disk, cookie.bookie, checkpoint)
    except CorruptStorageError as error:
        findings.damage.append(Damage(error.path, error.reason))
        return findings
    except OSError as error:
        if not findings.damage:  # damage of a segment; a checkpoint was named already
            findings.damage.append(Damage(JOURNAL, reason_of(error)))
        return findings
    await _check_retired(disk, findings, checkpoint)
    await _check_journal(disk, findings, checkpoint)
    for done, number in enumerate(checkpoint.files, 1):
        await _check_entry_log(disk, findings, number)
        on_progress(done, len(checkpoint.files))
    return findings


async def _check_generations(disk: Disk, findings: Findings) -> None:
    """Report a damaged generation even when the other one can stand in for it."""
    for path in PATHS:
        try:
            data = await read_state(disk, path)
            if data is not None:
                findings.files += 1
                decode_checkpoint(path, data)
        except (CorruptStorageError, OSError) as error:
            findings.damage.append(Damage(path, reason_of(error)))


async def _check_retired(disk: Disk, findings: Findings, checkpoint: Checkpoint) -> None:
    """Report retired ids that are older than the checkpoint names, and each damaged generation."""
    newest, damage = await read_retired(disk, findings.bookie)
    findings.retired = newest.ids.highest
    findings.files += len(set(RETIRED).intersection(await disk.list()))
    if newest.generation < checkpoint.retired and not damage:
        damage = [is_older(newest, checkpoint.retired)]
    findings.damage += [Damage(error.path, error.reason) for error in damage]


async def _check_journal(disk: Disk, findings: Findings, checkpoint: Checkpoint) -> None:
    names = await disk.list(JOURNAL) if JOURNAL in await disk.list() else []
    start = checkpoint.position
    numbers = [number for number in numbered(names, SEGMENT_SUFFIX) if number >= start.segment]
    if start.segment == 0:
        return

    def look(record: Record) -> None:
        findings.records += 1
        if record.kind is RecordKind.RUN:
            run = scan_run(record.body)
            findings.ledgers.add(run.ledger)

    findings.files += len(numbers)
    try:
        await replay(disk, findings.bookie, start, numbers, look)
    except CorruptStorageError as error:
        findings.damage.append(Damage(error.path, error.reason))
    except OSError as error:
        findings.damage.append(Damage(JOURNAL, reason_of(error)))
    except InvalidRequestError as error:
        findings.damage.append(Damage(segment_path(start.segment), f"a run is none: {error}"))


async def _check_entry_log(disk: Disk, findings: Findings, number: int) -> None:
    findings.files += 1
    try:
        index = await load_index(disk, number, findings.bookie)
    except (CorruptStorageError, OSError) as error:
        findings.damage.append(Damage(entries_path(number), reason_of(error)))
        return
    findings.ledgers.update(index.ledgers)
    for state in decode_rows(index.states):
        (findings.limbo.add if state.in_limbo else findings.limbo.discard)(state.ledger)
    files = EntryFiles(disk, OPEN_FILES_MAX)
    try:
        async for size, damage in verify_chunks(files, index):
            findings.chunks += 1
            findings.bytes += size
            if damage is not None:
                findings.damage.append(damage)
    finally:
        await files.close()


async def verify_chunks(
    files: EntryFiles, index: EntryIndex
) -> AsyncIterator[tuple[int, Damage | None]]:
    """Read every chunk of an entry log; yield the bytes of each and its damage."""
    for ledger in sorted(index.ledgers):
        for chunk in index.ledgers[ledger].all():
            _, error = await files.read(ledger, [chunk])
            damage = None
            if error is not None:
                path = entries_path(index.number)
                damage = Damage(path, _reason(error), ledger, chunk.first, chunk.last)
            yield chunk.size, damage


def reason_of(error: CorruptStorageError | OSError) -> str:
    """Return the damage of a file; raise an error that does not prove damage."""
    if isinstance(error, CorruptStorageError):
        return error.reason
    if not is_unreadable(error):
        raise error
    return str(error)


def _reason(error: CorruptEntryError) -> str:
    return error.reason
