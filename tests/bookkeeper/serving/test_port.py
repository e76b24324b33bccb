"""The port for clients of Apache BookKeeper: what the contract suite cannot ask through a link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from quire.bookie import BookieAddress
from quire.bookkeeper import wire2, wire3
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.protobuf import encode
from quire.bookkeeper.serving import client_stream
from quire.bookkeeper.serving.port import serve_bookkeeper
from quire.bookkeeper.status import Status
from quire.bookkeeper.wire3 import SIZE, BookieAnswer, Operation
from quire.entry import (
    ENTRY_BYTES_MAX,
    NO_ENTRY,
    DigestKind,
    LedgerId,
    Sealer,
)
from quire.errors import (
    BookieUnavailableError,
    LedgerFencedError,
    NotPermittedError,
    UnauthorizedError,
)
from quire.rights.roles import Action
from quire.run import pack_run, split_run
from quire.storage.serving.limits import Doorkeeper, Reception, ServiceLimits
from quire.testing.bookie import MemoryBookie
from quire.wire.identity import Identity
from tests.contract.bookie.subjects import Ported
from tests.rights.test_doors import Keeper

pytestmark = pytest.mark.real_time

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")
KEY = SEALER.access_key
SOON = 5.0


def frame(entry: int, payload: bytes = b"x") -> bytes:
    return SEALER.seal(entry, entry - 1, 1 << 40, payload)


class RawClient:
    """Messages as they are, one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, message: bytes) -> bytes:
        self.writer.write(message)
        return await self.answer()

    async def answer(self) -> bytes:
        async with asyncio.timeout(SOON):
            (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
            return await self._reader.readexactly(size)

    async def third(self, message: bytes) -> BookieAnswer:
        return wire3.read_answer(await self.ask(message))

    async def second(self, message: bytes) -> wire2.FixedAnswer:
        return wire2.read_answer(await self.ask(message))

    async def drained(self) -> bytes:
        """Return all bytes up to the end of the connection."""
        return await self._reader.read()

    async def is_closed(self) -> bool:
        async with asyncio.timeout(SOON):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True


class Scene:
    def __init__(self, bookie: MemoryBookie, reception: Reception, address: str) -> None:
        self.bookie = bookie
        self.reception = reception
        self.address = address

    @asynccontextmanager
    async def client(self) -> AsyncIterator[RawClient]:
        host, _, port = self.address.rpartition(":")
        client = RawClient(*await asyncio.open_connection(host, int(port)))
        try:
            yield client
        finally:
            client.writer.close()
            await asyncio.gather(client.writer.wait_closed(), return_exceptions=True)


@asynccontextmanager
async def served(
    limits: ServiceLimits | None = None,
    *,
    doorkeeper: Doorkeeper | None = None,
    connections: int = 64,
) -> AsyncIterator[Scene]:
    bookie = MemoryBookie("b1")
    reception = Reception(bookie, "b1", limits, doorkeeper=doorkeeper)
    where = "127.0.0.1:0"
    async with serve_bookkeeper(reception, Ported(bookie), where, connections) as address:
        yield Scene(bookie, reception, address)
    await reception.ended()


def added(entry: int, *, deferred: bool = False, recovery: bool = False) -> bytes:
    encoder = wire3.AddEncoder(LEDGER, KEY, recovery=recovery, deferred=deferred)
    return b"".join(encoder.encode(entry, [(entry, frame(entry))]))


async def test_a_client_of_each_protocol_reads_what_the_other_wrote() -> None:
    async with served() as scene, scene.client() as third, scene.client() as second:
        assert (await third.third(added(0))).status == Status.OK
        answer = await second.second(wire2.add(KEY, frame(1)))
        assert (answer.status, answer.ledger, answer.entry) == (Status.OK, LEDGER, 1)
        for entry, held in ((0, 0), (1, 1), (-1, 1)):
            one = await third.third(wire3.read(9, LEDGER, entry))
            two = await second.second(wire2.read(LEDGER, entry))
            assert (one.status, one.part.data(4)) == (Status.OK, frame(held))
            assert (two.entry, bytes(two.body)) == (entry, frame(held))
        assert (await third.third(wire3.read(9, LEDGER, 0))).part.number(5) == 0, "the LAC"


async def test_a_batch_ends_before_the_first_entry_that_is_missing() -> None:
    async with served() as scene, scene.client() as client:
        await scene.bookie.add(LEDGER, KEY, pack_run(map(frame, (0, 1, 2, 4))))
        for first, count, bytes_max, wanted in (
            (0, 0, 0, [0, 1, 2]),
            (0, 2, 0, [0, 1]),
            (1, 9, 1, [1]),
            (4, 1, 9999, [4]),
        ):
            answer = await client.second(wire2.batch_read(77, LEDGER, first, count, bytes_max))
            assert (answer.status, answer.request) == (Status.OK, 77)
            assert [entry for entry, _ in split_run(bytes(answer.body))] == wanted
        for first in (3, 5):
            answer = await client.second(wire2.batch_read(78, LEDGER, first, 9, 0))
            assert (answer.status, answer.request) == (Status.NO_ENTRY, 78)


async def test_refusals_have_the_numbers_of_apache() -> None:
    async with served() as scene, scene.client() as client, scene.client() as second:
        assert (await client.third(wire3.read(1, LEDGER, 0))).status == Status.NO_LEDGER
        assert (await client.third(wire3.read(1, LEDGER, -1))).status == Status.NO_LEDGER
        for operation in (Operation.READ_LAC, Operation.LIST_ENTRIES):
            answer = await client.third(wire3.of_ledger(operation, 1, LEDGER))
            assert answer.status == Status.NO_LEDGER
        await client.third(added(0))
        assert (await client.third(wire3.read(1, LEDGER, 1))).status == Status.NO_ENTRY
        wrong = wire3.read(1, LEDGER, 0, fence_key=b"guess")
        assert (await client.third(wrong)).status == Status.UNAUTHORIZED
        bare = encode([(1, LEDGER), (2, 0), (100, 1)])
        keyless = wire3.message(Operation.READ, 1, bare)
        assert (await client.third(keyless)).status == Status.UNAUTHORIZED
        fence = wire3.read(1, LEDGER, 5, fence_key=KEY)
        assert (await client.third(fence)).status == Status.NO_ENTRY
        assert (await client.third(added(1))).status == Status.FENCED
        assert (await second.second(wire2.add(KEY, frame(1)))).status == Status.FENCED
        assert (await client.third(added(1, recovery=True))).status == Status.OK
        assert (await client.third(wire3.start_tls(1))).status == Status.BAD_REQUEST
        assert (await client.third(wire3.authenticate(1, "sasl", b""))).part.text(1) == (
            "AuthDisabledPlugin"
        )


async def test_a_frame_of_another_entry_is_refused() -> None:
    """The ids that count are those in the frame: a bookie of Apache's would take it."""
    async with served() as scene, scene.client() as client:
        for ledger, entry in ((LEDGER + 1, 0), (LEDGER, 1)):
            encoder = wire3.AddEncoder(ledger, KEY, recovery=False, deferred=False)
            message = b"".join(encoder.encode(1, [(entry, frame(0))]))
            assert (await client.third(message)).status == Status.BAD_REQUEST
        encoder = wire3.AddEncoder(LEDGER, KEY, recovery=False, deferred=False)
        short = b"".join(encoder.encode(1, [(0, b"BODY")]))
        assert (await client.third(short)).status == Status.BAD_REQUEST
        assert LEDGER not in scene.bookie.ledgers


async def test_unknown_operations_are_bad_requests_and_the_connection_goes_on() -> None:
    async with served() as scene, scene.client() as client, scene.client() as second:
        for number in (4, 12, 99):
            header = encode([(1, 3), (2, number), (3, 5)])
            message = encode([(1, header), (100, b"")])
            answer = await client.ask(wire3.sized(message))
            assert answer == encode([(1, header), (2, Status.BAD_REQUEST)])
        assert (await client.third(added(0))).status == Status.OK
        await second.ask(wire3.sized(bytes.fromhex("02630000")))
        assert (await second.second(wire2.read(LEDGER, 0))).status == Status.OK


async def test_a_connection_speaks_the_third_protocol_after_the_second_never_again() -> None:
    async with served() as scene, scene.client() as client:
        assert (await client.third(wire3.authenticate(1, "x", b""))).status == Status.OK
        assert (await client.second(wire2.add(KEY, frame(0)))).status == Status.OK
        client.writer.write(added(1))
        assert await client.is_closed()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\3abc", b"\0\0\0\0"])
async def test_what_is_no_message_ends_its_connection_alone(said: bytes) -> None:
    async with served() as scene, scene.client() as other, scene.client() as client:
        assert (await other.third(added(0))).status == Status.OK
        client.writer.write(said)
        assert await client.is_closed()
        assert (await other.third(added(1))).status == Status.OK


async def test_a_message_that_stalls_loses_its_connection() -> None:
    async with served(ServiceLimits(stalled_seconds=0.05)) as scene, scene.client() as client:
        client.writer.write(added(0)[:-1])
        assert await client.is_closed()
        assert scene.reception.refusals.counts["unfinished"] == 1


async def test_a_message_above_five_megabytes_ends_the_connection() -> None:
    async with served() as scene, scene.client() as client:
        client.writer.write(SIZE.pack(wire3.MESSAGE_BYTES_MAX + 1))
        assert await client.is_closed()


async def test_a_poll_ends_with_an_entry_a_lac_or_its_time() -> None:
    async with served() as scene, scene.client() as client, scene.client() as writer:
        assert (await client.third(wire3.poll(1, LEDGER, -1, 60_000))).status == Status.NO_LEDGER
        await writer.third(added(0))
        late = await client.third(wire3.poll(1, LEDGER, -1, 20))
        assert (late.status, late.part.number(5), late.part.has(4)) == (Status.OK, NO_ENTRY, False)
        client.writer.write(wire3.poll(2, LEDGER, -1, 60_000))
        await writer.third(added(1))
        found = wire3.read_answer(await client.answer())
        assert (found.part.number(3), found.part.data(4), found.part.number(5)) == (0, frame(0), 0)
        client.writer.write(wire3.poll(3, LEDGER, 0, 60_000))
        packet = SEALER.seal_lac(1)
        lac = await writer.third(wire3.write_lac(9, LEDGER, 1, KEY, packet))
        assert lac.status == Status.OK
        assert wire3.read_answer(await client.answer()).part.number(5) == 1
        held = await writer.third(wire3.of_ledger(Operation.READ_LAC, 9, LEDGER))
        assert (held.part.data(3), held.part.data(4)) == (packet, frame(1))


async def test_deferred_adds_are_read_once_they_are_forced() -> None:
    async with served() as scene, scene.client() as client:
        assert (await client.third(added(0, deferred=True))).status == Status.OK
        assert (await client.third(wire3.read(1, LEDGER, 0))).status in (
            *(Status.NO_ENTRY, Status.NO_LEDGER),
        )
        force = wire3.of_ledger(Operation.FORCE, 2, LEDGER)
        assert (await client.third(force)).status == Status.OK
        assert (await client.third(wire3.read(1, LEDGER, 0))).status == Status.OK


async def test_many_requests_at_once_are_all_answered() -> None:
    """More than the bounds of a connection: the client waits, and is not refused."""
    async with served(ServiceLimits(runs_per_stream=8)) as scene:
        far = ApacheBookie(BookieAddress("b1", scene.address))
        try:
            adds = [far.add(LEDGER, KEY, pack_run([frame(each)])) for each in range(500)]
            await asyncio.gather(*adds)
            reads = [far.read(LEDGER, each, each) for each in range(500)]
            runs = await asyncio.gather(*reads)
            assert [entry for run in runs for entry, _ in split_run(run)] == list(range(500))
        finally:
            await far.close()
    assert scene.reception.pending.free == scene.reception.pending.size


async def test_a_bookie_that_ends_answers_what_is_under_way_and_refuses_the_rest() -> None:
    async with served() as scene:
        far = ApacheBookie(BookieAddress("b1", scene.address))
        try:
            await far.add(LEDGER, KEY, pack_run([frame(0)]))
            await scene.reception.drain()
            with pytest.raises(BookieUnavailableError):
                await far.read(LEDGER, 0, 0)
        finally:
            await far.close()


async def test_a_fence_of_one_client_stops_the_other() -> None:
    async with served() as scene:
        writer = ApacheBookie(BookieAddress("b1", scene.address))
        reader = ApacheBookie(BookieAddress("b1", scene.address))
        try:
            await writer.add(LEDGER, KEY, pack_run([frame(0)]))
            with pytest.raises(UnauthorizedError):
                await reader.read_tail(LEDGER, fence_key=b"guess")
            await reader.read_tail(LEDGER, fence_key=KEY)
            with pytest.raises(LedgerFencedError):
                await writer.add(LEDGER, KEY, pack_run([frame(1)]))
        finally:
            await writer.close()
            await reader.close()


class NobodyMay:
    """Rights that permit nothing, and note what they were asked."""

    def __init__(self) -> None:
        self.asked: list[Action] = []

    def admits(self, identity: Identity, action: Action, ledger: LedgerId | None, /) -> bool:
        return False

    async def check(self, identity: Identity, action: Action, ledger: LedgerId | None, /) -> None:
        self.asked.append(action)
        raise NotPermittedError(identity.name, action, f"ledger {ledger}")


async def test_a_right_that_is_taken_away_during_a_read_is_gone() -> None:
    rights = Keeper()

    async def take_away(_: str, __: LedgerId) -> None:
        rights.denied = {Action.READ}

    async with (
        served(doorkeeper=rights) as scene,
        scene.client() as third,
        scene.client() as second,
    ):
        assert (await third.third(added(0))).status == Status.OK
        scene.bookie.before = take_away
        for message in (
            wire3.read(1, LEDGER, 0),
            wire3.poll(1, LEDGER, -1, 1),
            wire3.of_ledger(Operation.READ_LAC, 1, LEDGER),
        ):
            rights.denied = set()
            assert (await third.third(message)).status == Status.UNAUTHORIZED
        for message in (wire2.read(LEDGER, 0), wire2.batch_read(1, LEDGER, 0, 1, 0)):
            rights.denied = set()
            assert (await second.second(message)).status == Status.UNAUTHORIZED


async def test_a_client_without_a_right_is_refused_in_both_protocols() -> None:
    rights = NobodyMay()
    async with (
        served(doorkeeper=rights) as scene,
        scene.client() as third,
        scene.client() as second,
    ):
        for message in (
            added(0),
            wire3.read(1, LEDGER, 0),
            wire3.read(1, LEDGER, 0, fence_key=KEY),
            wire3.poll(1, LEDGER, -1, 60_000),
            wire3.write_lac(1, LEDGER, 0, KEY, SEALER.seal_lac(0)),
            *(
                wire3.of_ledger(each, 1, LEDGER)
                for each in (Operation.READ_LAC, Operation.FORCE, Operation.LIST_ENTRIES)
            ),
        ):
            assert (await third.third(message)).status == Status.UNAUTHORIZED
        for message in (
            wire2.add(KEY, frame(0)),
            wire2.read(LEDGER, 0),
            wire2.batch_read(1, LEDGER, 0, 1, 0),
        ):
            assert (await second.second(message)).status == Status.UNAUTHORIZED
        assert len(rights.asked) == 11
        assert rights.asked[2] == Action.RECOVER, "a fence"
        assert LEDGER not in scene.bookie.ledgers
        assert scene.reception.refusals.counts["rights"] == 11


async def test_tls_and_authentication_are_refused_by_status_and_the_client_goes_on() -> None:
    async with served() as scene, scene.client() as third, scene.client() as second:
        answer = await third.third(wire3.start_tls(1))
        assert answer.status == Status.BAD_REQUEST, "no certificate is here"
        for plugin in ("sasl", "", "TLS"):
            answer = await third.third(wire3.authenticate(2, plugin, b"token"))
            assert (answer.status, answer.part.text(1)) == (Status.OK, "AuthDisabledPlugin")
        said = await second.ask(wire3.sized(bytes.fromhex("02030000") + encode([(1, "sasl")])))
        assert said == bytes.fromhex("02030000") + encode([(1, "AuthDisabledPlugin"), (2, b"")])
        assert (await third.third(added(0))).status == Status.OK
        assert (await second.second(wire2.read(LEDGER, 0))).status == Status.OK


async def test_a_client_that_begins_with_tls_is_ended() -> None:
    async with served() as scene, scene.client() as client:
        client.writer.write(bytes.fromhex("160301020001"))  # a handshake's first bytes
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (ENTRY_BYTES_MAX - 1, Status.OK),
        (ENTRY_BYTES_MAX, Status.OK),
        (ENTRY_BYTES_MAX + 1000, Status.BAD_REQUEST),
        (5 * 1000 * 1000, Status.BAD_REQUEST),
    ],
)
async def test_entries_of_four_to_five_megabytes(size: int, wanted: Status) -> None:
    """Clients of Apache's send up to 5 MiB in a message; a larger entry than quire's is refused
    by a status, and the connection goes on.
    """
    sealed = bytearray(frame(0, bytes(1000)))
    sealed += bytes(size - 1000)
    large = bytes(sealed)
    if wanted == Status.OK:
        large = frame(0, bytes(size))
    async with served() as scene, scene.client() as third, scene.client() as second:
        encoder = wire3.AddEncoder(LEDGER, KEY, recovery=False, deferred=False)
        answer = await third.third(b"".join(encoder.encode(1, [(0, large)])))
        assert answer.status == wanted
        assert (await second.second(wire2.add(KEY, large))).status == wanted
        if wanted == Status.OK:
            read = await third.third(wire3.read(2, LEDGER, 0))
            assert read.part.data(4) == large
            assert bytes((await second.second(wire2.read(LEDGER, 0))).body) == large
            batch = await second.second(wire2.batch_read(3, LEDGER, 0, 1, 0))
            assert [each for _, each in split_run(bytes(batch.body))] == [large]
        assert (await third.third(added(1))).status == Status.OK
    assert scene.reception.pending.free == scene.reception.pending.size


