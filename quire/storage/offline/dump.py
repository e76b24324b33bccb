"""The files of a bookie as rows that people and programs can read.

`describe` takes the bytes of any file of a bookie's directory, tells its kind by how it begins, and
yields one flat row per part of it: header, record, chunk, state. It reads and never judges more
than it must: what fails a checksum ends the description with `CorruptStorageError`. Payloads are
not shown. Not here: whether a directory as a whole is sound (check.py).
"""

from __future__ import annotations

import errno
import json
import re
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, TypeAlias

from quire.errors import CorruptStorageError
from quire.run import scan_run
from quire.storage.disk.blocks import BLOCK_BYTES, crc32c
from quire.storage.disk.renewal import RENEWED_SUFFIX
from quire.storage.disk.state_file import decode_state
from quire.storage.entries.entry_log import HEADER_MAGIC, decode_header, read_index
from quire.storage.entries.ledger_state import LedgerState, decode_rows
from quire.storage.entries.reserve import RESERVE
from quire.storage.entries.retired_file import MAGIC as RETIRED_MAGIC
from quire.storage.entries.retired_file import parse_retired
from quire.storage.journal.record import (
    SEGMENT_MAGIC,
    Record,
    RecordKind,
    decode_segment,
    find_proof,
    read_header,
    read_records,
)
from quire.storage.journal.segments import SPARE_SUFFIX

Row: TypeAlias = "dict[str, str | int | bool | None]"

_LEDGER: Final = struct.Struct(">q")
_STATE_PREFIX: Final = b"quire "
_VERSION: Final = re.compile("v[1-9][0-9]{0,8}")


async def describe(path: str, data: bytes) -> AsyncIterator[Row]:
    """Yield the parts of a file. Raises `CorruptStorageError` naming the path."""
    if data.startswith(SEGMENT_MAGIC):
        for row in _segment(path, data):
            yield row
    elif data.startswith(HEADER_MAGIC):
        async for row in _entry_log(path, data):
            yield row
    elif data.startswith(RETIRED_MAGIC):
        for row in _retired(path, data):
            yield row
    elif data.startswith(_STATE_PREFIX):
        yield _state_file(path, data)
    elif path.removesuffix(RENEWED_SUFFIX).endswith(SPARE_SUFFIX):
        yield {"part": "spare", "bytes": len(data)}
    elif path.removesuffix(RENEWED_SUFFIX).rpartition("/")[2] == RESERVE:
        yield {"part": "reserve", "bytes": len(data)}
    else:
        raise CorruptStorageError(path, "its first bytes match no file of a bookie")


def _state_file(path: str, data: bytes) -> Row:
    line = data.partition(b"\n")[0].decode("ascii", "replace").split(" ")
    kind, version = (*line, "", "")[1:3]
    if not _VERSION.fullmatch(version):
        raise CorruptStorageError(path, f"{' '.join(line)[:60]!r} is not the title of a state file")
    body = decode_state(path, kind, int(version[1:]), data)
    fields = {name: _plain(value) for name, value in body.items()}
    return {"part": kind, "version": int(version[1:]), **fields}


def _plain(value: object) -> str | int:
    return value if isinstance(value, str | int) else json.dumps(value)


def _retired(path: str, data: bytes) -> Iterator[Row]:
    bookie, file = parse_retired(path, data)
    yield {
        "part": "retired-ids",
        "generation": file.generation,
        "agreed": file.agreed,
        "bookie": bookie,
        "bytes": len(data),
    }
    for part, ids in (("deleted", file.ids.deleted), ("disowned", file.ids.disowned)):
        for first, last in ids:
            yield {"part": part, "first": first, "last": last}


def _segment(path: str, data: bytes) -> Iterator[Row]:
    header = decode_segment(path, data)
    yield {
        "part": "segment",
        "number": header.number,
        "identity": f"{header.identity:016x}",
        "previous": f"{header.previous:016x}",
        "bookie": header.bookie,
        "bytes": len(data),
        "size": header.size,
    }
    first = read_header(data, BLOCK_BYTES, header.identity)
    sequence = 0 if first is None else first.sequence
    try:
        records, end = read_records(data, BLOCK_BYTES, header.identity, sequence)
    except ValueError as error:
        raise CorruptStorageError(path, f"unknown kind of record: {error}") from error
    for record in records:
        yield _record(record)
    proof = find_proof(data, end, header.identity, sequence + len(records))
    reason = None
    if proof is not None:
        reason = f"record {sequence + len(records)} is damaged: byte {proof} proves it was there"
    elif len(data) != header.size:
        reason = f"it has {len(data)} bytes of {header.size}: it was cut or has grown"
    yield {"part": "end", "at": end, "records": len(records), "damaged": reason is not None}
    if reason is not None:
        raise CorruptStorageError(path, reason)


def _record(record: Record) -> Row:
    row: Row = {"part": record.kind.name.lower(), "sequence": record.sequence}
    if record.kind is RecordKind.RUN:
        run = scan_run(record.body)
        row |= {"ledger": run.ledger, "first": run.first, "last": run.last}
        row |= {"entries": len(run.entries), "lac": run.lac, "bytes": len(record.body)}
    elif record.kind is not RecordKind.MARK:
        row["ledger"] = _LEDGER.unpack_from(record.body)[0]
    return row


async def _entry_log(path: str, data: bytes) -> AsyncIterator[Row]:
    number, bookie = decode_header(path, data)
    yield {"part": "entry-log", "number": number, "bookie": bookie, "bytes": len(data)}
    index = await read_index(BytesFile(data), path, number)
    reason = None
    for ledger in sorted(index.ledgers):
        for chunk in index.ledgers[ledger].all():
            end = chunk.offset + chunk.size
            is_damaged = crc32c(data[chunk.offset : end]) != chunk.crc
            if is_damaged:
                reason = reason or f"bytes {chunk.offset} to {end} fail their checksum"
            yield {
                "part": "chunk",
                "ledger": ledger,
                "first": chunk.first,
                "last": chunk.last,
                "entries": chunk.entries,
                "offset": chunk.offset,
                "bytes": chunk.size,
                "crc": f"{chunk.crc:08x}",
                "damaged": is_damaged,
            }
    for state in decode_rows(index.states):
        yield _state(state)
    if reason is not None:
        raise CorruptStorageError(path, reason)


def _state(state: LedgerState) -> Row:
    return {
        "part": "state",
        "ledger": state.ledger,
        "fenced": state.is_fenced,
        "limbo": state.in_limbo,
        "hint": state.hint,
        "explicit_lac": state.packet_lac if state.packet else None,
    }


class BytesFile:
    """Bytes in memory as a `File` of port 3, for reading only.

    Code that reads files through the port can so read a file that a running bookie has locked.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    async def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def will_read(self, offset: int, size: int) -> None:
        """Nothing to do."""

    async def write(
        self, offset: int, data: Sequence[bytes | memoryview], *, sync: bool = False
    ) -> None:
        raise OSError(errno.EROFS, "these bytes are for reading")

    async def truncate(self, size: int) -> None:
        raise OSError(errno.EROFS, "these bytes are for reading")

    async def sync(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""
