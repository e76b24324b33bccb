"""Bookies whose answers are damaged: readers and recoverers find out, and decide nothing wrong.

Bytes of what a bookie returns are changed on their way, as by rot, a bad network card or a broken
server. Clients verify everything, so with some honest bookies they get the truth, and without
they get an error of quire; a ledger is never closed at a wrong end, and no altered payload is
ever delivered.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from quire.bookie import READ_BYTES_MAX, LedgerTail, Stride
from quire.entry import DigestKind, EntryId, LedgerId, Sealer
from quire.errors import CorruptEntryError, InvalidRequestError, QuireError
from quire.ledger.options import LedgerOptions
from quire.run import pack_run, scan_run
from quire.testing.bookie import MemoryBookie
from tests.support.memory_cluster import LocalBookie, MemoryCluster
from tests.support.planted_ledger import PASSWORD, PlantedLedger, payload
from tests.support.virtual import virtually

OPTIONS = LedgerOptions(request_timeout=1.0)
CONFIRMED, LAST = 4, 6
"""Everybody holds 0..6; the writer had announced that 0..4 are confirmed."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "remove", "double", "empty", "noise"]),
        st.floats(0, 1),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=3,
)


def mutate(data: bytes, steps: list[tuple[str, float, int]]) -> bytes:
    changed = bytearray(data)
    for kind, where, number in steps:
        at = int(where * len(changed))
        if kind == "flip" and at < len(changed):
            changed[at] ^= 1 << number % 8
        elif kind == "cut":
            del changed[at:]
        elif kind == "insert":
            changed[at:at] = bytes([number]) * (1 + number % 50)
        elif kind == "remove":
            del changed[at : at + 1 + number % 120]
        elif kind == "double":
            changed += bytes(changed)
        elif kind == "empty":
            changed.clear()
        elif kind == "noise":
            changed[at:] = bytes((number * 7 + index) % 256 for index in range(number))
    return bytes(changed)


class Garbling(LocalBookie):
    """Stores faithfully, answers with damage."""

    steps: list[tuple[str, float, int]]

    async def read(
        self,
        ledger: LedgerId,
        first: EntryId,
        last: EntryId,
        *,
        fence_key: bytes | None = None,
        bytes_max: int = READ_BYTES_MAX,
        stride: Stride | None = None,
    ) -> bytes:
        run = await super().read(ledger, first, last, fence_key=fence_key, bytes_max=bytes_max)
        return mutate(run, self.steps)

    async def read_tail(self, ledger: LedgerId, *, fence_key: bytes | None = None) -> LedgerTail:
        tail = await super().read_tail(ledger, fence_key=fence_key)
        frame, packet = tail.frame, tail.lac_packet
        return replace(
            tail,
            frame=None if frame is None else mutate(frame, self.steps),
            lac_packet=None if packet is None else mutate(packet, self.steps),
        )


async def garble(cluster: MemoryCluster, name: str, steps: list[tuple[str, float, int]]) -> None:
    bookie = Garbling(name)
    bookie.steps = steps
    bookie.ledgers = cluster.bookies[name].ledgers
    cluster.bookies[name] = bookie


@settings(max_examples=250, deadline=None)
@given(st.sets(st.integers(0, 2), min_size=1), STEPS)
def test_damaged_answers_decide_nothing(
    liars: set[int], steps: list[tuple[str, float, int]]
) -> None:
    async def main() -> None:
        async with MemoryCluster(3, options=OPTIONS) as cluster:
            planted = await PlantedLedger.create(cluster, (0, "b0 b1 b2"))
            await planted.add("b0 b1 b2", *range(LAST + 1), lac=CONFIRMED)
            for liar in sorted(liars):
                await garble(cluster, f"b{liar}", steps)
            reader = await cluster.catalog.open_without_recovery(7, password=PASSWORD)
            with suppress(QuireError):
                async for entry in reader.read():
                    assert entry.payload == payload(entry.entry)
                    assert entry.entry <= CONFIRMED
            with suppress(QuireError):
                await cluster.catalog.open(7, password=PASSWORD)
            metadata = await planted.metadata()
            if len(liars) == 1:
                assert metadata.is_closed, "two of three are enough"
            if metadata.is_closed:
                assert metadata.last_entry == LAST
                for bookie in ("b0", "b1", "b2"):
                    with suppress(KeyError):
                        for held in range(LAST + 1):
                            assert planted.held(bookie, held).payload == payload(held)

    virtually(main)


SEALERS = [Sealer(7, kind, b"secret") for kind in DigestKind if kind is not DigestKind.NONE]


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(SEALERS), st.binary(max_size=40), STEPS)
def test_a_changed_frame_is_never_an_entry(
    sealer: Sealer, body: bytes, steps: list[tuple[str, float, int]]
) -> None:
    frame = sealer.seal(5, 4, 1000, body)
    changed = mutate(frame, steps)
    try:
        entry = sealer.unseal(5, changed)
    except CorruptEntryError:
        return
    assert changed == frame
    assert entry.payload == body


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SEALERS), STEPS)
def test_a_changed_packet_is_never_a_lac(
    sealer: Sealer, steps: list[tuple[str, float, int]]
) -> None:
    packet = sealer.seal_lac(5)
    changed = mutate(packet, steps)
    try:
        lac = sealer.unseal_lac(changed)
    except CorruptEntryError:
        return
    assert (changed, lac) == (packet, 5)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5), STEPS)
def test_a_changed_run_is_refused_or_consistent(
    bodies: list[bytes], steps: list[tuple[str, float, int]]
) -> None:
    sealer = SEALERS[0]
    run = pack_run(sealer.seal(entry, entry - 1, 1000, body) for entry, body in enumerate(bodies))
    changed = mutate(run, steps)
    try:
        scanned = scan_run(changed)
    except InvalidRequestError:
        return
    frames = list(scanned.frames)
    assert [at.entry for at in frames] == sorted({at.entry for at in frames})
    assert frames[-1].offset + frames[-1].size == len(changed)
    assert scanned.lac < scanned.last


def test_the_garbling_bookie_garbles() -> None:
    async def main() -> None:
        bookie = Garbling("b")
        bookie.steps = [("flip", 0.9, 0)]
        sealer = SEALERS[0]
        await bookie.add(7, sealer.access_key, pack_run([sealer.seal(0, -1, 1, b"x")]))
        honest = await MemoryBookie.read(bookie, 7, 0, 0)
        assert await bookie.read(7, 0, 0) != honest

    virtually(main)
