"""The adds of a run as one string of bytes, and their answers in any order and any pieces."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.bookie import BookieAddress
from quire.bookkeeper import wire3
from quire.bookkeeper.add_bundles import bundle
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.protobuf import Message, encode
from quire.bookkeeper.shared_adds import SharedAdds
from quire.bookkeeper.status import Status
from quire.bookkeeper.tls import ClientTls
from quire.bookkeeper.wire3 import SIZE, AddEncoder, Operation
from quire.entry import DigestKind, Sealer
from quire.errors import BookieUnavailableError, LedgerFencedError, QuireError
from quire.ledger.run_link import RunLink
from quire.run import pack_run, scan_run
from quire.wire.adds import AddKind, RunEncoder
from quire.wire.varint import varint, varints
from tests.support.apache_bookie import FakeApacheBookie

LEDGER = 7
SEALER = Sealer(LEDGER, DigestKind.CRC32C, b"")
KEY = SEALER.access_key
EDGES = st.sampled_from([0, 1, 100, 126, 127, 128, 16_380, 2**21 - 3, 2**28 - 2, 2**35 - 1])


def run_of(entries: Sequence[int], sizes: Sequence[int]) -> bytes:
    sealed = (
        SEALER.seal(entry, entry - 1, 1 << 40, b"x" * sizes[at % len(sizes)])
        for at, entry in enumerate(entries)
    )
    return pack_run(sealed)


def added(transaction: int, entry: int, ledger: int = LEDGER, status: int = Status.OK) -> bytes:
    """What a bookie answers, put together field by field."""
    header = encode([(1, 3), (2, Operation.ADD), (3, transaction)])
    part = encode([(1, status), (2, ledger), (3, entry)])
    return wire3.sized(encode([(1, header), (2, status), (101, part)]))


@given(st.integers(0, 2**40), st.integers(0, 600))
def test_consecutive_numbers_are_the_same_as_single_ones(first: int, count: int) -> None:
    assert varints(first, count) == [varint(each) for each in range(first, first + count)]


@given(
    EDGES,
    EDGES,
    st.lists(st.integers(1, 4), max_size=300),
    st.lists(st.sampled_from([0, 1, 90, 91, 92, 300]), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_a_bundle_is_the_adds_of_its_entries(
    transaction: int,
    first: int,
    steps: list[int],
    sizes: list[int],
    recovery: bool,
    deferred: bool,
) -> None:
    entries = [first]
    for step in steps:
        entries.append(entries[-1] + step)
    encoder = AddEncoder(LEDGER, KEY, recovery=recovery, deferred=deferred)
    run = run_of(entries, sizes)
    made = bundle(encoder, transaction, scan_run(run))
    frames = [(at.entry, run[at.offset : at.offset + at.size]) for at in scan_run(run).frames]
    assert made.requests == b"".join(encoder.encode(transaction, frames))
    answers = [added(transaction + at, entry) for at, entry in enumerate(entries)]
    assert made.answers == b"".join(answers)
    ends = [0]
    for answer in answers:
        ends.append(ends[-1] + len(answer))
    assert list(made.bounds) == ends


def test_the_answer_that_is_expected_is_the_one_that_apaches_bookies_send() -> None:
    encoder = AddEncoder(LEDGER, KEY, recovery=False, deferred=False)
    made = bundle(encoder, 1, scan_run(run_of([1], [5])))
    seen = bytes.fromhex("0a06080310021801" + "1000" + "aa0606" + "080010071801")
    assert made.answers == wire3.sized(seen)


@given(st.integers(0, 8), st.integers(0, 400), st.integers(0, 400), st.binary(max_size=3))
def test_answers_match_as_far_as_they_are_whole(
    done: int, end: int, damaged: int, before: bytes
) -> None:
    encoder = AddEncoder(LEDGER, KEY, recovery=False, deferred=False)
    made = bundle(encoder, 124, scan_run(run_of(range(9), [3])))
    sent = bytearray(made.answers[made.bounds[done] :])
    if damaged < len(sent):
        sent[damaged] ^= 1
    data = before + bytes(sent[:end])
    count = made.matched(done, data, len(before))
    sound = min(end, damaged, len(sent))
    assert count == sum(bound - made.bounds[done] <= sound for bound in made.bounds[done + 1 :])


class Counted(bytes):
    """Counts the bytes that it is compared with."""

    compared = 0

    def startswith(self, prefix: Any, start: Any = 0, end: Any = None) -> bool:
        self.compared += len(prefix)
        return super().startswith(prefix, start, end)


def test_answers_behind_another_message_are_not_compared_again_and_again() -> None:
    """Two ledgers of one connection are answered in turn: each turn would cost a whole chunk."""
    encoder = AddEncoder(LEDGER, KEY, recovery=False, deferred=False)
    made = bundle(encoder, 124, scan_run(run_of(range(4000), [3])))
    bounds, other = made.bounds, added(9, 9, LEDGER + 1)
    sent = [made.answers[bounds[at] : bounds[at + 1]] for at in range(4000)]
    data = Counted(other.join(sent))
    at = found = 0
    while found < 4000:
        assert made.matched(found, data, at) == 1
        found, at = found + 1, at + bounds[found + 1] - bounds[found] + len(other)
    halves = Counted(made.answers[: bounds[2000]] + bytes(bounds[2000]))
    assert made.matched(0, halves, 0) == 2000
    assert data.compared < 20 * len(data)
    assert halves.compared < 4 * len(halves)


class Scripted(FakeApacheBookie):
    """Answers adds when it is told to, in the order and the pieces that a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[tuple[int, int, int]] = []

    async def answer(self, data: bytes) -> bytes | None:
        whole = Message(data)
        transaction = Message(whole.data(1)).number(3)
        part = Message(whole.data(101))
        self.transactions.append((transaction, part.number(2), part.number(1)))
        return None

    def say(self, data: bytes) -> None:
        (end,) = self.connections
        end.protocol.data_received(data)


