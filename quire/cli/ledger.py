"""`quire ledger`: write, read and manage single ledgers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial

import click

from quire.cli.inventory import (
    SUMMARY,
    doubtful_inventories,
    inventories,
    inventory_fields,
    print_inventory,
    ranges_text,
    summary_row,
)
from quire.cli.output import (
    Value,
    confirm,
    flush,
    note,
    print_fields,
    print_json,
    print_table,
    progress,
    progress_of,
    write_line,
)
from quire.cli.payloads import encode_payload, payload_fields, payload_option, records
from quire.cli.places import parse_ledger
from quire.cli.replication import password_option, replication_options
from quire.cli.settings import Settings, run, with_settings
from quire.cli.users import print_users, user_fields, users_of_ledger
from quire.client import Client
from quire.entry import DigestKind, Entry, LedgerId
from quire.errors import (
    ConfigurationError,
    CorruptEntryError,
    CorruptRecordError,
    IntegrityError,
    NoSuchLedgerError,
)
from quire.ledger.info import LedgerInfo
from quire.ledger.quorum import Replication
from quire.ledger.reader import LedgerReader
from quire.ledger.writer import LedgerWriter

_ledger = click.argument("ledger", type=parse_ledger)


@click.group(short_help="Write and read single ledgers, below logs.")
def ledger() -> None:
    """Write and read single ledgers, below logs."""


@ledger.command(short_help="Create a ledger, append records and close it.")
@click.argument("records_", metavar="[RECORD]...", nargs=-1)
@click.option(
    "--digest",
    type=click.Choice([kind.value for kind in DigestKind]),
    default=DigestKind.CRC32C.value,
    show_default=True,
    help="How entries are protected.",
)
@click.option("--leave-open", is_flag=True, help="Exit without closing, as a crash would.")
@click.option(
    "--read-needs-password",
    is_flag=True,
    help="Have bookies give entries only to peers that know the password; needs TLS.",
)
@payload_option
@password_option
@replication_options
@with_settings
def create(
    settings: Settings,
    records_: tuple[str, ...],
    digest: str,
    leave_open: bool,
    read_needs_password: bool,
    encoding: str,
    password: bytes,
    replication: Replication,
) -> None:
    """Create a ledger, append records to it and close it; prints its number.

    Records are arguments or lines of standard input. A ledger has one writer for its whole life:
    nothing can be appended later. Use `quire log append` for a log, which has no such end.

    \b
    Examples:
      quire ledger create first second third
      quire ledger create --ack-quorum 3 < records.txt
    """
    begin = partial(
        Client.create_ledger,
        replication=replication,
        password=password,
        digest=DigestKind(digest),
        read_needs_password=read_needs_password,
    )
    run(lambda: _create(settings, records_, leave_open, encoding, begin))


async def _create(
    settings: Settings,
    arguments: Sequence[str],
    leave_open: bool,
    encoding: str,
    begin: Callable[[Client], Awaitable[LedgerWriter]],
) -> None:
    async with settings.connect() as client, aclosing(records(arguments, encoding)) as batches:
        batch = await anext(batches, None)  # before: a bad record creates no ledger
        writer = await begin(client)
        try:
            async with writer:
                with progress("Appending", len(arguments) or None) as advance:
                    while batch is not None:
                        await writer.append_many(batch)
                        advance(len(batch))
                        batch = await anext(batches, None)
                last = writer.last_confirmed
                if leave_open:
                    writer.abandon()
        except BaseException:
            note(f"Ledger {writer.ledger} ends after entry {writer.last_confirmed}.")
            raise
    if settings.json:
        print_json({"ledger": writer.ledger, "last_entry": last, "closed": not leave_open})
    else:
        click.echo(str(writer.ledger))


@ledger.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("rest", nargs=-1)
def append(rest: tuple[str, ...]) -> None:
    """Not possible: names the commands to use instead.

    \b
    Example:
      quire ledger create first second
    """
    raise click.UsageError(
        "only the writer that created a ledger can append to it. "
        "`quire ledger create` writes a new ledger, `quire log append` continues a log."
    )


@ledger.command(short_help="Print entries.")
@_ledger
@click.option("--first", default=0, show_default=True, help="First entry to print.")
@click.option("--last", type=int, help="Last entry to print. [default: the last confirmed]")
@click.option("--recover", is_flag=True, help="Fence and close the ledger first, if it is open.")
@payload_option
@password_option
@with_settings
def read(
    settings: Settings,
    ledger: int,
    first: int,
    last: int | None,
    recover: bool,
    encoding: str,
    password: bytes,
) -> None:
    """Print entries, one a line. Does not disturb the writer, except with --recover.

    \b
    Examples:
      quire ledger read 7
      quire ledger read 7 --first 100 --last 199 --json
    """
    show = _printer(settings, encoding)
    run(lambda: _read(settings, ledger, first, last, recover, password, show))


async def _read(
    settings: Settings,
    ledger: int,
    first: int,
    last: int | None,
    recover: bool,
    password: bytes,
    show: Callable[[Entry], None],
) -> None:
    async with settings.connect() as client:
        open_ledger = client.open_ledger if recover else client.open_ledger_without_recovery
        reader = await open_ledger(ledger, password=password)
        async for entry in reader.read(first, last):
            show(entry)


@ledger.command(short_help="Print entries as they are confirmed.")
@_ledger
@click.option("--first", default=0, show_default=True, help="First entry to print.")
@payload_option
@password_option
@with_settings
def tail(settings: Settings, ledger: int, first: int, encoding: str, password: bytes) -> None:
    """Print entries as they are confirmed, until the ledger is closed. Never disturbs the writer.

    \b
    Example:
      quire ledger tail 7
    """
    show = _printer(settings, encoding)
    run(lambda: _tail(settings, ledger, first, password, show))


async def _tail(
    settings: Settings, ledger: int, first: int, password: bytes, show: Callable[[Entry], None]
) -> None:
    async with settings.connect() as client:
        reader = await client.open_ledger_without_recovery(ledger, password=password)
        async for entry in _follow(reader, first):
            show(entry)
            flush()


async def _follow(reader: LedgerReader, first: int) -> AsyncIterator[Entry]:
    async for entry in reader.follow(first):
        yield entry


def _printer(settings: Settings, encoding: str) -> Callable[[Entry], None]:
    def as_json(entry: Entry) -> None:
        print_json({"entry": entry.entry, **payload_fields(entry.payload, encoding)})

    def as_line(entry: Entry) -> None:
        write_line(encode_payload(entry.payload, encoding))

    return as_json if settings.json else as_line


@ledger.command(short_help="Show a ledger's metadata.")
@_ledger
@with_settings
def show(settings: Settings, ledger: int) -> None:
    """Show a ledger's metadata: its state, its quorums, and which bookies hold which entries. Shows
    also which processes use it, as far as its bookies know their connections.

    \b
    Example:
      quire ledger show 7
    """
    run(lambda: _show(settings, ledger))


async def _show(settings: Settings, ledger: int) -> None:
    async with settings.connect() as client:
        info = await client.ledger_info(ledger)
        users = await users_of_ledger(client, info)
    fields = _summary(info)
    if settings.json:
        fragments: list[Value] = [
            {"first": each.first, "bookies": list(each.bookies)} for each in info.fragments
        ]
        print_json(
            {
                **fields,
                "placement": str(info.placement),
                "custom_metadata": dict(info.custom_metadata),
                "fragments": fragments,
                **user_fields(users),
            }
        )
        return
    if placement := str(info.placement):
        fields["placement"] = placement
    print_fields(
        {**fields, **{f"custom {name}": text for name, text in info.custom_metadata.items()}}
    )
    click.echo()
    rows = [(each.first, "  ".join(each.bookies)) for each in info.fragments]
    print_table(("first entry", "bookies"), rows, empty="")
    print_users(users)


@ledger.command(short_help="Compare ledgers with the entries that bookies hold.")
@click.argument("ledger", type=parse_ledger, required=False)
@click.option("--all", "every", is_flag=True, help="Compare all ledgers, one line for each.")
@click.option("--short", is_flag=True, help="With --all: only ledgers that are short of copies.")
@with_settings
def inventory(settings: Settings, ledger: int | None, every: bool, short: bool) -> None:
    """Ask every bookie which entries it holds, and compare the answers with the metadata.

    Shows which entries bookies lack and which have too few copies. The exit code is 9 when an entry
    has no copy on any bookie that answered. Changes nothing and does not disturb the writer.

    \b
    Examples:
      quire ledger inventory 7
      quire ledger inventory --all --short
    """
    if every == (ledger is not None):
        raise ConfigurationError("an inventory is of one ledger, or of --all: give one of the two")
    if short and not every:
        raise ConfigurationError("--short chooses among all ledgers: give --all as well")
    if ledger is None:
        run(lambda: _inventory_all(settings, only_short=short))
    else:
        run(lambda: _inventory(settings, ledger))


async def _inventory_all(settings: Settings, *, only_short: bool) -> None:
    rows: list[tuple[object, ...]] = []
    listed, short, without = 0, 0, list[LedgerId]()
    async with settings.connect() as client:
        ledgers = await client.list_ledgers()
        with progress_of("Comparing ledgers") as on_progress:
            compare = doubtful_inventories if only_short else inventories
            async for found in compare(client, ledgers, on_progress):
                listed += 1
                short += bool(found.shortages)
                if any(not each.copies for each in found.shortages):
                    without.append(found.ledger.ledger)
                if only_short and not found.shortages:
                    continue
                if settings.json:
                    print_json(inventory_fields(found))
                else:
                    rows.append(summary_row(found))
    if not settings.json:
        print_table(SUMMARY, rows, empty="No ledger is short of copies." if only_short else "")
        compared = len(ledgers) if only_short else listed
        note(f"{short} of {compared} ledgers are short of copies.")
    if without:
        raise IntegrityError(
            f"entries of {len(without)} ledgers are on no bookie that answered, first of ledger "
            f"{without[0]}: `quire ledger inventory {without[0]}` names them"
        )


async def _inventory(settings: Settings, ledger: int) -> None:
    async with settings.connect() as client:
        found = await client.ledger_inventory(ledger)
    if settings.json:
        print_json(inventory_fields(found))
    else:
        print_inventory(found)
    without = [each for each in found.shortages if not each.copies]
    if without:
        entries = ranges_text([(each.first, each.last) for each in without])
        silent = [each.bookie for each in found.holdings if each.error]
        reason = f"no bookie that answered holds {entries}"
        reason += f"; no answer from {', '.join(silent)}" if silent else ""
        raise CorruptEntryError(ledger, without[0].first, reason)


def _moment(milliseconds: int) -> str | None:
    """Return a time as text. None for a time that no calendar has, and where a record of another
    system has none.
    """
    if not milliseconds:
        return None
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds")


def _summary(info: LedgerInfo) -> dict[str, Value]:
    replication = info.replication
    return {
        "ledger": info.ledger,
        "state": str(info.state),
        "last_entry": info.last_entry,
        "length": info.length,
        "ensemble": replication.ensemble,
        "write_quorum": replication.write_quorum,
        "ack_quorum": replication.ack_quorum,
        "digest": str(info.digest),
        "created": _moment(info.created_ms),
    }


@ledger.command("list", short_help="List the ledgers, including the ledgers of logs.")
@with_settings
def list_(settings: Settings) -> None:
    """List the ledgers, including the ledgers of logs.

    A ledger with unreadable metadata is "unreadable"; the exit code is 9 then.

    \b
    Example:
      quire ledger list --json
    """
    run(lambda: _list(settings))


async def _list(settings: Settings) -> None:
    unreadable: CorruptRecordError | None = None
    async with settings.connect() as client:
        ledgers = await client.list_ledgers()
        with progress("Reading metadata", len(ledgers)) as advance:
            found: list[dict[str, Value]] = []
            for each in ledgers:
                with suppress(NoSuchLedgerError):  # deleted meanwhile, as by a log's retention
                    try:
                        found.append(_summary(await client.ledger_info(each)))
                    except CorruptRecordError as error:
                        found.append({"ledger": each, "state": "unreadable"})
                        unreadable = error
                advance(1)
    if settings.json:
        for summary in found:
            print_json(summary)
    else:
        names = ("ledger", "state", "last_entry", "length", "created")
        rows = [tuple(summary.get(name) for name in names) for summary in found]
        columns = ("ledger", "state", "last entry", "bytes", "created")
        print_table(columns, rows, empty="No ledgers yet: `quire ledger create` makes one.")
    if unreadable is not None:
        flush()
        raise unreadable


@ledger.command(short_help="Close a ledger permanently.")
@_ledger
@password_option
@with_settings
def close(settings: Settings, ledger: int, password: bytes) -> None:
    """Close a ledger permanently. If its writer did not, recover it: this fences the writer off.

    \b
    Example:
      quire ledger close 7
    """
    run(lambda: _close(settings, ledger, password))


async def _close(settings: Settings, ledger: int, password: bytes) -> None:
    async with settings.connect() as client:
        await client.open_ledger(ledger, password=password)
        info = await client.ledger_info(ledger)
    if settings.json:
        print_json(_summary(info))
    else:
        note(f"Ledger {ledger} is closed; its last entry is {info.last_entry}.")


@ledger.command(short_help="Delete a ledger.")
@_ledger
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--force",
    is_flag=True,
    help="Do not close an open ledger first, because its bookies are lost.",
)
@password_option
@with_settings
def delete(settings: Settings, ledger: int, yes: bool, force: bool, password: bytes) -> None:
    """Delete a ledger. Its entries disappear from the bookies some time later.

    An open ledger is fenced and closed first: its writer gets no further acknowledgements.

    \b
    Example:
      quire ledger delete 7 --yes
    """
    if not yes:
        confirm(f"Delete ledger {ledger} with all its entries?")
    run(lambda: _delete(settings, ledger, force, password))


async def _delete(settings: Settings, ledger: int, force: bool, password: bytes) -> None:
    async with settings.connect() as client:
        await client.delete_ledger(ledger, password=password, force=force)
    note(f"Ledger {ledger} is deleted.")
