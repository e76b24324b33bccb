"""Golden files of a bookie's disk: state files, retired ids, a journal segment, an entry log."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from quire.entry import DigestKind, Sealer, access_key
from quire.run import pack_run, scan_run, split_run
from quire.storage.disk.blocks import BLOCK_BYTES, align
from quire.storage.disk.local import LocalDisk
from quire.storage.disk.state_file import decode_state, encode_state
from quire.storage.entries.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from quire.storage.entries.doubtful import Horizon
from quire.storage.entries.entry_log import EntryWriter, entries_path, load_index
from quire.storage.entries.extents import whole
from quire.storage.entries.ledger_state import LedgerState, decode_rows, encode_row
from quire.storage.entries.retired import Intervals, RetiredIds
from quire.storage.entries.retired_file import RetiredFile, decode_retired, encode_retired
from quire.storage.identity.cookie import decode_cookie, encode_cookie
from quire.storage.journal.record import (
    RecordKind,
    SegmentHeader,
    decode_segment,
    encode_record,
    encode_segment,
    read_records,
)
from quire.storage.journal.replay import JournalPosition
from tests.golden.golden import Golden
from tests.golden.metadata import COOKIE, PART, SPREAD

BOOKIE = "b" * 32
KEY = access_key(b"secret")
SEALER = Sealer(7, DigestKind.CRC32C, b"secret")
PAYLOADS = [b"first", b"", b"third"]
FRAMES = [SEALER.seal(entry, entry - 1, 10, each) for entry, each in enumerate(PAYLOADS)]
RUN = pack_run(FRAMES)
PACKET = SEALER.seal_lac(2)

CHECKPOINT = Checkpoint(3, JournalPosition(4, 8192, 17), (2, 1), Horizon(90, ((3, 5), (8, 8))), 2)
RETIRED = RetiredFile(4, 1, RetiredIds(Intervals.of([(1, 3), (9, 9)]), Intervals.of([(20, 21)])))
SEGMENT = SegmentHeader(5, 0x0123456789ABCDEF, 0xFEDCBA9876543211, 4 * BLOCK_BYTES, BOOKIE)
LEDGER_BODY = (7).to_bytes(8, "big") + KEY
RECORDS = [
    (RecordKind.LEDGER, LEDGER_BODY),
    (RecordKind.RUN, RUN),
    (RecordKind.FENCE, LEDGER_BODY),
    (RecordKind.MARK, b""),
]


def _write_segment() -> bytes:
    """Two batches: three records, then the mark."""
    data = bytearray(encode_segment(SEGMENT))
    for sequence, (kind, body) in enumerate(RECORDS, 18):
        is_last = kind in (RecordKind.FENCE, RecordKind.MARK)
        durable = 17 if kind is not RecordKind.MARK else 20
        data += encode_record(kind, body, sequence, durable, SEGMENT.identity, int(is_last)) + body
        if is_last:
            data += bytes(align(len(data)) - len(data))
    return bytes(data).ljust(SEGMENT.size, b"\0")


def _read_segment(data: bytes) -> Any:
    header = decode_segment("journal", data)
    records, end = read_records(data, BLOCK_BYTES, header.identity, 18)
    return header, [(each.kind, each.body) for each in records], end


def _state() -> LedgerState:
    state = LedgerState(7)
    state.key, state.is_fenced, state.hint = KEY, True, 2
    state.set_packet(PACKET)
    return state


def _doubted() -> LedgerState:
    state = LedgerState(8)
    state.doubt("ab" * 32)
    return state


STATES = [(7, KEY, "", True, False, 2, PACKET), (8, None, "ab" * 32, True, True, -1, None)]


def _states(data: bytes) -> Any:
    return [
        (each.ledger, each.key, each.check, each.is_fenced, each.in_limbo, each.hint, each.packet)
        for each in decode_rows(data)
    ]


def _write_entry_log() -> bytes:
    async def write() -> bytes:
        with tempfile.TemporaryDirectory() as directory:
            disk = LocalDisk(Path(directory))
            await disk.make_directory("entries")
            writer = EntryWriter(disk, 6, BOOKIE)
            rows = encode_row(_state()) + encode_row(_doubted())
            await writer.write([(7, [whole(scan_run(RUN))])], rows)
            await disk.close()
            return (Path(directory) / entries_path(6)).read_bytes()

    return asyncio.run(write())


def _read_entry_log(data: bytes) -> Any:
    async def read() -> Any:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / entries_path(6)
            path.parent.mkdir()
            path.write_bytes(data)
            disk = LocalDisk(Path(directory))
            index = await load_index(disk, 6, BOOKIE)
            await disk.close()
            chunks = [
                data[each.offset : each.offset + each.size]
                for ledger in index.ledgers.values()
                for each in ledger.all()
            ]
            return (
                list(index.ledgers),
                [list(split_run(each)) for each in chunks],
                _states(index.states),
            )

    return asyncio.run(read())


STORAGE = (
    Golden(
        "cookie.state",
        COOKIE,
        lambda: encode_cookie(COOKIE),
        lambda data: decode_cookie("cookie", data),
        ("State files: cookie",),
    ),
    Golden(
        "cookie-parts.state",
        SPREAD,
        lambda: encode_cookie(SPREAD),
        lambda data: decode_cookie("cookie", data),
        ("State files: cookie",),
    ),
    Golden(
        "cookie-part.state",
        PART,
        lambda: encode_cookie(PART),
        lambda data: decode_cookie("cookie", data),
        ("State files: cookie",),
    ),
    Golden(
        "checkpoint.state",
        CHECKPOINT,
        lambda: encode_checkpoint(CHECKPOINT),
        lambda data: decode_checkpoint("checkpoint-1", data),
        ("State files: checkpoint",),
    ),
    Golden(
        "repair-unfinished.state",
        {"limbo_below": 90},
        lambda: encode_state("repair-unfinished", 1, {"limbo_below": 90}),
        lambda data: decode_state("repair-unfinished", "repair-unfinished", 1, data),
        ("State files: repair-unfinished",),
    ),
    Golden(
        "retired-0",
        RETIRED,
        lambda: encode_retired(BOOKIE, RETIRED),
        lambda data: decode_retired("retired-0", BOOKIE, data),
        ("Retired ids",),
    ),
    Golden(
        "segment.journal",
        (SEGMENT, RECORDS, 3 * BLOCK_BYTES),
        _write_segment,
        _read_segment,
        (
            "Journal",
            *(
                f"Journal: {number} {kind}"
                for number, kind in enumerate(("LEDGER", "RUN", "FENCE", "MARK"), 1)
            ),
        ),
    ),
    Golden(
        "log.entries",
        ([7], [list(enumerate(FRAMES))], STATES),
        _write_entry_log,
        _read_entry_log,
        ("Entry log",),
    ),
)
