"""Constants of production that a seed makes small, so that a short run reaches their limits.

They bound sizes and patience and change no rule. A seed draws each; they are as they were when the
run is over.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

from quire.healing import spread
from quire.ledger import ids, news_link, pushed, recent, recovery, run_stream, tail
from quire.log.cold import parquet
from quire.log.leader import patrol, pipeline
from quire.log.maintenance import page_sweep
from quire.log.manifest import capacity, jobs, page_tree, record
from quire.log.reading import gaps
from quire.log.records import producers
from quire.metastore import cluster
from quire.repair import assignments, healing
from quire.run import RUN_BYTES_MAX
from quire.storage.disk import partial_read
from quire.storage.entries import doubtful, entry_files, file_set
from quire.storage.identity import heart, wish_watch
from quire.storage.maintenance import garbage, scrub
from quire.storage.serving import births, obedient, subscriptions
from quire.wire.news import NEWS_BYTES_MAX, PARTS_MAX
from quire.wire.transport import BATCH_BYTES_MAX

KNOBS: Final[tuple[tuple[Any, str, tuple[int | float, ...]], ...]] = (
    (recovery, "RUN_BYTES_MAX", (1, 100, RUN_BYTES_MAX)),
    (recovery, "WINDOW_ENTRIES", (1, 3, recovery.WINDOW_ENTRIES)),
    (run_stream, "BATCH_BYTES_MAX", (1, 1000, BATCH_BYTES_MAX)),
    (tail, "WAIT_SECONDS", (0.5, tail.WAIT_SECONDS)),
    (producers, "FORGOTTEN_MAX", (1, 3, producers.FORGOTTEN_MAX)),
    (gaps, "PATIENCE_SECONDS", (0.1, 1.0, gaps.PATIENCE_SECONDS)),
    (capacity, "WARNING_BYTES", (500, capacity.WARNING_BYTES)),
    (capacity, "GROWTH_BYTES_MAX", (700, 1500, capacity.GROWTH_BYTES_MAX)),
    (parquet, "GROUP_ROWS", (1, 3, parquet.GROUP_ROWS)),
    (jobs, "FORGOTTEN_MAX", (1, 3, jobs.FORGOTTEN_MAX)),
    (doubtful, "RANGES_MAX", (1, 3, doubtful.RANGES_MAX)),
    (file_set, "CHUNKS_MAX", (1, 3, file_set.CHUNKS_MAX)),
    (garbage, "STEPS_MAX", (1, 2, garbage.STEPS_MAX)),
    (births, "WAITING_BYTES_MAX", (20_000, births.WAITING_BYTES_MAX)),
    (scrub, "SUSPECTS_MAX", (1, scrub.SUSPECTS_MAX)),
    (scrub, "DAMAGE_MAX", (1, scrub.DAMAGE_MAX)),
    (entry_files, "ENDS_MAX", (1, entry_files.ENDS_MAX)),
    (partial_read, "IN_VAIN_MAX", (1, partial_read.IN_VAIN_MAX)),
    (ids, "BLOCK_MAX", (1, 2, ids.BLOCK_MAX)),
    (pipeline, "PARTIAL_OUTSTANDING_MAX", (1, pipeline.PARTIAL_OUTSTANDING_MAX)),
    (obedient, "CHANGE_SECONDS", (0.0, 0.1, 1.0)),
    (wish_watch, "LOOK_SECONDS", (0.5, wish_watch.LOOK_SECONDS)),
    (heart, "BEAT_SECONDS", (1.0, heart.BEAT_SECONDS)),
    (page_tree, "PAGE_ROWS", (2, 2, 3, page_tree.PAGE_ROWS)),
    (record, "TOGETHER_BYTES_MAX", (0, 1000, record.TOGETHER_BYTES_MAX)),
    (page_sweep, "SWEEP_SECONDS", (0.2, 2.0, page_sweep.SWEEP_SECONDS)),
    (page_sweep, "SWEEP_AT_ONCE", (1, page_sweep.SWEEP_AT_ONCE)),
    (cluster, "RECHECK_SECONDS", (0.1, cluster.RECHECK_SECONDS)),
    (assignments, "ASSIGNMENTS_MAX", (1, 3, assignments.ASSIGNMENTS_MAX)),
    (spread, "REQUESTS_MAX", (1, spread.REQUESTS_MAX)),
    (spread, "LOOKED_AT_MAX", (1, spread.LOOKED_AT_MAX)),
    (healing, "LOOK_SECONDS", (0.3, healing.LOOK_SECONDS)),
    (healing, "AT_ONCE", (1, healing.AT_ONCE)),
    (recent, "RECENT_BYTES_MAX", (1, 500, recent.RECENT_BYTES_MAX)),
    (news_link, "CREDIT_BYTES", (1, 1000, news_link.CREDIT_BYTES)),
    (news_link, "PARTS_MAX", (1, PARTS_MAX)),
    (news_link, "LEFT_ALONE_SECONDS", (0.1, news_link.LEFT_ALONE_SECONDS)),
    (subscriptions, "NEWS_BYTES_MAX", (1, 200, NEWS_BYTES_MAX)),
    (pushed, "PUSHED_BYTES_MAX", (1, 500, pushed.PUSHED_BYTES_MAX)),
    (patrol, "ROUND_SECONDS", (0.5, patrol.ROUND_SECONDS)),
    (patrol, "AT_ONCE_MAX", (1, patrol.AT_ONCE_MAX)),
)
"""Module, name, and the values to draw from."""


class Knobs:
    """The knobs of one run, as a context manager."""

    def __init__(self, rng: random.Random) -> None:
        self.values = [(module, name, rng.choice(values)) for module, name, values in KNOBS]
        self._stack = ExitStack()

    def __enter__(self) -> Knobs:
        for module, name, value in self.values:
            self._stack.enter_context(patch.object(module, name, value))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