Order = Callable[[list[bytes]], list[bytes]]
SHUFFLED = random.Random(7)
ORDERS: dict[str, Order] = {
    "in order": lambda sent: sent,
    "backwards": lambda sent: sent[::-1],
    "shuffled": lambda sent: SHUFFLED.sample(sent, len(sent)),
    "each twice": lambda sent: [each for one in sent for each in (one, one)],
    "the second run at first": lambda sent: sent[40:] + sent[:40],
    "in turn": lambda sent: [
        each for two in zip(sent[:40], sent[40:], strict=True) for each in two
    ],
}


@pytest.mark.parametrize("size", [1, 29, 64, 100_000])
@pytest.mark.parametrize("order", ORDERS)
async def test_a_run_is_done_when_every_entry_has_its_own_answer(order: str, size: int) -> None:
    far = Scripted()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=far.connect)
    other = Sealer(LEDGER + 1, DigestKind.CRC32C, b"")
    try:
        one = bookie.add(LEDGER, KEY, run_of(range(100, 140), [1]))
        run = pack_run(other.seal(each, each - 1, 9, b"y") for each in range(40))
        two = bookie.add(LEDGER + 1, other.access_key, run)
        await asyncio.sleep(0.1)
        sent = [added(*each) for each in far.transactions]
        assert len(sent) == 80
        missing = sent[17]
        stream = b"".join(each for each in ORDERS[order](sent) if each is not missing)
        for at in range(0, len(stream), size):
            far.say(stream[at : at + size])
        await asyncio.sleep(0)
        assert (one.done(), two.done()) == (False, True)
        far.say(missing[:9])
        far.say(missing[9:])
        await one
    finally:
        await bookie.close()


async def test_a_refusal_amid_answers_is_the_error_of_its_run_alone() -> None:
    far = Scripted()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=far.connect)
    try:
        runs = [run_of(range(first, first + 10), [1]) for first in (0, 10)]
        one, two = (bookie.add(LEDGER, KEY, run) for run in runs)
        await asyncio.sleep(0.1)
        answers = [added(*each) for each in far.transactions]
        transaction, entry, ledger = far.transactions[4]
        answers[4] = added(transaction, entry, ledger, Status.FENCED)
        far.say(b"".join(answers))
        with pytest.raises(LedgerFencedError):
            await one
        await two
    finally:
        await bookie.close()


@pytest.mark.parametrize("statuses", [(Status.OK, Status.FENCED), (Status.FENCED, Status.OK)])
async def test_an_entry_is_stored_if_neither_status_is_an_error(statuses: list[int]) -> None:
    far = Scripted()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=far.connect)
    try:
        adding = bookie.add(LEDGER, KEY, run_of([5], [1]))
        await asyncio.sleep(0.1)
        ((transaction, entry, ledger),) = far.transactions
        header = encode([(1, 3), (2, Operation.ADD), (3, transaction)])
        part = encode([(1, statuses[1]), (2, ledger), (3, entry)])
        far.say(wire3.sized(encode([(1, header), (2, statuses[0]), (101, part)])))
        with pytest.raises(LedgerFencedError):
            await adding
    finally:
        await bookie.close()


