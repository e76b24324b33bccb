"""Edits of ledgers, logs, elections and services."""

from __future__ import annotations

from typing import Final

from tests.mutations.edit import Edit

TAKEOVER: Final = "quire/log/leader/takeover.py"
CHAIN: Final = "quire/log/leader/segments.py"
PRODUCERS: Final = "quire/log/records/producers.py"
AGES: Final = "quire/log/manifest/ages.py"
DOOMED: Final = "quire/log/maintenance/doomed.py"
BALLOT: Final = "quire/election/ballot.py"
ELECTION: Final = "quire/election/election.py"
COMPLETION: Final = "quire/ledger/replicate_fragments.py"
SNAPSHOTS: Final = "quire/service/snapshots.py"

EDITS: Final = (
    Edit(
        "recovery looks at the first entry of a batch that it writes back",
        "quire/ledger/write_back.py",
        "for entry in batch[: self._replication.ensemble]",
        "for entry in batch[:1]",
        ("tests/ledger/test_write_back.py",),
    ),
    Edit(
        "the record of a service's snapshot goes back",
        SNAPSHOTS,
        "            if found is not None and is_same_log and found.offset >= snapshot.offset:\n"
        "                return snapshot.ledger\n",
        "",
        ("tests/service/test_order.py",),
    ),
    Edit(
        "a service's snapshot replaces a newer one, installed since it looked",
        SNAPSHOTS,
        "Put(self._path, data, version)\n            with suppress",
        "Put(self._path, data, (await self._store.get(self._path)).version)\n"
        "            with suppress",
        ("tests/service/test_order.py",),
    ),
    Edit(
        "a replica applies a record that is not the next",
        "quire/service/service.py",
        "        if record.offset != self._offset:",
        "        if record.offset < self._offset:",
        ("tests/service/test_order.py",),
    ),
    Edit(
        "a candidate takes office after its session is over",
        ELECTION,
        "            if term is not None and not session.expired:\n",
        "            if term is not None:\n",
        ("tests/election/test_expired_candidates.py",),
    ),
    Edit(
        "a named successor is passed over",
        BALLOT,
        "(term.place, term.successor) if term else ()",
        "(term.place,) if term else ()",
        ("tests/election/test_successors.py",),
    ),
    Edit(
        "a deposed leader names a successor",
        ELECTION,
        "        if last is None or version is None or last.token != term.token:\n",
        "        if last is None or version is None:\n",
        ("tests/election/test_successors.py",),
    ),
    Edit(
        "a leadership outlives its session until a task runs",
        "quire/election/leadership.py",
        "return self._lost.is_set() or self._session.expired",
        "return self._lost.is_set()",
        ("tests/election/test_successors.py",),
    ),
    Edit(
        "a take-over gives the second of two open segments the offset of the first",
        "quire/log/manifest/recovery.py",
        "        offset += ends[segment.number].records\n",
        "",
        ("tests/log/leader/test_takeover_steps.py",),
    ),
    Edit(
        "a take-over asks only once whether the candidate still leads",
        TAKEOVER,
        "            if not self._is_leader():\n",
        "            if not attempt and not self._is_leader():\n",
        ("tests/log/leader/test_takeover_steps.py",),
    ),
    Edit(
        "a take-over deletes its ledger though the creation of the log may yet arrive",
        TAKEOVER,
        "        except UnsettledRaceError:\n            writer.abandon()\n            raise\n",
        "",
        ("tests/log/leader/test_takeover_steps.py",),
    ),
    Edit(
        "retention deletes a millisecond early",
        AGES,
        "self.counted_ms - each.counted_ms > age_ms",
        "self.counted_ms - each.counted_ms >= age_ms",
        ("tests/log/maintenance/test_retention.py",),
    ),
    Edit(
        "a log believes a wall clock alone",
        AGES,
        "max(0, min(passed, now.wall_ms - self.reading.wall_ms))",
        "max(0, now.wall_ms - self.reading.wall_ms)",
        ("tests/log/manifest/test_ages.py",),
    ),
    Edit(
        "a log believes the clock of the store alone",
        AGES,
        "max(0, min(passed, now.wall_ms - self.reading.wall_ms))",
        "max(0, passed)",
        ("tests/log/manifest/test_ages.py",),
    ),
    Edit(
        "segments are marked before the time until then is counted",
        AGES,
        "return self if after is self else after._mark(first, sealed)",
        "return after._mark(first, sealed)",
        ("tests/log/manifest/test_ages.py",),
    ),
    Edit(
        "a ledger that could not be deleted is forgotten",
        DOOMED,
        "                await segments.delete(ledger)\n            deleted.append(ledger)\n",
        "                await segments.delete(ledger)\n        deleted.append(ledger)\n",
        ("tests/log/maintenance/test_retention.py",),
    ),
    Edit(
        "producers are forgotten in the order of their first append",
        PRODUCERS,
        "window = self._windows.pop(producer_sequence.producer, None) or",
        "window = self._windows.get(producer_sequence.producer) or",
        ("tests/log/records/test_producers.py",),
    ),
    Edit(
        "a copy of the producers shares windows with its original",
        PRODUCERS,
        "{name: window.copy() for name, window in self._windows.items()}",
        "dict(self._windows)",
        ("tests/log/records/test_producers.py",),
    ),
    Edit(
        "a number of a forgotten producer is taken for a new one",
        PRODUCERS,
        "        if fingerprint(producer_sequence.producer) in self._forgotten:\n",
        "        if False:\n",
        ("tests/log/records/test_producers.py",),
    ),
    Edit(
        "a trim reaches beyond the confirmed entries",
        CHAIN,
        "Position(self.current.number, self.current.confirmed.last_entry + 1, 0)",
        "Position(self.current.number, self.current.entries, 0)",
        ("tests/log/leader/test_segments.py",),
    ),
    Edit(
        "a ledger made ahead is discarded after a change that lists it was attempted",
        CHAIN,
        "spare = None if self._is_offered else self._spare",
        "spare = self._spare",
        ("tests/log/leader/test_segments.py",),
    ),
    Edit(
        "a ledger made ahead counts as not offered",
        CHAIN,
        "        self._is_offered = True\n        manifest",
        "        manifest",
        ("tests/log/leader/test_segments.py",),
    ),
    Edit(
        "a leader does not compare the log's id",
        CHAIN,
        "        if manifest is None or manifest.log_id != self.log_id:\n",
        "        if manifest is None:\n",
        ("tests/log/leader/test_segments.py",),
    ),
    Edit(
        "a gap is told of while a bookie of the write set is away",
        "quire/log/reading/gaps.py",
        "        return not error.silent\n",
        "        return True\n",
        ("tests/log/reading/test_gaps.py",),
    ),
    Edit(
        "an entry that some bookie may still have counts as lost",
        "quire/log/reading/gaps.py",
        "        return isinstance(error, EntryLostError)\n",
        "        return True\n",
        ("tests/log/reading/test_gaps.py",),
    ),
    Edit(
        "a full quorum is completed with a newer LAC",
        COMPLETION,
        "(seal(each.entry, each.lac, each.length, each.payload) for each in entries)",
        "(seal(e.entry, entries[-1].lac, e.length, e.payload) for e in entries)",
        ("tests/ledger/test_replicate_fragments.py",),
    ),
    Edit(
        "a bookie that failed a completion counts as a spare",
        COMPLETION,
        "        taken = self._failed.union(each.bookie for each in seats)\n",
        "        taken = {each.bookie for each in seats}\n",
        ("tests/ledger/test_replicate_fragments.py",),
    ),
    Edit(
        "a part of a job is deleted although its log may be made meanwhile",
        "quire/log/manifest/record.py",
        "            return (Absent(self.path),)\n",
        "            return ()\n",
        ("tests/log/maintenance/test_dropped_jobs.py",),
    ),
)
