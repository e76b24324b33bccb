"""Reading a living metadata store into a file.

The order makes the file usable although the store changes meanwhile:

    1  everything but ledgers: the cluster, cookies, manifests, cursors, jobs, snapshots, elections
    2  ledgers, as they are met
    3  a manifest or snapshot that names a ledger which step 2 did not meet was changed meanwhile:
       it is read again, with the ledgers that it names now, until none is missing; a manifest
       always with its pages and jobs (logs.py)
    4  the counter of ids, last: it is above every ledger of the file

Sessions (registered bookies, candidates of elections) are not saved: they end with the store.
The store stays in use; any client may run a backup at any time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from quire.entry import LedgerId
from quire.errors import ConflictError, NoSuchNodeError, QuireError
from quire.ledger.ids import decode_counter
from quire.metadata.archive import ArchiveWriter, Saved, Summary
from quire.metadata.logs import ATTEMPTS_MAX, LogArchiver, Naming
from quire.metastore.cluster import Cluster
from quire.metastore.layout import (
    BOOKIES,
    CLIENTS,
    CLUSTER,
    ELECTIONS,
    LEDGER_IDS,
    LEDGERS,
    LOG_JOBS,
    LOGS,
    PAGES,
    SERVICES,
    ledger_path,
    parent_of,
    parse_ledger,
)
from quire.metastore.record import decode_record
from quire.metastore.store import MetadataStore

ROOT: Final = "/quire"
CANDIDATES: Final = "candidates"
_APART: Final = (LEDGERS, LEDGER_IDS, BOOKIES, CLIENTS, PAGES, LOG_JOBS)
"""Trees of records that other steps save, or none."""

Progress = Callable[[int], None]


async def back_up(
    store: MetadataStore, target: Path, now_ms: int, on_progress: Progress = lambda records: None
) -> Summary:
    """Save a store to a file.

    Args:
        store: the store to read.
        target: the file to make; its directory must exist.
        now_ms: the time that the file is to bear, in ms since 1970.
        on_progress: told of the number of records saved so far.

    Returns:
        The summary of the saved records.

    Raises:
        ConfigurationError: the file exists or cannot be written.
        NoSuchNodeError: the store holds no cluster.
        ConflictError: records changed faster than they could be read.
        StoreWentBackError: the store itself was put back and not adopted yet.

    Cancellation: no file is left.
    """
    cluster = Cluster.decode((await store.get(CLUSTER)).value)
    cluster.check_adopted(store)
    with ArchiveWriter(target) as archive:
        logs = LogArchiver(store, archive)
        naming: dict[str, Naming] = {}
        async for record in _walk(store, ROOT):
            if record.path.startswith((LOGS + "/", SERVICES + "/")):
                if (found := await _read(store, logs, record.path)) is not None:
                    naming[record.path] = found
            else:
                archive.add(record)
            on_progress(archive.records)
        met: set[LedgerId] = set()
        for shard in await store.children(LEDGERS):
            above = f"{LEDGERS}/{shard}"
            async for record in _walk(store, above):
                if record.path == above:  # its last ledger was deleted
                    continue
                archive.add(record)
                met.add(parse_ledger(record.path.rpartition("/")[2]))
                on_progress(archive.records)
        await _settle(store, archive, logs, naming, met)
        for _, found in sorted(naming.items()):
            for each in found.records:
                archive.add(each)
        following = await _following(store)
        summary = Summary(cluster.id, cluster.incarnation, following, now_ms, archive.records)
        archive.finish(summary)
    return summary


async def _following(store: MetadataStore) -> LedgerId:
    try:
        return decode_counter((await store.get(LEDGER_IDS)).value).following
    except NoSuchNodeError:
        return 0


async def _walk(store: MetadataStore, path: str) -> AsyncGenerator[Saved, None]:
    """Yield the records at and below a path; ledgers, pages, jobs and sessions are passed over
    from above.
    """
    value: bytes | None = None
    with suppress(NoSuchNodeError):  # deleted meanwhile, or only a place for others
        value = (await store.get(path)).value
    names = await store.children(path)
    if value or (value is not None and not names):
        yield Saved(path, value)
    for name in names:
        below = f"{path}/{name}"
        if below not in _APART and not _is_queue(path, name):
            async for record in _walk(store, below):
                yield record


def _is_queue(path: str, name: str) -> bool:
    """Whether a name below a path is the queue of an election. A log, too, may have the name."""
    return name == CANDIDATES and parent_of(path) == ELECTIONS


async def _read(store: MetadataStore, logs: LogArchiver, path: str) -> Naming | None:
    """Return a record that names ledgers, None if it is gone."""
    if path.startswith(LOGS + "/"):
        return await logs.read(path)
    try:
        value = (await store.get(path)).value
    except NoSuchNodeError:
        return None
    ledgers: list[LedgerId] = []
    with suppress(QuireError):  # a damaged record is saved as it is
        _, body = decode_record(path, "snapshot", value)
        ledgers += [each for each in (body.get("ledger"),) if type(each) is int]
    return Naming((Saved(path, value),), frozenset(ledgers))


async def _settle(
    store: MetadataStore,
    archive: ArchiveWriter,
    logs: LogArchiver,
    naming: dict[str, Naming],
    met: set[LedgerId],
) -> None:
    """Read again what names ledgers that were not met, until it names none."""
    for _ in range(ATTEMPTS_MAX):
        missing = {
            path: lacking
            for path, found in naming.items()
            if (lacking := sorted(found.ledgers - met))
        }
        if not missing:
            return
        for path, lacking in missing.items():
            for ledger in lacking:
                try:
                    record = Saved(
                        ledger_path(ledger), (await store.get(ledger_path(ledger))).value
                    )
                except NoSuchNodeError:
                    continue
                archive.add(record)
                met.add(ledger)
            now = await _read(store, logs, path)
            if now is None:
                del naming[path]
                continue
            if now == naming[path]:
                met.update(lacking)  # the store itself lacks it: the backup is as the store is
            naming[path] = now
    raise ConflictError(
        f"{', '.join(sorted(missing))} changed at every attempt to read it: try again"
    )
