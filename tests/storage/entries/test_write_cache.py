"""What entries in memory cost is what they are counted for, whatever their sizes and ids."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count, cycle, repeat

import pytest

from quire.entry import DigestKind, Sealer
from quire.run import pack_run, scan_run
from quire.storage.entries.write_cache import WriteCache

RUNS = 4
RUN_BYTES = 256 * 1024
SEALER = Sealer(7, DigestKind.CRC32C, b"")


def some_runs(sizes: Iterator[int], ids: Iterator[int]) -> list[bytes]:
    runs = []
    for _ in range(RUNS):
        frames: list[bytes] = []
        while sum(map(len, frames[-1:])) * len(frames) < RUN_BYTES:
            entry = next(ids)
            frames.append(SEALER.seal(entry, -1, 1 << 40, bytes(next(sizes))))
        runs.append(pack_run(frames))
    return runs


def between(low: int, high: int) -> Iterator[int]:
    rng = random.Random(1)
    while True:
        yield rng.randint(low, high)


@pytest.mark.parametrize(
    ("sizes", "ids"),
    [
        pytest.param(lambda: repeat(100), count, id="alike"),
        *(
            pytest.param(*each, marks=pytest.mark.slow, id=name)
            for name, each in {
                "unequal": (lambda: between(50, 150), count),
                "tiny": (lambda: cycle((0, 1)), count),
                "tiny and apart": (lambda: cycle((0, 1)), lambda: count(0, 2)),
                "tiny and striped": (
                    lambda: repeat(0),
                    lambda: (entry for entry in count() if entry % 3),
                ),
            }.items()
        ),
    ],
)
def test_entries_cost_no_more_than_they_are_counted_for(
    sizes: Callable[[], Iterator[int]], ids: Callable[[], Iterator[int]]
) -> None:
    runs = some_runs(sizes(), ids())
    gc.collect()
    tracemalloc.start()
    try:
        cache = WriteCache()
        for run in runs:
            cache.insert(scan_run(bytes(bytearray(run))))  # bytes that are the cache's own
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.05 * cache.bytes
