"""Recovery: closing a ledger after its writer is gone, or to stop its writer.

    OPEN → IN_RECOVERY → fence and find the start → read forward, write back → CLOSED

Any client may do it at any time, several at once, and again after a crash at any point: every step
is repeatable, the first to close wins and all the others adopt its end. `recovery_plan` decides the
meaning of answers; this module asks the questions.

Every read carries the fence, not only the first: a bookie that was silent when the others were
fenced would otherwise deny an entry today and accept it from the old writer tomorrow (#2614). All
bookies of a write set are asked at once and the verdict falls as soon as it is certain, so a hung
bookie delays no recovery.

A ledger of an older incarnation is asked for everywhere (docs/protocol.md, I2): the store was put
back from a backup, and the record may name an ensemble that the ledger left long ago.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from quire.bookie import Meaning, read_denial
from quire.entry import NO_ENTRY, Entry, EntryId, LedgerId, Sealer
from quire.errors import (
    LedgerRetiredError,
    NotPermittedError,
    QuireError,
    UnreadableError,
)
from quire.ledger.fetch import EntryFetcher
from quire.ledger.metadata import LedgerMetadata, LedgerState, Replica
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import stride_of
from quire.ledger.quorum_call import QuorumCall, retry_transient, within
from quire.ledger.read_lac import covered_lac
from quire.ledger.records import LedgerRecords, VersionedMetadata
from quire.ledger.recovery_plan import (
    EntryVerdict,
    Evidence,
    Panel,
    closing_change,
    every_bookie,
    last_ensemble,
)
from quire.ledger.replicate_fragments import FragmentReplication
from quire.ledger.roster import Bookies
from quire.ledger.verify import unseal_run
from quire.ledger.versioned import change_metadata, judged_by_metadata
from quire.ledger.write_back import WriteBack
from quire.metrics.meter import SILENT_METER, ClientMeter, timed
from quire.observer import SILENT, SILENT_RECOVERY, Observer, RecoveryObserver
from quire.requests import requesting
from quire.run import RUN_BYTES_MAX
from quire.tracing.spans import LAST_ENTRY, LEDGER, RECOVER, REQUEST, Values

WINDOW_ENTRIES: Final = 65_536
"""Entries one recovery read asks for; its answer is cut by bytes long before."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A bookie's answer to a question about entries first..last."""

    first: EntryId
    last: EntryId
    answer: bytes | QuireError


