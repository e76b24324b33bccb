"""The table of calls: all answers of a console, for programs and for people.

Each call has a path for programs, `/api/v1/…`, and a page. Both are made from one value. The
routes, the OpenAPI document and the test of the documentation come from this table. Every call
reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from quire.aio.timing import time_limit
from quire.client import Client
from quire.console.looks import ClusterLook
from quire.console.records import RecordsPage, search
from quire.console.sampler import Sampler
from quire.console.views.bookies import BookiesPage, bookies
from quire.console.views.connections import ConnectionsPage, connections
from quire.console.views.gateways import GatewaysPage, gateways
from quire.console.views.growth import GrowthPage, growth_page
from quire.console.views.healing import HealingPage, healing
from quire.console.views.ledgers import LedgerPage, LedgerRow, LedgersPage, ledger_row, one_ledger
from quire.console.views.logs import LogsPage, logs
from quire.console.views.one_log import LogPage, one_log
from quire.console.views.overview import OverviewPage, overview
from quire.console.views.paging import ROWS_MAX
from quire.entry import LedgerId
from quire.errors import (
    CorruptRecordError,
    InvalidRequestError,
    NoSuchLedgerError,
    UnreadableError,
)
from quire.ledger.info import info_of
from quire.rights.roles import Action

READS_AT_ONCE: Final = 16

LEDGER_SECONDS: Final = 15.0
"""How long the bookies may take to list the entries of a ledger."""


class Query:
    """The parameters of a request."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return self._given.get(name, default)

    def needed(self, name: str) -> str:
        """Return a text. Raises `InvalidRequestError` without one."""
        if not (found := self._given.get(name, "")):
            raise InvalidRequestError(f"the parameter {name!r} is needed")
        return found

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int:
        """Return a number. Raises `InvalidRequestError` for another form."""
        text = self._given.get(name, "")
        if not text and default is not None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= least):
            raise InvalidRequestError(f"{name} {text!r} is not a whole number from {least} on")
        return int(text)


@dataclass(slots=True)
class ConsoleSource:
    """What calls read from."""

    client: Client
    sampler: Sampler
    now_ms: Callable[[], int]
    shows_records: bool = True

    @property
    def snapshot(self) -> ClusterLook:
        """The last look, at the present time."""
        return replace(self.sampler.snapshot, at_ms=self.now_ms())


