"""The path of a run through a bookie: into the journal's queue, and from a durable batch to memory.

Here is neither a task nor a coroutine, so the module can be compiled (compiling.py). Not here:
which runs are accepted (direct_adds.py, node.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quire.aio.answer import Answered
from quire.observer import Observer, Source
from quire.requests import Trace
from quire.run import ScannedRun
from quire.storage.entries.ledger_storage import LedgerStorage
from quire.storage.entries.subjects import FenceSubject, RunSubject, Subject
from quire.storage.journal.journal import Journal
from quire.storage.journal.record import RecordKind


class RunPath:
    """The path of one bookie's runs.

    Args:
        journal: the journal.
        storage: the entries that the bookie holds.
        observer: is told of what became durable.
        waited: is told for how many seconds the first of a batch's appends waited, and how many
            appends there are.
    """

    def __init__(
        self,
        journal: Journal[Subject],
        storage: LedgerStorage,
        observer: Observer,
        waited: Callable[[float, int], None],
    ) -> None:
        self._queue: Final = journal.queue
        self._counts: Final = journal.counts
        self._storage: Final = storage
        self._memory: Final = storage.memory
        self._observer: Final = observer
        self._waited = waited
        self._now = asyncio.get_running_loop().time

    def put(
        self,
        run: bytes,
        scanned: ScannedRun,
        source: Source,
        answered: Answered,
        arrived: float | None = None,
        trace: Trace | None = None,
    ) -> None:
        """Journal a run; `answered` is called when its entries are durable and can be read.

        Raises `BookieUnavailableError` as `RecordQueue.put`.
        """
        since = self._now() if arrived is None else arrived
        subject = RunSubject(scanned, source, since)
        can_wait = source is Source.RECOVERY
        self._queue.put(RecordKind.RUN, run, subject, answered, can_wait, trace)

    def apply(self, subjects: list[Subject]) -> None:
        """Apply the changes of a durable batch, in order."""
        for subject in subjects:
            if isinstance(subject, RunSubject):
                run = subject.scanned
                self._counts.entries += run.count
                if self._memory.apply_run(run):
                    self._observer.held(run.ledger, run.entries, subject.source)
            elif isinstance(subject, FenceSubject):
                self._storage.apply_fence(subject.ledger, subject.key)
                self._observer.fenced(subject.ledger)
            elif subject is not None:
                self._storage.apply_key(subject.ledger, subject.key)
        self._tell_of_waits(subjects)

    def _tell_of_waits(self, subjects: list[Subject]) -> None:
        """Tell the pace of copying about a batch's appends; the first one waited longest."""
        arrived = [
            each.arrived
            for each in subjects
            if isinstance(each, RunSubject) and each.source is Source.WRITER
        ]
        if arrived:
            self._waited(self._now() - min(arrived), len(arrived))
