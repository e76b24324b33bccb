"""`quire log copy`: a log once more, on another cluster or under another name.

The same command continues a copy that was interrupted. The records at the target are compared with
the source, one by one, before the target is opened for writing. So a log with other records is left
alone, and its leader keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import click

from quire.bookkeeper.uri import split_uri
from quire.cli import streams
from quire.cli.output import note, print_json, progress
from quire.cli.replication import key_file_option, password_option, replication_options
from quire.cli.settings import Settings, run, with_settings
from quire.client import Client
from quire.errors import ConfigurationError, LogExistsError
from quire.ledger.quorum import Replication
from quire.log.leader.log import Log
from quire.log.manifest.options import LogOptions
from quire.log.reading.reader import LogReader
from quire.log.records.attributes import Appendable, copy_of
from quire.log.records.keyring import Keyring
from quire.log.records.position import Appended, Record
from quire.metastore.place import resolve_store

UNDER_WAY_MAX: Final = 1000
"""Records that were submitted and are not acknowledged yet."""


@dataclass(frozen=True, slots=True)
class CopyOrder:
    """A log, the name of its copy, and how both are opened."""

    name: str
    copy: str
    options: LogOptions
    recover: bool = False


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The outcome of a copy. `found` records were at the target before."""

    found: int
    appended: int
    is_open: bool
    """Whether the source may have later records."""


@click.command(short_help="Copy a log to another cluster or name.")
@click.argument("name")
@click.option("--to", "target", required=True, metavar="URI", help="Store of the target cluster.")
@click.option("--as", "copy_", metavar="NAME", help="Name of the copy; without it the same name.")
@click.option(
    "--recover",
    is_flag=True,
    help="Recover the log first: copy every acknowledged record. Deposes a living leader.",
)
@password_option
@key_file_option
@replication_options
@with_settings
def copy(
    settings: Settings,
    name: str,
    target: str,
    copy_: str | None,
    recover: bool,
    password: bytes,
    keyring: Keyring | None,
    replication: Replication,
) -> None:
    """Copy a log to another cluster, or under another name.

    Records, their order and the stored options stay; positions, times and epochs are those
    of the copy. The same command continues a copy that was interrupted, and brings an older copy up
    to date. A log at the target with other records is not touched. The source is only read, unless
    --recover is given. Password and keys are for both logs.

    \b
    Examples:
      quire log copy orders --to zk://zoo:2181/other
      quire log copy orders --to quire-data --as orders-2026 --recover
    """
    options = LogOptions(replication=replication, password=password, keyring=keyring)
    order = CopyOrder(name, copy_ or name, options, recover)
    source, other = settings.store_uri(), _at(settings, target)
    if resolve_store(source) == resolve_store(target) and order.copy == name:
        raise ConfigurationError(
            f"log {name!r} cannot be copied onto itself: name another store with --to, or another "
            "name with --as"
        )
    run(lambda: _copy(settings, other, order))


def _at(settings: Settings, store: str) -> Settings:
    """Return the settings for the other cluster; Apache's bookies have TLS options in the URI."""
    is_apache = split_uri(resolve_store(store))[1] is not None
    return replace(settings, store=store, tls=None if is_apache else settings.tls)


async def _copy(settings: Settings, other: Settings, order: CopyOrder) -> None:
    async with settings.connect() as source, other.connect() as target:
        total = (await source.log_info(order.name)).records
        with progress(f"Copying {order.name}", total) as advance:
            copied = await copy_log(source, target, order, advance)
    records = copied.found + copied.appended
    if settings.json:
        print_json(
            {
                "log": order.name,
                "copy": order.copy,
                "records": records,
                "appended": copied.appended,
                "source_open": copied.is_open,
            }
        )
    else:
        note(
            f"Log {order.copy} at {other.store} has the {records} records of {order.name}; "
            f"{copied.appended} were copied now."
        )
    if copied.is_open:
        streams.complain(
            f"quire: log {order.name!r} is open: later records may exist; copy it again when its "
            "writer is done, or with --recover, which deposes a leader that still lives"
        )


async def copy_log(
    source: Client, target: Client, order: CopyOrder, advance: Callable[[int], None]
) -> CopyResult:
    """Copy the records that the target lacks.

    Args:
        source: the client of the log.
        target: the client of the copy.
        order: the log and its copy.
        advance: called with numbers of records that were compared or copied.

    Raises:
        NoSuchLogError: there is no such log.
        ConfigurationError: the target has a log of that name with other records.
        LevelNeededError: the target's feature level has no keys, headers or event times.

    Cancellation: the copy has the records up to some point, and another call continues it.

    Guarantees: the target's writer is fenced only after all records that it announced were found
        equal to those of the source.
    """
    info = await source.log_info(order.name)
    with contextlib.suppress(LogExistsError):
        await target.create_log(order.copy, info.options)
    reading = source.read_log(
        order.name,
        info.first_position,
        password=order.options.password,
        keyring=order.options.keyring,
        recover=order.recover,
    )
    async with reading as reader:
        found = await _compare(reader, target, order, 0, advance)
        async with await target.open_log(order.copy, order.options) as log:
            # Opening a copy that was interrupted shows its last records.
            found += await _compare(reader, target, order, found, advance)
            appended = await _append(reader, log, advance)
        return CopyResult(found, appended, reader.ended_open)


async def _compare(
    reader: LogReader, target: Client, order: CopyOrder, first: int, advance: Callable[[int], None]
) -> int:
    """Pass the source's records that the copy has from an offset on; their number."""
    count = 0
    reading = target.read_log(
        order.copy, first, password=order.options.password, keyring=order.options.keyring
    )
    async with reading as kept:
        async for record in kept:
            original = await anext(reader, None)
            if original is None or _content(original) != _content(record):
                raise ConfigurationError(
                    f"log {order.copy!r} at the target does not copy {order.name!r} as it is now: "
                    f"their records differ at {record.position} of the target. Choose another "
                    "name with --as, or delete that log"
                )
            count += 1
            advance(1)
    return count


def _content(record: Record) -> tuple[Appendable, int | None]:
    return copy_of(record), record.txid


async def _append(reader: LogReader, log: Log, advance: Callable[[int], None]) -> int:
    under_way: deque[asyncio.Future[Appended]] = deque()
    count = 0
    async for record in reader:
        under_way.append(await log.submit(copy_of(record), txid=record.txid))
        count += 1
        if len(under_way) >= UNDER_WAY_MAX:
            await under_way.popleft()
            advance(1)
    while under_way:
        await under_way.popleft()
        advance(1)
    return count