@pytest.mark.parametrize("about", [(LEDGER, 6), (LEDGER + 1, 5)])
async def test_an_answer_about_another_entry_stores_nothing(about: tuple[int, int]) -> None:
    far = Scripted()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=far.connect)
    try:
        adding = bookie.add(LEDGER, KEY, run_of([5], [1]))
        await asyncio.sleep(0.1)
        ((transaction, _, _),) = far.transactions
        far.say(added(transaction, about[1], about[0]))
        with pytest.raises(BookieUnavailableError, match="the add of entry 5 of ledger 7 with"):
            await adding
    finally:
        await bookie.close()


async def test_an_answer_with_a_part_of_its_own_order_counts() -> None:
    """Bytes other than the expected ones are taken apart."""
    far = Scripted()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), connect=far.connect)
    try:
        adding = bookie.add(LEDGER, KEY, run_of(range(3), [1]))
        await asyncio.sleep(0.1)
        for transaction, entry, ledger in far.transactions:
            header = encode([(3, transaction), (2, Operation.ADD), (1, 3)])
            part = encode([(3, entry), (2, ledger), (1, 0)])
            far.say(wire3.sized(encode([(101, part), (2, 0), (1, header)])))
        await adding
    finally:
        await bookie.close()


class NoTls(ClientTls):
    """Goes on without TLS, with the streams as they are."""

    def __init__(self) -> None:
        pass

    async def over(
        self, plain: asyncio.Transport, protocol: asyncio.Protocol, host: str
    ) -> asyncio.Transport:
        return plain


@pytest.mark.parametrize("cut", [None, -1, 7])
async def test_bytes_before_tls_are_no_answers(cut: int | None) -> None:
    """Anybody on the way may add them: they would stand before what comes over TLS."""
    forged = added(0, 0)

    class Between(Scripted):
        async def answer(self, data: bytes) -> bytes | None:
            header = Message(Message(data).data(1))
            if header.number(2) == Operation.START_TLS:
                head = encode([(1, 3), (2, Operation.START_TLS), (3, header.number(3))])
                told = wire3.sized(encode([(1, head), (2, Status.OK), (106, b"")]))
                self.say(told + forged[:cut])
            return None

    far = Between()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), tls=NoTls(), connect=far.connect)
    try:
        adding = bookie.add(LEDGER, KEY, run_of([0], [1]))
        await asyncio.sleep(0.1)
        if far.connections:
            far.say(SIZE.pack(20)[:1])  # over TLS
        with pytest.raises(BookieUnavailableError, match="plain text follows"):
            await adding
    finally:
        await bookie.close()


async def test_a_run_without_a_future_is_told_once() -> None:
    far = FakeApacheBookie()
    bookie = ApacheBookie(BookieAddress("b1", "b1:3181"), request_timeout=1.0, connect=far.connect)
    told: list[Exception | None] = []
    encoder = RunEncoder(LEDGER, KEY)
    try:
        assert isinstance(bookie, RunLink)
        bookie.send(encoder, run_of(range(20), [1]), told.append)
        assert told == []
        await asyncio.sleep(0.1)
        assert told == [None]
        assert sorted(far.ledgers[LEDGER].frames) == list(range(20))
        far.mute = True
        bookie.send(encoder, run_of([20], [1]), told.append)
        await asyncio.sleep(2)
        assert isinstance(told[1], BookieUnavailableError)
        assert len(told) == 2
    finally:
        await bookie.close()
    with pytest.raises(QuireError, match="closed"):
        bookie.send(encoder, run_of([21], [1]), told.append)
    assert len(told) == 2


def test_a_client_of_many_ledgers_keeps_little_for_the_next_runs() -> None:
    adds = SharedAdds()
    tracemalloc.start()
    try:
        for ledger in range(200):
            sealer = Sealer(ledger, DigestKind.CRC32C, b"")
            run = pack_run(sealer.seal(each, each - 1, 9, b"x" * each) for each in range(128))
            adds.prepare(object(), AddKind(ledger, sealer.access_key), run)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 5_000_000


def test_a_size_is_before_each_request() -> None:
    encoder = AddEncoder(LEDGER, KEY, recovery=False, deferred=False)
    made = bundle(encoder, 5, scan_run(run_of(range(300), [10, 20])))
    at = count = 0
    while at < len(made.requests):
        (size,) = SIZE.unpack_from(made.requests, at)
        at, count = at + SIZE.size + size, count + 1
    assert (at, count) == (len(made.requests), 300)