class LedgerRecovery:
    """Recovers one ledger; `run` it once."""

    def __init__(
        self,
        records: LedgerRecords,
        bookies: Bookies,
        sealer: Sealer,
        options: LedgerOptions,
        rng: random.Random,
        observer: Observer = SILENT,
        meter: ClientMeter = SILENT_METER,
    ) -> None:
        self._records = records
        self._meter = meter
        self._observer = observer
        self._telling: RecoveryObserver = SILENT_RECOVERY
        self._bookies = bookies
        self._sealer = sealer
        self._options = options
        self._rng = rng

    @property
    def ledger(self) -> LedgerId:
        return self._sealer.ledger

    async def run(self) -> VersionedMetadata:
        """Fence the ledger, decide its end, close it; returns the closed metadata.

        Every entry that was ever confirmed is in the ledger then. A closed ledger is returned as
        it is. After an error or a cancellation the ledger may be left in recovery: run it again.

        Raises `UnreadableError` when too few bookies answer to decide, `NotEnoughBookiesError` when
        too few take the recovered entries, `NoSuchLedgerError`, `CorruptRecordError` when the
        ledger grew during recovery, `StoreWentBackError` when a bookie dropped the ledger as
        deleted and its record is there, and the store's errors.
        """
        with timed(self._meter.recovered), requesting() as request:
            about: Values = {LEDGER: self.ledger, REQUEST: request}
            with self._meter.spans.begin(RECOVER, about) as note:
                async with judged_by_metadata(self._records):
                    closed = await self._run()
                end = closed.metadata.last_entry
                note(LAST_ENTRY, NO_ENTRY if end is None else end)
                return closed

    async def _run(self) -> VersionedMetadata:
        begun = await change_metadata(self._records, self.ledger, _begin)
        frozen = begun.metadata
        if frozen.is_closed:
            return begun
        self._telling = self._observer.recovering(self.ledger)
        panel, start = await self._panel(frozen)
        writing = WriteBack(frozen, self._bookies, self._sealer, self._options, self._rng, start)
        end: Entry | None = None
        async with aclosing(self._batches(panel, start + 1)) as batches:
            async for batch in batches:
                await writing.write(batch)
                end = batch[-1]
        if end is None:
            end = await self._entry(frozen, start)
        replicas = await self._complete(writing.mended, end)
        self._telling.closing(NO_ENTRY if end is None else end.entry)
        return await change_metadata(
            self._records,
            self.ledger,
            lambda current: closing_change(current, frozen, writing.mended, end, replicas),
        )

    async def _panel(self, frozen: LedgerMetadata) -> tuple[Panel, EntryId]:
        """Return the bookies to ask, and the entry to start recovery after.

        The suspects are asked for after the record was changed: a record that was changed before
        the store was put back is not in the store any more, and the closing change fails.
        """
        if suspects := await self._records.suspects(frozen):
            panel, start = every_bookie(frozen, suspects), frozen.last_fragment.first - 1
            self._telling.started(start, panel.bookies)
            return panel, start
        start = await covered_lac(
            self._bookies,
            self._sealer,
            frozen,
            self._options.request_timeout,
            self._sealer.access_key,
        )
        self._telling.started(start)
        return last_ensemble(frozen), start

    async def _complete(self, mended: LedgerMetadata, end: Entry | None) -> list[Replica]:
        """With full quorum, see that every entry is on its whole write set."""
        if end is None or not mended.full_quorum:
            return []
        completion = FragmentReplication(self._bookies, self._sealer, self._options, self._rng)
        return await completion.run(mended, end.entry)

    async def _entry(self, frozen: LedgerMetadata, entry: EntryId) -> Entry | None:
        """Return the entry before which nothing was recovered: its header knows the length."""
        if entry == NO_ENTRY:
            return None
        fetcher = EntryFetcher(self._bookies, self._sealer, self._options)
        ensemble = frozen.fragment_of(entry).bookies
        return (await fetcher.fetch(frozen.replication, ensemble, entry, entry))[0]

    async def _batches(self, panel: Panel, first: EntryId) -> AsyncGenerator[list[Entry], None]:
        """Yield the entries to recover, in order, in batches of about `RUN_BYTES_MAX` bytes.

        Asks the same bookies to the end. Raises `UnreadableError` when an entry can
        neither be recovered nor be proven absent.
        """
        evidence = Evidence(panel.replication, first)
        gaps: dict[int, EntryId] = {}
        async with QuorumCall[int, _Said]() as asking:
            while True:
                if batch := _take_batch(evidence):
                    yield batch
                    continue
                verdict = evidence.judge()
                if verdict is EntryVerdict.END:
                    return
                if verdict is EntryVerdict.FAIL:
                    said = ", ".join(
                        f"{panel.bookies[position]} {answer}"
                        for position, answer in sorted(evidence.answers().items())
                    )
                    reason = f"the bookies that may hold it answered: {said}"
                    raise UnreadableError(self.ledger, evidence.next, reason)
                entry = evidence.next
                for position in evidence.unanswered():
                    if not asking.is_asked(position):
                        alone = gaps.get(position) == entry
                        last = entry if alone else entry + WINDOW_ENTRIES - 1
                        asking.ask(position, self._read(panel, position, entry, last))
                self._weigh(evidence, gaps, panel, *await asking.next())

    def _weigh(
        self,
        evidence: Evidence,
        gaps: dict[int, EntryId],
        panel: Panel,
        position: int,
        said: _Said | QuireError,
    ) -> None:
        """Enter an answer into the evidence.

        A denial counts as far as it reaches. A run that starts after the first entry asked for
        does not deny it: the bookie may have lost it. It is asked about this entry alone, and must
        commit itself.
        """
        if isinstance(said, QuireError):
            evidence.doubt(position, evidence.next)
        elif isinstance(said.answer, LedgerRetiredError | NotPermittedError):
            raise said.answer  # it denies no entry: metadata judges, or another peer recovers
        elif isinstance(said.answer, QuireError):
            denial = read_denial(said.answer, said.first, said.last)
            if denial.meaning is Meaning.ABSENT:
                self._telling.counted(panel.bookies[position], denial.first, denial.through)
                evidence.deny(position, denial.first, denial.through)
            else:
                evidence.doubt(position, said.first)
        else:
            entries, damaged = unseal_run(
                self._sealer, said.answer, said.first, said.last, evidence.wants
            )
            self._telling.shown(panel.bookies[position], entries)
            evidence.hold(entries)
            for entry in damaged:
                evidence.doubt(position, entry)
            gaps[position] = said.first

    async def _read(self, panel: Panel, position: int, first: EntryId, last: EntryId) -> _Said:
        bookie = panel.bookies[position]
        stride = stride_of(panel.replication, position)

        async def attempt() -> bytes:
            link, key = self._bookies.bookie(bookie), self._sealer.access_key
            return await link.read(self.ledger, first, last, fence_key=key, stride=stride)

        try:
            answer = await within(self._options.request_timeout, bookie, retry_transient(attempt))
        except QuireError as error:
            return _Said(first, last, error)
        return _Said(first, last, answer)


def _begin(metadata: LedgerMetadata) -> LedgerMetadata | None:
    opened = metadata.state is LedgerState.OPEN
    return metadata.with_state(LedgerState.IN_RECOVERY) if opened else None


def _take_batch(evidence: Evidence) -> list[Entry]:
    """Return the entries that can be recovered now, about `RUN_BYTES_MAX` bytes of them."""
    batch: list[Entry] = []
    size = 0
    while size < RUN_BYTES_MAX and evidence.judge() is EntryVerdict.RECOVER:
        batch.append(evidence.take())
        size += len(batch[-1].payload)
    return batch
