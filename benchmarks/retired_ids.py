"""What a million retired ids cost a bookie: memory, the file, a start, a look-up.

    python -m benchmarks.retired_ids [COUNT]

Ids are drawn at random among five times as many, as a bookie's sample of a cluster's ledgers is.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from quire.storage.entries.retired import RetiredIds
from quire.storage.entries.retired_file import RetiredFile, decode_retired, encode_retired

T = TypeVar("T")

BOOKIE = "b" * 32
LOOKUPS = 1_000_000


def timed(what: str, work: Callable[[], T]) -> T:
    """Do the work and print its seconds."""
    begun = time.perf_counter()
    result = work()
    print(f"{what:<28} {time.perf_counter() - begun:8.3f} s")
    return result


def main(count: int) -> None:
    rng = random.Random(1)
    ids = sorted(rng.sample(range(5 * count), count))
    retired = timed("add one by one", lambda: RetiredIds().joined((each, each) for each in ids))
    data = timed("encode", lambda: encode_retired(BOOKIE, RetiredFile(1, 0, retired)))
    timed("decode (at each start)", lambda: decode_retired("retired-1", BOOKIE, data))
    timed("add one more (each round)", lambda: retired.joined([(5 * count, 5 * count)]))
    probes = [rng.randrange(5 * count) for _ in range(LOOKUPS)]
    timed(f"{LOOKUPS:,} look-ups", lambda: sum(each in retired for each in probes))
    intervals = len(retired.deleted)
    print(f"{intervals:,} intervals: {len(data) / 1e6:.1f} MB in the file, as much in memory")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
