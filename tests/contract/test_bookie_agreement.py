"""The storage node answers as the reference does, whatever is asked in whatever order.

The node's cache is so small that it flushes every few entries, and it is closed and opened again in
between: what it says may depend on neither.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from quire.bookie import Bookie, list_all
from quire.entry import DigestKind, Sealer
from quire.errors import NoSuchEntryError, NoSuchLedgerError, QuireError
from quire.run import pack_run, scan_run
from quire.storage.identity.cookie import format_bookie
from quire.storage.journal.options import StorageOptions
from quire.storage.node import BookieNode
from quire.testing.bookie import MemoryBookie
from tests.sim.disk import SimDisk
from tests.support.examples import examples

OPTIONS = StorageOptions(
    segment_bytes=64 * 1024,
    write_cache_bytes=600,
    memory_bytes_max=1024 * 1024,
    list_bytes_max=150,
)
SEALERS = {
    (ledger, password): Sealer(ledger, DigestKind.CRC32C, password)
    for ledger in (1, 2)
    for password in (b"right", b"wrong")
}
EVERYTHING = 10_000
"""More bytes than a ledger has here."""

ENTRIES = st.integers(0, 12)


class Call(NamedTuple):
    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


@st.composite
def calls(draw: st.DrawFn) -> Call:
    sealer = SEALERS[
        draw(st.sampled_from([1, 1, 1, 2])),
        draw(st.sampled_from([b"right"] * 9 + [b"wrong"])),
    ]
    ledger, key = sealer.ledger, sealer.access_key
    fence: dict[str, Any] = {"fence_key": key} if draw(st.integers(0, 7)) == 0 else {}
    method = draw(
        st.sampled_from(
            ["add"] * 4 + ["read"] * 3 + ["sync", "tail", "wait", "lac", "list", "restart"]
        )
    )
    if method == "add":
        ids = sorted(draw(st.sets(ENTRIES, min_size=1, max_size=5)))
        payload = draw(st.sampled_from([b"", b"payload", b"p" * 100]))
        lac = draw(st.integers(-1, ids[0] - 1))
        run = pack_run(sealer.seal(entry, lac, 1000, payload) for entry in ids)
        return Call("add", (ledger, key, run), {"recovery": draw(st.integers(0, 3)) == 0})
    if method == "sync":
        first, more = draw(ENTRIES), draw(st.integers(0, 8))
        return Call("sync", (ledger, key, first, first + more), {})
    if method == "read":
        first, more = draw(ENTRIES), draw(st.integers(0, 8))
        bound = {"bytes_max": draw(st.sampled_from([1, 120, 300, EVERYTHING]))}
        return Call("read", (ledger, first, first + more), bound | fence)
    if method == "tail":
        return Call("read_tail", (ledger,), fence)
    if method == "wait":
        return Call("wait_tail", (ledger, draw(st.integers(-1, 12)), 0.0), {})
    if method == "lac":
        return Call("write_lac", (ledger, key, sealer.seal_lac(draw(ENTRIES))), {})
    if method == "list":
        return Call("list_entries", (ledger,), {"first": draw(ENTRIES)})
    return Call("restart", (), {})


async def answer(bookie: Bookie, call: Call) -> object:
    """What a bookie says; an error is its class and what it carries."""
    try:
        if call.method == "list_entries":
            return await list_all(partial(bookie.list_entries, *call.arguments), **call.options)
        return await getattr(bookie, call.method)(*call.arguments, **call.options)
    except (NoSuchEntryError, NoSuchLedgerError):
        return "absent"
    except QuireError as error:
        return type(error), vars(error)


def agree(call: Call, found: object, expected: object) -> bool:
    """Equal; but where a read is cut may differ, if both are non-empty and begin alike."""
    if isinstance(found, bytes) and isinstance(expected, bytes):
        if call.options["bytes_max"] < EVERYTHING:
            shorter = min(len(found), len(expected))
            return bool(found) and found[:shorter] == expected[:shorter]
        scan_run(found)
    return found == expected


def fail(error: BaseException) -> None:
    raise AssertionError("storage failed") from error


async def reopened(disk: SimDisk) -> tuple[Any, BookieNode]:
    mount = disk.mount()
    node = await BookieNode.open(
        mount, "memory", "cluster", rng=random.Random(2), on_fatal=fail, options=OPTIONS
    )
    return mount, node


async def compare(script: list[Call]) -> None:
    reference, disk = MemoryBookie(), SimDisk(random.Random(1))
    mount = disk.mount()
    await format_bookie(mount, "memory", "cluster")
    await mount.close()
    mount, node = await reopened(disk)
    try:
        for call in script:
            if call.method == "restart":
                await node.close()
                await mount.close()
                mount, node = await reopened(disk)
            else:
                found, expected = await answer(node, call), await answer(reference, call)
                assert agree(call, found, expected), (call, found, expected)
    finally:
        await node.close()
        await mount.close()


@examples(150)
@given(st.lists(calls(), max_size=30))
def test_the_node_answers_as_the_reference_does(script: list[Call]) -> None:
    asyncio.run(compare(script))
