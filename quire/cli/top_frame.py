"""A frame of `quire top`: the tables of bookies and logs in a given space. Pure.

The rows come from the console's pages (quire/console/views), so pages and terminal show the same
figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quire.cli.output import cell
from quire.console import words
from quire.console.looks import ClusterLook
from quire.console.views.bookies import BookieRow, DiskBar
from quire.console.views.bookies import bookies as bookies_page
from quire.console.views.logs import LogRow
from quire.console.views.logs import logs as logs_page
from quire.console.views.overview import overview
from quire.view.shapes import shape

ROWS_MIN: Final = 3
"""Each table has so many rows, however low the terminal is."""

HEAD_LINES: Final = 7
"""Lines of a frame beside its rows: the head, empty lines, titles."""

COLORS: Final = {"ok": "green", "warning": "yellow", "critical": "bold red"}

WIDTH: Final = 80
"""All columns have space at this width."""

BAR_CELLS: Final = 5


class TopOrders(NamedTuple):
    """The order of bookies, and of logs."""

    bookies: str = "name"
    logs: str = "growth"


class TopRows(NamedTuple):
    """The rows of a frame: bookies, logs, and the number of all logs."""

    bookies: list[BookieRow]
    logs: list[LogRow]
    log_count: int


def rows_of(look: ClusterLook, orders: TopOrders) -> TopRows:
    """Return all bookies, and the first logs by their order."""
    page = bookies_page(look, orders.bookies)
    bookies = list(page.rows)
    for number in range(2, page.paging.pages + 1):
        bookies += bookies_page(look, orders.bookies, number).rows
    shown = logs_page(look, orders.logs)
    return TopRows(bookies, list(shown.rows), shown.total)


def fields(look: ClusterLook, orders: TopOrders) -> dict[str, Any]:
    """Return a look as JSON has it."""
    rows, head = rows_of(look, orders), overview(look)
    logs: list[dict[str, Any]] = [shape(each) for each in rows.logs]
    for each in logs:
        del each["strip"]  # it is for drawing
    return {
        "at_ms": look.at_ms,
        "store": look.store,
        "health": head.severity,
        "trouble": look.trouble,
        "reasons": shape(head.reasons),
        "bookies": shape(rows.bookies),
        "logs": logs,
        "log_count": rows.log_count,
        "clients": len(look.clients),
        "users": shape(look.users.users),
        "followers": None if look.followers is None else shape(look.followers),
    }


def frame(
    look: ClusterLook, orders: TopOrders, lines: int | None = None, width: int = WIDTH
) -> RenderableType:
    """Return a frame of at most so many lines of a width; all rows without a number of lines."""
    rows, is_wide = rows_of(look, orders), width >= WIDTH
    bookies, logs = _shares(len(rows.bookies), len(rows.logs), lines)
    return Group(
        *_head(look, rows),
        Text(),
        _table(BOOKIE_COLUMNS, map(_bookie_row, rows.bookies[:bookies]), is_wide),
        *_rest(len(rows.bookies) - bookies, "bookie"),
        Text(),
        _table(LOG_COLUMNS, map(_log_row, rows.logs[:logs]), is_wide),
        *_rest(rows.log_count - logs, "log"),
    )


def _shares(bookies: int, logs: int, lines: int | None) -> tuple[int, int]:
    """Return the rows of each table. Bookies go first, and leave some space for logs."""
    if lines is None:
        return bookies, logs
    space = max(2 * ROWS_MIN, lines - HEAD_LINES - 2)  # two lines say how many more there are
    shown = min(bookies, max(ROWS_MIN, space - min(logs, max(ROWS_MIN, space // 2))))
    return shown, min(logs, max(ROWS_MIN, space - shown))


def _head(look: ClusterLook, rows: TopRows) -> list[RenderableType]:
    head = overview(look)
    at = words.moment(look.at_ms)[11:]
    parts = [
        words.plural(len(rows.bookies), "bookie"),
        words.plural(rows.log_count, "log"),
        words.plural(len(look.clients), "client"),
    ]
    if (followers := look.followers) is not None:
        parts.append(words.plural(followers.subscriptions, "subscription"))
    first = Text(f"quire top  {at}  ", no_wrap=True, overflow="ellipsis")
    first.append(head.severity, COLORS.get(head.severity, ""))
    first.append(f"  {', '.join(parts)}  {cell(look.store)}")
    why = look.trouble or (head.reasons[0].text if head.reasons else _in_use(look))
    return [
        first,
        Text(cell(why), COLORS.get(head.severity, ""), no_wrap=True, overflow="ellipsis"),
    ]


def _in_use(look: ClusterLook) -> str:
    """Return how many ledgers are written and read; empty where no bookie tells that."""
    users = look.users
    if not users.users:
        return ""
    written, read = words.plural(users.writers, "ledger"), words.plural(users.readers, "reader")
    late = look.followers.without_credit if look.followers is not None else 0
    waits = f", {words.plural(late, 'subscription')} without credit" if late else ""
    return f"{written} written, {read}{waits}"


def _rest(count: int, what: str) -> list[RenderableType]:
    return [Text(f"and {words.plural(count, f'more {what}')}", "dim")] if count > 0 else []


class Column(NamedTuple):
    """A column of a table. A narrow terminal has the needed ones only."""

    title: str
    width: int = 0
    """0 takes the space that is left."""
    is_number: bool = False
    is_needed: bool = False


BOOKIE_COLUMNS: Final = (
    Column("BOOKIE", 9, is_needed=True),
    Column("STATE", is_needed=True),
    Column("DISK", 11),
    Column("APPENDS", 10, is_number=True, is_needed=True),
    Column("P99", 7, is_number=True),
    Column("QUEUE", 6, is_number=True),
    Column("LEDGERS", 9, is_number=True),
    Column("VERSION", 7),
)

LOG_COLUMNS: Final = (
    Column("LOG", is_needed=True),
    Column("LEADER", 14),
    Column("EPOCH", 5, is_number=True),
    Column("END", 11, is_number=True),
    Column("RECORDS", 9, is_number=True, is_needed=True),
    Column("LAG", 9, is_number=True, is_needed=True),
    Column("READER", 9),
)


def _table(
    columns: Sequence[Column], rows: Iterable[Sequence[RenderableType]], is_wide: bool
) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True, padding=(0, 1, 0, 0))
    chosen = [at for at, each in enumerate(columns) if is_wide or each.is_needed]
    for column in map(columns.__getitem__, chosen):
        table.add_column(
            column.title,
            width=column.width or None,
            ratio=None if column.width else 1,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*map(row.__getitem__, chosen))
    return table


def _bookie_row(each: BookieRow) -> tuple[RenderableType, ...]:
    note = f"{each.state}, {each.note}" if each.note else each.state
    return (
        *(cell(words.short(each.bookie)), Text(cell(note), COLORS.get(each.severity, ""))),
        *(_disks(each), words.rate(each.entries_per_second), words.seconds(each.journal_p99)),
        *(words.number(each.waiting), words.number(each.ledgers), cell(each.version)),
    )


def _disks(row: BookieRow) -> Text:
    """Return the fullest directory as a bar with its share."""
    fullest: DiskBar | None = max(row.disks, key=lambda each: each.used_share, default=None)
    if fullest is None:
        return Text(words.NONE)
    full = round(fullest.used_share * BAR_CELLS)
    bar = Text("█" * full + "░" * (BAR_CELLS - full), COLORS.get(fullest.severity, ""))
    return bar.append(f" {words.share(fullest.used_share)}", "default")


def _log_row(each: LogRow) -> tuple[RenderableType, ...]:
    color = "" if each.severity == "ok" else COLORS.get(each.severity, "")
    return (
        *(Text(cell(each.name), color), cell(each.leader or words.NONE)),
        *(words.number(each.epoch), words.number(each.end), words.rate(each.per_second)),
        *(Text(words.number(each.lag), color), cell(each.slowest)),
    )
