"""Edits of the bookie's storage and of the metadata stores."""

from __future__ import annotations

from typing import Final

from tests.mutations.edit import Edit

NODE: Final = "quire/storage/node.py"
HELD: Final = "quire/storage/held.py"
ENGINE: Final = "quire/storage/engine.py"
LEDGER_STORAGE: Final = "quire/storage/entries/ledger_storage.py"
SEGMENTS: Final = "quire/storage/journal/segments.py"
JOURNAL: Final = "quire/storage/journal/journal.py"
SEGMENT_NAMES: Final = ("tests/storage/journal/test_segment_names.py",)
FULL_START: Final = ("tests/storage/entries/test_full_start.py",)
RETIRED: Final = "quire/storage/entries/retired.py"
SQLITE: Final = "quire/metastore/sqlite_file.py"
ZOOKEEPER: Final = "quire/metastore/zookeeper.py"

EDITS: Final = (
    Edit(
        "a flush that met a full disk forgets the states it had taken up",
        LEDGER_STORAGE,
        "            self.memory.changed = {**changed, **self.memory.changed}\n",
        "",
        ("tests/storage/test_full_disk.py",),
    ),
    Edit(
        "no spare segment is kept back for a start",
        SEGMENTS,
        "KEPT_BACK: Final = 1\n",
        "KEPT_BACK: Final = 0\n",
        FULL_START,
    ),
    Edit(
        "a journal takes runs while the disk is too full for a next segment",
        JOURNAL,
        "return 0 if self._segments.is_starved else room - self._options.last_bytes",
        "return room",
        FULL_START,
    ),
    Edit(
        "a flush that is tried again moves the checkpoint to where the journal is by then",
        LEDGER_STORAGE,
        "            self._flushing, self.memory.cache = self.memory.cache, WriteCache()\n"
        "            self._position = position\n",
        "            self._flushing, self.memory.cache = self.memory.cache, WriteCache()\n"
        "        self._position = position\n",
        ("tests/storage/test_full_disk.py",),
    ),
    Edit(
        "an explicit LAC is not kept by a flush of its own",
        NODE,
        "                self._storage.touch(ledger)\n",
        "",
        ("tests/storage/test_node.py",),
    ),
    Edit(
        "a failed journal write is tried again on the same segment",
        "quire/storage/journal/journal.py",
        "        await self._segment.file.write(self._offset, data, sync=True)\n",
        "        try:\n"
        "            await self._segment.file.write(self._offset, data, sync=True)\n"
        "        except OSError:\n"
        "            await self._segment.file.write(self._offset, data, sync=True)\n",
        ("tests/storage/test_node_failures.py",),
    ),
    Edit(
        "a journal lives on after a failed write",
        "quire/storage/journal/journal.py",
        "            self._on_fatal(error)\n",
        "",
        ("tests/storage/test_node_failures.py",),
    ),
    Edit(
        "limbo is asked after the read",
        NODE,
        "            if run is not None:\n"
        "                return run\n"
        "        self._storage.retired.check_kept(ledger)\n"
        "        if is_doubtful:\n",
        "            if run is not None:\n"
        "                return run\n"
        "        self._storage.retired.check_kept(ledger)\n"
        "        if self._storage.is_doubtful(ledger):\n",
        ("tests/storage/entries/test_doubtful.py",),
    ),
    Edit(
        "a read of a retired ledger counts as absence",
        NODE,
        "        self._storage.retired.check_kept(ledger)\n        if is_doubtful:\n",
        "        if is_doubtful:\n",
        ("tests/storage/test_retired_answers.py",),
    ),
    Edit(
        "a force vouches for a ledger that is retired meanwhile",
        NODE,
        "        await self._engine.settle()\n"
        "        self._storage.retired.check_writer(ledger)\n"
        "        return",
        "        await self._engine.settle()\n        return",
        ("tests/storage/test_retired_answers.py",),
    ),
    Edit(
        "entries after a damaged one are replaced by other bytes",
        HELD,
        "            first = max(first, error.entry) + 1  # a chunk is named by its first"
        " entry\n            continue\n",
        "            return\n",
        ("tests/storage/test_retired_answers.py",),
    ),
    Edit(
        "a comparison of bytes stays where a damaged chunk begins",
        HELD,
        "first = max(first, error.entry) + 1  #",
        "first = error.entry + 1  #",
        ("tests/storage/entries/test_damaged_chunks.py",),
    ),
    Edit(
        "an entry is replaced while the disk fails to read it",
        HELD,
        "            if isinstance(error.__cause__, OSError) and not recovery:\n"
        "                raise\n",
        "",
        ("tests/storage/entries/test_damaged_chunks.py",),
    ),
    Edit(
        "damage is told of the first entry of its chunk",
        NODE,
        "raise CorruptEntryError(ledger, max(first, error.entry), error.reason) from error",
        "raise",
        ("tests/storage/entries/test_damaged_chunks.py",),
    ),
    Edit(
        "a comparison of bytes ends after one read",
        HELD,
        "            first = entry + 1\n",
        "        return\n",
        ("tests/storage/test_retired_answers.py",),
    ),
    Edit(
        "a set of retired ids loses disowned ids",
        RETIRED,
        "return RetiredIds(found, self.disowned.copy())",
        "return RetiredIds(found)",
        ("tests/storage/test_retired_answers.py",),
    ),
    Edit(
        "retired ids that do not touch are joined",
        RETIRED,
        "low = bisect_left(self.lasts, first - 1)",
        "low = bisect_left(self.lasts, first - 2)",
        ("tests/storage/entries/test_retired.py",),
    ),
    Edit(
        "a state row loses its hint",
        "quire/storage/entries/ledger_state.py",
        "        state.hint = hint\n",
        "",
        ("tests/storage/test_node.py",),
    ),
    Edit(
        "the counter is asked for no id",
        "quire/storage/serving/births.py",
        "        return ledger < self._bound.below or self._knows(ledger)",
        "        return True",
        ("tests/storage/serving/test_births.py",),
    ),
    Edit(
        "SQLite commits without a sync",
        SQLITE,
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        ("tests/metastore/test_sqlite.py",),
    ),
    Edit(
        "an SQLite file takes an ephemeral record of a session that another process removed",
        SQLITE,
        "            self._check_owner(owner)\n",
        "            pass\n",
        ("tests/metastore/test_sqlite_file.py",),
    ),
    Edit(
        "a commit to SQLite that failed counts as refused",
        SQLITE,
        'raise StoreOutcomeUnknownError(what, f"commit to {self._path}: {error}") from error',
        'raise StoreUnavailableError(what, f"commit to {self._path}: {error}") from error',
        ("tests/metastore/test_sqlite_file.py",),
    ),
    Edit(
        "SQLite deletes a record at any version",
        SQLITE,
        "    def _delete(self, path: str, version: int | None) -> None:\n"
        "        self._check_version(path, version)\n",
        "    def _delete(self, path: str, version: int | None) -> None:\n"
        "        self._check_version(path, None)\n",
        ("tests/contract/metastore", "-k", "sqlite"),
    ),
    Edit(
        "SQLite keeps the records of a session that ended",
        SQLITE,
        '        self._db.execute("DELETE FROM records WHERE owner = ?", (session,))\n',
        "",
        ("tests/contract/metastore", "-k", "sqlite"),
    ),
    Edit(
        "a deletion in ZooKeeper takes any version",
        ZOOKEEPER,
        "edit = -1 if version is None else await self._edit_of(path, version)",
        "edit = -1",
        ("tests/metastore/test_zookeeper_versions.py",),
    ),
    Edit(
        "a transaction in ZooKeeper replaces any version",
        ZOOKEEPER,
        "        return await self._edit_of(change.path, change.version)\n",
        "        return -1\n",
        ("tests/metastore/test_zookeeper_versions.py",),
    ),
    Edit(
        "an error of ZooKeeper that leaves the outcome open counts as a refusal",
        "quire/metastore/zookeeper_requests.py",
        "            return None  # a kind of SessionExpiredError",
        '            return SessionExpiredError("closed")  # a kind of SessionExpiredError',
        ("tests/metastore/test_zookeeper_refusals.py",),
    ),
    Edit(
        "the directory of released journal segments is not synced",
        SEGMENTS,
        "            if old:\n                await sync_names(self._disk, JOURNAL)\n",
        "            if old:\n",
        SEGMENT_NAMES,
    ),
    Edit(
        "the identity of a segment is its number",
        SEGMENTS,
        "        identity = self._rng.getrandbits(64) | 1\n",
        "        identity = number\n",
        SEGMENT_NAMES,
    ),
    Edit(
        "a start trusts the names of checkpoint and retired ids",
        ENGINE,
        "        await self._renew_names()\n",
        "",
        ("tests/storage/entries/test_lost_generations.py",),
    ),
)
