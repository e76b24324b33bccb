"""Every public name of the asynchronous API has a blocking twin with the same parameters."""

from __future__ import annotations

import inspect
import re

import pytest

import quire
from quire import admin, connection, sync
from quire.admin import IngestJob
from quire.client import Client
from quire.cluster import LocalCluster
from quire.election.election import Election
from quire.election.leadership import Leadership
from quire.leading import LeadingLog
from quire.ledger.numbered import NumberedWriter
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter
from quire.log.leader.log import Log
from quire.log.maintenance.cursor import Cursor
from quire.log.maintenance.cursors import LogCursors
from quire.log.reading.reader import LogReader
from quire.service import Service
from quire.sync import admin as sync_admin

PAIRS: dict[type, type] = {
    Client: sync.SyncClient,
    LedgerWriter: sync.SyncLedgerWriter,
    LedgerReader: sync.SyncLedgerReader,
    Log: sync.SyncLog,
    LogReader: sync.SyncLogReader,
    LeadingLog: sync.SyncLeadingLog,
    LogCursors: sync.SyncLogCursors,
    Cursor: sync.SyncCursor,
    Election: sync.SyncElection,
    Leadership: sync.SyncLeadership,
    IngestJob: sync_admin.SyncIngestJob,
    LocalCluster: sync.SyncLocalCluster,
    NumberedWriter: sync.SyncNumberedWriter,
    Service: sync.SyncService,
}

WITHOUT_TWIN: dict[type, frozenset[str]] = {
    LocalCluster: frozenset({"program"}),
    Election: frozenset({"abandon", "close", "has_ended"}),
    Service: frozenset({"abandon", "has_ended"}),
    LogReader: frozenset({"abandon", "has_ended"}),
    NumberedWriter: frozenset({"has_ended"}),
    LedgerReader: frozenset({"abandon", "has_ended"}),
}
"""How handles end; a blocking program ends them by `close` or a block."""


def public(owner: type) -> list[str]:
    found = [name for name, _ in inspect.getmembers_static(owner) if not name.startswith("_")]
    return [name for name in found if name not in WITHOUT_TWIN.get(owner, frozenset())]


def twins() -> list[tuple[type, str]]:
    return [(owner, name) for owner in PAIRS for name in public(owner)]


@pytest.mark.parametrize(
    ("owner", "name"), twins(), ids=lambda value: getattr(value, "__name__", value)
)
def test_a_name_has_a_twin_with_the_same_parameters(owner: type, name: str) -> None:
    twin = inspect.getattr_static(PAIRS[owner], name, None)
    assert twin is not None, f"{PAIRS[owner].__name__} lacks {name}"
    original = inspect.getattr_static(owner, name)
    assert isinstance(twin, property) == isinstance(original, property), name
    if isinstance(original, property):
        assert isinstance(twin, property)
        assert original.fget is not None
        assert twin.fget is not None
        types = original.fget.__annotations__
        assert twin.fget.__annotations__ == {key: blocking(types[key]) for key in types}
        return
    mine, theirs = inspect.signature(twin), inspect.signature(original)
    expected = [blocking(str(each)) for each in theirs.parameters.values()]
    assert [str(each) for each in mine.parameters.values()] == expected, name
    assert blocking(str(theirs.return_annotation)) == str(mine.return_annotation)


def blocking(annotation: str) -> str:
    """Return what the blocking twin of something that returns this should return."""
    for owner, twin in PAIRS.items():
        annotation = re.sub(rf"\b{owner.__name__}\b", twin.__name__, annotation)
    annotation = re.sub(r"AsyncGenerator\[(.*), None\]", r"Iterator[\1]", annotation)
    annotation = annotation.replace("OpeningReader", "SyncLogReader")
    annotation = annotation.replace("AbstractAsyncContextManager", "Iterator")
    annotation = annotation.replace("AsyncIterator", "Iterator")
    return annotation.replace("asyncio.Future", "concurrent.futures.Future")


def test_connect_has_a_twin() -> None:
    mine, theirs = inspect.signature(sync.connect), inspect.signature(connection.connect)
    assert list(mine.parameters.values()) == list(theirs.parameters.values())


@pytest.mark.parametrize("name", ["gc", "ingest", "offload", "rebuild"])
def test_a_function_of_admin_has_a_twin(name: str) -> None:
    (_, *mine), (_, *theirs) = (
        inspect.signature(getattr(module, name)).parameters.values()
        for module in (sync_admin, admin)
    )
    assert mine == theirs


def test_the_twins_are_all_there() -> None:
    exported = [name for module in (sync, sync_admin) for name in module.__all__]
    assert sorted(twin.__name__ for twin in PAIRS.values()) == sorted(
        name for name in exported if name.startswith("Sync")
    )


def test_the_values_are_the_same() -> None:
    values = [name for name in sync.__all__ if not name.startswith("Sync") and name != "connect"]
    assert {name: getattr(sync, name) for name in values} == {
        name: getattr(quire, name) for name in values
    }
    handles = {owner.__name__ for owner in PAIRS}
    asynchronous = {"connect", "run_async"}
    assert set(quire.__all__) - handles - asynchronous <= set(values)


def test_a_twin_adds_to_the_docstring_before_its_sections() -> None:
    doc = sync.SyncLog.submit.__doc__ or ""
    body, _, sections = doc.partition("Args:")
    assert "any thread" in body
    assert "TailConflictError" in sections


def test_a_function_has_the_sections_of_its_original() -> None:
    assert (sync_admin.rebuild.__doc__ or "") == inspect.cleandoc(admin.rebuild.__doc__ or "")
