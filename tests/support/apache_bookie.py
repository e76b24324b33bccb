"""A bookie with the habits of Apache's, for contracts, tests in memory and the simulator.

It keeps what such bookies were seen to do and what their source says, the bad habits above all:

  - the last explicit LAC wins, and is taken after a fence as well; without entries it is answered
    beside an error,
  - a refused fencing read is answered before its fence is durable: `crash` forgets that,
  - polls of a ledger never seen are answered at once; a fence wakes those before it only, unnamed,
  - lists of entries are never answered, if `lists` is False,
  - an ordinary add replaces an entry, and the ids inside the frame count,
  - deferred adds are visible at once, and gone after a crash,
  - a message that is too large resets the connection,
  - the first message of the second protocol makes a connection one of that protocol. Batch reads
    are all of it here. If `batches` is False, one of them closes the connection, as at releases
    before 4.17.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quire.bookkeeper import wire3
from quire.bookkeeper.protobuf import Field, Message, encode
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import PART, SIZE, AddFlag, Operation, ReadFlag
from quire.entry import HEADER, LAC_HEADER, NO_ENTRY, EntryId, LedgerId

BATCH = struct.Struct(">Iqqqiq")
BATCH_WORD = 0x02070000
BATCH_HEAD_BYTES = 36
"""Counted as part of the bytes that a batch may have."""


@dataclass
class Held:
    """A ledger on the bookie."""

    key: bytes | None = None
    fenced: bool = False
    fence_is_durable: bool = False
    frames: dict[EntryId, bytes] = field(default_factory=dict)
    deferred: set[EntryId] = field(default_factory=set)
    lac_packet: bytes | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def lac(self) -> EntryId:
        explicit = LAC_HEADER.unpack(self.lac_packet[:16])[1] if self.lac_packet else NO_ENTRY
        return int(max([explicit, *(HEADER.unpack_from(each)[2] for each in self.frames.values())]))

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def settle(self) -> None:
        """The journal was synced."""
        self.deferred.clear()
        self.fence_is_durable = self.fenced


class FakeApacheBookie:
    """One bookie. `connect` is how an `ApacheBookie` reaches it in memory."""

    def __init__(self, *, lists: bool = True, batches: bool = True) -> None:
        self.ledgers: dict[LedgerId, Held] = {}
        self.lists = lists
        self.batches = batches
        self.asked_batches: list[tuple[EntryId, int, int]] = []
        """The first entry, the number of entries and the bytes of each batch that was asked for."""
        self.writable = True
        self.forces = True
        """Whether FORCE reaches the journal, for a test of what happens without it."""
        self.asked: list[Operation] = []
        self.connections: set[_End] = set()
        self.mute = False
        """It takes requests and answers none, as a process that was stopped."""

    async def connect(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        await asyncio.sleep(0)
        end = _End(self, protocol)
        self.connections.add(end)
        protocol.connection_made(end)
        return end

    def crash(self) -> None:
        """Lose what is not durable, and every connection. A fence of a ledger without entries is
        lost with its key.
        """
        for ledger, held in list(self.ledgers.items()):
            for entry in held.deferred:
                held.frames.pop(entry, None)
            held.deferred.clear()
            held.fenced = held.fence_is_durable
            if not held.frames and not held.fenced:
                del self.ledgers[ledger]
        for end in list(self.connections):
            end.reset()

    async def answer(self, data: bytes) -> bytes | None:
        """Return the answer to a message, None for none."""
        whole = Message(data)
        header = Message(whole.data(1))
        operation = Operation(header.number(2))
        part = Message(whole.data(PART[operation]))
        self.asked.append(operation)
        call: Callable[..., Any] = getattr(self, f"_{operation.name.lower()}")
        found = call(part, header.number(4, 0))
        if asyncio.iscoroutine(found):
            found = await found
        if found is None or self.mute:
            return None
        status, fields = found
        head = encode([(1, 3), (2, operation), (3, header.number(3))])
        answer = encode([(1, status), *fields])
        return encode([(1, head), (2, status), (PART[operation], answer)])

    async def answer_batch(self, data: bytes) -> bytes | None:
        """Return the answer to a message of the second protocol, None to close its connection."""
        word, ledger, first, request, count, bytes_max = BATCH.unpack(data)
        self.asked_batches.append((first, count, bytes_max))
        if word != BATCH_WORD or not self.batches:
            return None
        code, body = self.batch(ledger, first, count, bytes_max)
        head = struct.pack(">Iiqqq", BATCH_WORD, code, ledger, first, request)
        return head + body

    def batch(
        self, ledger: LedgerId, first: EntryId, count: int, bytes_max: int
    ) -> tuple[int, bytes]:
        """Return the code and the frames that answer a batch read."""
        held = self.ledgers.get(ledger)
        if held is None:
            return 1, b""
        body, entry = b"", first
        while (frame := held.frames.get(entry)) is not None and (
            count <= 0 or entry < first + count
        ):
            piece = SIZE.pack(len(frame)) + frame
            if body and BATCH_HEAD_BYTES + len(body) + len(piece) > bytes_max:
                break
            body, entry = body + piece, entry + 1
        return (0, body) if body else (2, b"")

    def _authorize(self, ledger: LedgerId, key: bytes) -> Held | None:
        held = self.ledgers.setdefault(ledger, Held())
        held.key = held.key or key
        return held if held.key == key else None

    def _add(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
        frame = part.data(4)
        echoed: list[Field] = [(2, part.number(1)), (3, part.number(2))]
        if len(frame) < HEADER.size:
            return Status.BAD_REQUEST, echoed
        ledger, entry = HEADER.unpack_from(frame)[:2]
        recovery = part.number(100, 0) == wire3.RECOVERY
        if not self.writable and not (recovery and priority):
            return Status.READ_ONLY, echoed
        held = self._authorize(ledger, part.data(3))
        if held is None:
            return Status.UNAUTHORIZED, echoed
        if held.fenced and not recovery:
            return Status.FENCED, echoed
        held.frames[entry] = frame
        if part.number(5, 0) & AddFlag.DEFERRED:
            held.deferred.add(entry)
        else:
            held.settle()
        held.wake()
        return Status.OK, echoed

    async def _read(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
        ledger, entry = part.number(1), part.number(2)
        echoed: list[Field] = [(2, ledger), (3, entry)]
        flag = part.number(100, 0)
        if flag == ReadFlag.WAIT:
            return await self._poll(part, ledger)
        if flag == ReadFlag.FENCE:
            held = self._authorize(ledger, part.data(3)) if part.has(3) else None
            if held is None:
                return Status.UNAUTHORIZED, echoed
            held.fenced = True
            held.wake()
        found = self.ledgers.get(ledger)
        if found is None:
            return Status.NO_LEDGER, echoed
        wanted = max(found.frames, default=NO_ENTRY) if entry == NO_ENTRY else entry
        if wanted not in found.frames:
            return Status.NO_ENTRY, echoed  # before the fence is durable
        if flag == ReadFlag.FENCE:
            found.settle()
            return Status.OK, [*echoed, (4, found.frames[wanted])]
        return Status.OK, [*echoed, (4, found.frames[wanted]), (5, found.lac)]

    async def _poll(self, part: Message, ledger: LedgerId) -> tuple[Status, list[Field]]:
        held = self.ledgers.get(ledger)
        echoed: list[Field] = [(2, ledger), (3, NO_ENTRY)]
        if held is None:
            return Status.NO_LEDGER, echoed
        before = held.fenced
        with suppress(TimeoutError):
            async with asyncio.timeout(part.number(5) / 1000):
                while held.lac <= part.number(4) and held.fenced == before:
                    await held.changed.wait()
        return Status.OK, [*echoed, (5, held.lac)]

    def _write_lac(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
        held = self._authorize(part.number(1), part.data(3))
        if held is None:
            return Status.UNAUTHORIZED, [(2, part.number(1))]
        held.lac_packet = part.data(4)
        held.wake()
        return Status.OK, [(2, part.number(1))]

    def _read_lac(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
        held = self.ledgers.get(part.number(1))
        if held is None:
            return Status.NO_LEDGER, [(2, part.number(1))]
        last = held.frames[max(held.frames)] if held.frames else None
        if last is None and held.lac_packet is None:
            return Status.NO_ENTRY, [(2, part.number(1))]
        status = Status.OK if last else Status.IO_ERROR
        return status, [(2, part.number(1)), (3, held.lac_packet), (4, last)]

    def _force(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
        if self.forces and part.number(1) in self.ledgers:
            self.ledgers[part.number(1)].settle()
        return Status.OK, [(2, part.number(1))]

    def _list_entries(self, part: Message, priority: int) -> tuple[Status, list[Field]] | None:
        if not self.lists:
            return None
        held = self.ledgers.get(part.number(1))
        if held is None:
            return Status.NO_LEDGER, [(2, part.number(1))]
        groups = [each.to_bytes(8, "big") * 2 + b"\0\0\0\1\0\0\0\0" for each in sorted(held.frames)]
        head = (0).to_bytes(4, "big") + len(groups).to_bytes(4, "big") + bytes(56)
        return Status.OK, [(2, part.number(1)), (3, head + b"".join(groups))]

    def _info(self, part: Message, priority: int) -> tuple[Status, list[Field]]:
        return Status.OK, [(2, 1 << 40), (3, 1 << 39)]


class _End(asyncio.Transport):
    """The client's end of a connection in memory, and what the bookie does at the other."""

    def __init__(self, bookie: FakeApacheBookie, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._bookie = bookie
        self.protocol = protocol
        self._received = b""
        self.is_second = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        asyncio.get_running_loop().call_soon(self._take, bytes(data))

    def writelines(self, data: Any) -> None:
        self.write(b"".join(data))

    def _take(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= SIZE.size and not self._over:
            (size,) = SIZE.unpack_from(self._received)
            if size > wire3.MESSAGE_BYTES_MAX:
                self.reset()
                return
            if len(self._received) < SIZE.size + size:
                return
            message = self._received[SIZE.size : SIZE.size + size]
            self._received = self._received[SIZE.size + size :]
            task = asyncio.get_running_loop().create_task(self._serve(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, message: bytes) -> None:
        is_second = message[:1] == b"\2"
        if self.is_second and not is_second:
            self.reset()
            return
        self.is_second = is_second
        if self._bookie.mute:
            return
        if is_second:
            answer = await self._bookie.answer_batch(message)
            if answer is None:
                self.abort()
        else:
            answer = await self._bookie.answer(message)
        if answer is not None and not self._over:
            self.protocol.data_received(SIZE.pack(len(answer)) + answer)

    def is_closing(self) -> bool:
        return self._over

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._end(None)

    def reset(self) -> None:
        self._end(ConnectionResetError("reset by peer"))

    def _end(self, error: Exception | None) -> None:
        if self._over:
            return
        self._over = True
        self._bookie.connections.discard(self)
        for task in list(self._tasks):
            task.cancel()
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)
