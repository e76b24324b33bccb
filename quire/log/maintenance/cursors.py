"""Cursors: named places in a log, kept in the metadata store for consumers that come and go.

A cursor's record holds the position to read next. It only moves forward, unless it is reset. If two
consumers share a cursor, it stays where the faster consumer is. A consumer that continues from a
cursor may see records twice but misses none. A consumer advances the cursor *after* processing a
record, as often as it can afford a metadata write.

A cursor belongs to one log, not to its name: the next log of the same name does not inherit it.
Retention waits for the slowest cursor if the log's `retention_cursors` says so; a trim by hand does
not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from quire.errors import (
    ConflictError,
    CorruptRecordError,
    LogReplacedError,
    NoSuchCursorError,
    NoSuchLogError,
    NoSuchNodeError,
    QuireError,
    StoreOutcomeUnknownError,
)
from quire.fields import NOTHING
from quire.log.maintenance.cursor import Cursor
from quire.log.maintenance.cursor_record import CursorInfo, CursorRecord
from quire.log.manifest.manifest import LogManifest
from quire.log.manifest.record import EDIT_ATTEMPTS_MAX, ManifestRecord
from quire.log.reading.search import (
    OpenSegment,
    check_reached,
    find_place,
    find_tail,
    look,
    offset_of,
)
from quire.log.records.position import BEGINNING, Position
from quire.metastore.changes import Change, Create, Delete, Put
from quire.metastore.fence import Fence
from quire.metastore.layout import cursor_path, cursors_path, unquote_name
from quire.metastore.store import MetadataStore

CURSORS_AT_ONCE: Final = 500
"""Cursors deleted with their log in one change: 400 KB with names of 255 bytes."""


class LogCursors:
    """The cursors of one log. Stateless: any number may exist."""

    def __init__(
        self,
        store: MetadataStore,
        record: ManifestRecord,
        open_segment: OpenSegment,
        clock: Callable[[], float],
        fence: Fence | None = None,
    ) -> None:
        """Changes of cursors are made under the `fence`, if there is one."""
        self._store = store
        self._record = record
        self._open_segment = open_segment
        self._clock = clock
        self._fence = fence

    def __repr__(self) -> str:
        return f"<LogCursors of log {self.log!r}>"

    @property
    def log(self) -> str:
        """The log's name."""
        return self._record.name

    async def open(self, name: str, start: Position | int = BEGINNING) -> Cursor:
        """Return a cursor; create it at `start` if it does not exist.

        Args:
            name: the cursor's name.
            start: a position, `BEGINNING`, `LATEST`, or the offset of a record.

        Returns:
            The cursor, where it is now. An existing cursor ignores `start`.

        Raises:
            NoSuchLogError: the log does not exist.
            LogReplacedError: another log has the name now.
            InvalidRequestError: the name or the start is invalid.
            QuireError: the store's errors, and the errors of reading, because the bookies are asked
                whether the log has reached the start.

        Cancellation: the cursor may exist afterwards.

        Guarantees:
            Retention that waits for cursors counts this cursor once the call has returned.
        """
        return Cursor(self, await self._put(name, start, lambda found, fresh: found or fresh))

    async def reset(self, name: str, start: Position | int) -> Cursor:
        """Put a cursor at `start`, also if that is back, as for a consumer that reads again.

        Args:
            name: the cursor's name. It need not exist.
            start: a position, `BEGINNING`, `LATEST`, or the offset of a record.

        Returns:
            The cursor at its new place, or at the first record that the log still has.

        Raises:
            NoSuchLogError: the log does not exist.
            LogReplacedError: another log has the name now.
            InvalidRequestError: the name or the start is invalid.
            QuireError: the store's errors, and the errors of reading, because the bookies are asked
                whether the log has reached the start.

        Cancellation: the cursor may be at its new place.

        Guarantees:
            This replaces the cursor in one change: the name is never without a cursor, and
            retention that waits for cursors counts the new place once the call has returned.
            An advance that is under way elsewhere may come before it or after it.
        """
        return Cursor(self, await self._put(name, start, lambda _, fresh: fresh))

    async def _put(
        self,
        name: str,
        start: Position | int,
        choose: Callable[[CursorRecord | None, CursorRecord], CursorRecord],
    ) -> CursorRecord:
        """Store what is chosen of the cursor as it is, None for none, and a fresh one at `start`.

        Return what is stored then.
        """
        path = cursor_path(self.log, name)
        seen, _ = await self._record.read()
        position = await look(
            partial(self._describe, seen.log_id), lambda manifest: self._reached(manifest, start)
        )
        error: QuireError | None = None
        for _ in range(EDIT_ATTEMPTS_MAX):
            manifest, at = await self._record.read()
            if manifest.log_id != seen.log_id:
                raise LogReplacedError(self.log)
            if manifest.retired:
                raise NoSuchLogError(self.log)
            found, version = await self._find(path)
            place = max(position, manifest.first_position)
            kept = found.unknown if found is not None else NOTHING
            fresh = CursorRecord(name, seen.log_id, place, self._now_ms(), kept)
            mine = found if found is not None and found.log_id == seen.log_id else None
            chosen = choose(mine, fresh)
            if chosen is mine:
                return chosen
            try:
                # With the manifest unchanged: a concurrent trim fails, and then sees the cursor.
                await self._commit(
                    *self._record.unchanged(manifest, at), _change(path, chosen, version)
                )
            except (ConflictError, StoreOutcomeUnknownError, NoSuchNodeError) as failed:
                error = failed
                continue
            return chosen
        assert error is not None
        raise error

    async def find(self, name: str) -> Cursor:
        """Return a cursor that exists.

        Args:
            name: the cursor's name.

        Returns:
            The cursor, where it is now.

        Raises:
            NoSuchLogError: the log does not exist.
            NoSuchCursorError: the cursor does not exist.

        Cancellation: ends the call only: nothing is changed.
        """
        manifest, _ = await self._record.read()
        state, _ = await self._find(cursor_path(self.log, name))
        if state is None or state.log_id != manifest.log_id:
            raise NoSuchCursorError(self.log, name)
        return Cursor(self, state)

    async def list(self) -> Sequence[CursorInfo]:
        """Return the log's cursors.

        Returns:
            Name, position and time of the last move of each cursor, sorted by name.

        Raises:
            NoSuchLogError: the log does not exist.
            StoreUnavailableError: the metadata store does not answer.

        Cancellation: ends the call only: nothing is changed.
        """
        manifest, _ = await self._record.read()
        return [record.info for record in await self._of_log(manifest.log_id)]

    async def delete(self, name: str) -> None:
        """Delete a cursor, wherever it is.

        Args:
            name: the cursor's name.

        Raises:
            NoSuchLogError: the log does not exist.
            NoSuchCursorError: the cursor does not exist.
            LeadershipLostError: the leadership that these changes need is over.
            StoreUnavailableError: the metadata store does not answer; likewise its other errors.

        Cancellation: the cursor may be deleted.

        Guarantees: the cursor is deleted as it was found. If another program changes the cursor
            meanwhile, the call looks again: a cursor of the next log of this name stays.
        """
        path = cursor_path(self.log, name)
        manifest, _ = await self._record.read()
        error: ConflictError | None = None
        for _ in range(EDIT_ATTEMPTS_MAX):
            try:
                await self._commit(Delete(path, await self._deletable(path, manifest.log_id)))
            except NoSuchNodeError:
                raise NoSuchCursorError(self.log, name) from None
            except ConflictError as failed:
                error = failed
                continue
            return
        assert error is not None
        raise error

    async def _deletable(self, path: str, log_id: str) -> int:
        """Return the version of a log's cursor. Any program may delete a cursor that cannot be
        read. Raises `NoSuchNodeError`.
        """
        found = await self._store.get(path)
        with suppress(CorruptRecordError):
            if CursorRecord.decode(path, found.value).log_id != log_id:
                raise NoSuchNodeError(path)
        return found.version

    async def _of_log(self, log_id: str) -> Sequence[CursorRecord]:
        """Return the cursors of the log with this id, also if the log was deleted."""
        found = []
        for segment in await self._store.children(cursors_path(self.log)):
            path = cursor_path(self.log, unquote_name(segment))
            state, _ = await self._find(path)
            if state is not None and state.log_id == log_id:
                found.append(state)
        return sorted(found, key=lambda state: state.name)

    async def _slowest(self, log_id: str) -> Position | None:
        """Return the position of the slowest cursor, None if there are no cursors."""
        return min((state.position for state in await self._of_log(log_id)), default=None)

    async def _forget(self, log_id: str, *, but: int = 0) -> None:
        """Delete the cursors of a log that is being deleted, except the first `but` of them."""
        for path in (await self._going(log_id))[but:]:
            await self._drop(path, log_id)

    async def _drop(self, path: str, log_id: str) -> None:
        """Delete a cursor of a log, wherever it is. A cursor of the next log of the name stays: the
        deletion of the log may have been overtaken by another.
        """
        error: ConflictError | None = None
        for _ in range(EDIT_ATTEMPTS_MAX):
            try:
                return await self._store.delete(path, await self._deletable(path, log_id))
            except NoSuchNodeError:
                return None
            except ConflictError as failed:
                error = failed
        assert error is not None
        raise error

    async def _deletions(self, log_id: str) -> Sequence[Change]:
        """Return the changes that delete a log's cursors, `CURSORS_AT_ONCE` at most."""
        return [Delete(path) for path in (await self._going(log_id))[:CURSORS_AT_ONCE]]

    async def _going(self, log_id: str) -> Sequence[str]:
        """Return the paths of the cursors to delete with a log.

        A cursor that cannot be read is included: no other log can use it.
        """
        paths = []
        for segment in await self._store.children(cursors_path(self.log)):
            path = f"{cursors_path(self.log)}/{segment}"
            with suppress(CorruptRecordError):
                state, _ = await self._find(path)
                if state is None or state.log_id != log_id:
                    continue
            paths.append(path)
        return sorted(paths)

    async def _state_of(self, name: str, log_id: str) -> CursorRecord:
        """Return a cursor's record. Raises `NoSuchCursorError`, `LogReplacedError`."""
        state, _ = await self._find(cursor_path(self.log, name))
        return self._checked(state, name, log_id)

    async def _advance(self, name: str, log_id: str, where: Position | int) -> CursorRecord:
        """See `Cursor.advance`."""
        position = await look(
            partial(self._describe, log_id), lambda manifest: self._reached(manifest, where)
        )

        def edit(found: CursorRecord | None) -> CursorRecord:
            state = self._checked(found, name, log_id)
            if position <= state.position:
                return state
            return replace(state, position=position, updated_ms=self._now_ms())

        return await self._edit(cursor_path(self.log, name), edit)

    async def _lags(self, end: int) -> Sequence[tuple[CursorInfo, int]]:
        """Return the log's cursors, sorted by name, each with its records before an end of the log
        that was just read.
        """
        seen, _ = await self._record.read()
        found: list[tuple[CursorInfo, int]] = []
        for state in await self._of_log(seen.log_id):
            offset = await look(
                partial(self._describe, seen.log_id), partial(self._offset, state.position)
            )
            found.append((state.info, max(0, end - offset)))
        return found

    async def _offset(self, position: Position, manifest: LogManifest) -> int:
        start = max(position, manifest.first_position)
        return await offset_of(manifest, start, self._open_segment)

    async def _offset_at(self, state: CursorRecord) -> int:
        """See `Cursor.offset`."""
        return await look(
            partial(self._describe, state.log_id), partial(self._offset, state.position)
        )

    async def _lag_of(self, state: CursorRecord) -> int:
        """See `Cursor.lag`."""
        return await look(
            partial(self._describe, state.log_id), lambda manifest: self._lag(manifest, state)
        )

    async def _lag(self, manifest: LogManifest, state: CursorRecord) -> int:
        offset = await self._offset(state.position, manifest)
        tail = await find_tail(manifest, self._open_segment)
        return max(0, tail.offset - offset)

    async def _describe(self, log_id: str) -> LogManifest:
        """Return the manifest of the log that a cursor belongs to."""
        manifest, _ = await self._record.read()
        if manifest.log_id != log_id:
            raise LogReplacedError(self.log)
        return manifest

    async def _reached(self, manifest: LogManifest, where: Position | int) -> Position:
        position = await find_place(manifest, where, self._open_segment)
        await check_reached(manifest, position, self._open_segment)
        return position

    def _checked(self, state: CursorRecord | None, name: str, log_id: str) -> CursorRecord:
        if state is None:
            raise NoSuchCursorError(self.log, name)
        if state.log_id != log_id:
            raise LogReplacedError(self.log)
        return state

    async def _find(self, path: str) -> tuple[CursorRecord | None, int | None]:
        try:
            found = await self._store.get(path)
        except NoSuchNodeError:
            return None, None
        return CursorRecord.decode(path, found.value), found.version

    async def _edit(
        self, path: str, edit: Callable[[CursorRecord | None], CursorRecord]
    ) -> CursorRecord:
        """Apply an edit to the stored cursor, again after a conflict or an unknown outcome."""
        error: ConflictError | StoreOutcomeUnknownError | NoSuchNodeError | None = None
        for _ in range(EDIT_ATTEMPTS_MAX):
            before, version = await self._find(path)
            after = edit(before)
            if after == before or version is None:
                return after
            try:
                await self._commit(Put(path, after.encode(), version))
            except (ConflictError, StoreOutcomeUnknownError, NoSuchNodeError) as failed:
                error = failed
                continue
            return after
        assert error is not None
        raise error

    async def _commit(self, *changes: Change) -> None:
        """Make changes in one transaction, unless the fence says that the right to them is over."""
        fence = () if self._fence is None else await self._fence._fence()
        await self._store.commit([*changes, *fence])

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _change(path: str, state: CursorRecord, version: int | None) -> Change:
    """Return the change that overwrites the cursor as it was read."""
    if version is None:
        return Create(path, state.encode())
    return Put(path, state.encode(), version)