Make: TypeAlias = Callable[[ConsoleSource, Query], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class ConsoleCall:
    """One call of the table. `page` is its path for people, `returns` the class of its value."""

    name: str
    page: str
    title: str
    make: Make
    returns: type
    parameters: Mapping[str, str]
    """By name, with their meaning; of the query."""
    summary: str
    log: str = ""
    """The parameter that names the log it is about; empty: it is about the cluster."""
    action: Action = Action.OBSERVE

    @property
    def path(self) -> str:
        """Its path for programs."""
        return f"/api/v1/{self.name}"


async def make_overview(source: ConsoleSource, query: Query) -> OverviewPage:
    """Say whether all is well, and answer the four questions."""
    return overview(source.snapshot)


async def make_bookies(source: ConsoleSource, query: Query) -> BookiesPage:
    """List the bookies, with state, disks and pace."""
    return bookies(source.snapshot, query.text("order", "domain"), query.whole("page", 1))


async def make_logs(source: ConsoleSource, query: Query) -> LogsPage:
    """List the logs, with growth, leader and the slowest reader."""
    order, find = query.text("order", "name"), query.text("find")
    return logs(source.snapshot, order, query.whole("page", 1), find)


async def make_log(source: ConsoleSource, query: Query) -> LogPage:
    """Describe a log: segments, options, readers. It is looked at now."""
    name = query.needed("name")
    look = await source.sampler.look_at(name)
    return one_log(look, source.sampler.day_of(name), source.now_ms())


async def make_records(source: ConsoleSource, query: Query) -> RecordsPage:
    """Read at most 100 records of a log from a place on."""
    name, start = query.needed("log"), query.text("from", "latest")
    if not source.shows_records:
        why = "this console shows no records: it was started with --no-records"
        return RecordsPage(name, start, (), "", why, source.now_ms())
    return await search(source.client, name, start, source.now_ms())


async def make_healing(source: ConsoleSource, query: Query) -> HealingPage:
    """Count the ledgers that lack copies, by reason, and list the moves under way."""
    return healing(source.snapshot, query.whole("page", 1))


async def make_ledgers(source: ConsoleSource, query: Query) -> LedgersPage:
    """List 100 ledgers by id."""
    after = query.whole("from", 0) - 1
    ids, more = await _ids_after(source.client, after)
    damaged: list[str] = []
    places = asyncio.Semaphore(READS_AT_ONCE)

    async def read(ledger: LedgerId) -> LedgerRow | None:
        async with places:
            try:
                return ledger_row(info_of(await source.client._catalog.metadata(ledger)))
            except NoSuchLedgerError:  # deleted meanwhile
                return None
            except CorruptRecordError as error:
                damaged.append(str(error))
                return None

    rows = [each for each in await asyncio.gather(*map(read, ids)) if each is not None]
    facts = source.snapshot.facts
    total = facts.summary.ledgers if facts and facts.summary else None
    following = ids[-1] + 1 if more else None
    return LedgersPage(after + 1, rows, following, total, sorted(damaged), source.now_ms())


async def _ids_after(client: Client, after: LedgerId) -> tuple[list[LedgerId], bool]:
    """Return the next 100 ids, and whether there are more. It lists no further than needed."""
    found: list[LedgerId] = []
    async for page in client._catalog.records.list(after):
        found.extend(page)
        if len(found) > ROWS_MAX:
            break
    return found[:ROWS_MAX], len(found) > ROWS_MAX


async def make_ledger(source: ConsoleSource, query: Query) -> LedgerPage:
    """Say which bookie has which entries of a ledger. The bookies are asked now."""
    ledger = query.whole("id")
    try:
        async with time_limit(LEDGER_SECONDS):
            return one_ledger(await source.client.ledger_inventory(ledger), source.now_ms())
    except TimeoutError:
        late = f"the bookies did not list its entries within {LEDGER_SECONDS:g} s"
        raise UnreadableError(ledger, 0, late) from None


async def make_growth(source: ConsoleSource, query: Query) -> GrowthPage:
    """Return the growth over a day, as long as the console has run."""
    return growth_page(source.snapshot)


async def make_connections(source: ConsoleSource, query: Query) -> ConnectionsPage:
    """List the connected clients, and the versions of all programs."""
    return connections(source.snapshot, query.whole("page", 1))


async def make_gateways(source: ConsoleSource, query: Query) -> GatewaysPage:
    """List the gateways with their logs, rates, late clients, slow consumers and errors, and the
    groups of Kafka's consumers.
    """
    return gateways(source.snapshot, query.whole("page", 1))


_PAGE: Final = {"page": "which page of 100 rows, from 1 on"}

CALLS: Final[tuple[ConsoleCall, ...]] = (
    ConsoleCall(
        *("overview", "/", "Overview", make_overview, OverviewPage, {}),
        "Is all well, and if not, why?",
    ),
    ConsoleCall(
        *("bookies", "/bookies", "Bookies", make_bookies, BookiesPage),
        {"order": "domain (the default), pace, disk or name", **_PAGE},
        "Bookies by domain",
    ),
    ConsoleCall(
        *("logs", "/logs", "Logs", make_logs, LogsPage),
        {"order": "name (the default), growth, lag or records", "find": "a part of names", **_PAGE},
        "Logs",
    ),
    ConsoleCall(
        *("log", "/log", "Log", make_log, LogPage, {"name": "the log's name"}),
        "One log",
        log="name",
    ),
    ConsoleCall(
        *("records", "/records", "Records", make_records, RecordsPage),
        {
            "log": "the log's name",
            "from": "offset, segment.entry.slot, time, txid:N, beginning or latest (the default)",
        },
        "Records of a log",
        log="log",
        action=Action.READ,
    ),
    ConsoleCall(
        *("healing", "/healing", "Healing", make_healing, HealingPage, _PAGE),
        "Copies that are short, and moves under way",
    ),
    ConsoleCall(
        *("ledgers", "/ledgers", "Ledgers", make_ledgers, LedgersPage),
        {"from": "the first id of the page"},
        "Ledgers",
    ),
    ConsoleCall(
        *("ledger", "/ledger", "Ledger", make_ledger, LedgerPage, {"id": "the ledger's id"}),
        "One ledger: fragments and bookies",
    ),
    ConsoleCall(
        *("growth", "/growth", "Growth", make_growth, GrowthPage, {}),
        "Growth over a day",
    ),
    ConsoleCall(
        *("connections", "/connections", "Connections", make_connections, ConnectionsPage, _PAGE),
        "Connected programs",
    ),
    ConsoleCall(
        *("gateways", "/gateways", "Gateways", make_gateways, GatewaysPage, _PAGE),
        "Gateways, their logs and clients",
    ),
)