async def test_a_client_that_leaves_within_a_message_leaves_nothing() -> None:
    async with served() as scene:
        for cut in (1, SIZE.size, SIZE.size + 1, len(added(0)) - 1):
            async with scene.client() as client:
                client.writer.write(added(0)[:cut])
        async with scene.client() as client:
            client.writer.write(added(0)[:-1])
            client.writer.write(added(0)[-1:] + added(1)[:7])
            assert wire3.read_answer(await client.answer()).status == Status.OK
            client.writer.write(added(1)[7:])
            assert wire3.read_answer(await client.answer()).status == Status.OK
    assert not scene.reception.unfinished._holdings
    assert scene.reception.pending.free == scene.reception.pending.size


async def test_half_a_message_keeps_no_place_from_clients_that_send() -> None:
    """The size alone is no message: such a connection goes first when others need its place."""
    async with served(connections=32) as scene, AsyncExitStack() as stack:
        for _ in range(30):  # more than the places
            idle = await stack.enter_async_context(scene.client())
            idle.writer.write(SIZE.pack(100))
            await idle.writer.drain()
        client = await stack.enter_async_context(scene.client())
        assert (await client.third(added(0))).status == Status.OK
        for _ in range(30):
            idle = await stack.enter_async_context(scene.client())
            idle.writer.write(SIZE.pack(100))
        assert (await client.third(added(1))).status == Status.OK, "it sent something"
        assert scene.reception.refusals.counts["connections"] > 0


async def test_polls_above_the_bound_are_refused_and_the_others_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_stream, "POLLS_MAX", 3)
    async with served() as scene, scene.client() as client, scene.client() as writer:
        await writer.third(added(0))
        for number in range(5):
            client.writer.write(wire3.poll(number, LEDGER, -1, 60_000))
        for _ in range(2):
            refused = wire3.read_answer(await client.answer())
            assert refused.status == Status.TOO_MANY_REQUESTS
        await writer.third(added(1))
        for _ in range(3):
            held = wire3.read_answer(await client.answer())
            assert (held.status, held.part.number(5)) == (Status.OK, 0)
