"""`quire spark`: jobs over whole logs, run by Spark."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from quire.cli.ending import JavaWork
from quire.cli.output import Value, note, print_json, print_table, progress_of
from quire.cli.replication import key_path_option, password_option
from quire.cli.settings import Settings, with_settings
from quire.errors import ConfigurationError, CorruptRecordError, RetryError
from quire.extras import needed_for
from quire.metastore.layout import log_path
from quire.metastore.place import resolve_store

if TYPE_CHECKING:
    from quire.spark.jobs import LogAudit


@click.group(short_help="Jobs over whole logs, run by Spark.")
def spark() -> None:
    """Jobs over whole logs. Needs PySpark and Java: pip install 'quire[spark]'."""


master_option = click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Where Spark runs. Under spark-submit, --master '' keeps its own settings.",
)


@spark.command(short_help="Read every entry of logs and check it.")
@click.argument("logs", nargs=-1, required=True)
@master_option
@password_option
@key_path_option
@with_settings
def audit(
    settings: Settings, logs: tuple[str, ...], master: str, password: bytes, key_file: str | None
) -> None:
    """Read every entry of logs and check it.

    LOGS are names or patterns. Digests, order, offsets, times, the manifest's counts and the
    ledgers' ends are compared. The exit code is 9 for a defect, and 4 without a defect if entries
    could not be read now.

    \b
    Example:
      quire spark audit 'orders-*'
    """
    options = _jobs("options").ReadOptions(
        resolve_store(settings.store_uri()), logs, password=password, key_file=key_file
    )
    with _session("quire audit", master) as session, progress_of("Auditing") as on_progress:
        found = _jobs("jobs").audit_logs(session, options, on_progress)
    _print_audit(settings, found)
    for each in found:
        if each.all_problems:
            raise CorruptRecordError(log_path(each.log), each.all_problems[0])
    for each in found:
        if each.all_unread:
            raise RetryError(f"log {each.log!r} was not audited completely: {each.all_unread[0]}")


def _print_audit(settings: Settings, found: list[LogAudit]) -> None:
    if settings.json:
        for log in found:
            segments: list[Value] = [
                {
                    "segment": each.number,
                    "ledger": each.ledger,
                    "sealed": each.sealed,
                    "entries": each.entries,
                    "records": each.records,
                    "bytes": each.bytes,
                    "crc32": [f"{checksum:08x}" for checksum in each.checksums],
                    "problems": list(each.problems),
                    "unread": list(each.unread),
                }
                for each in log.segments
            ]
            print_json({"log": log.log, "segments": segments, "problems": list(log.problems)})
        return
    rows = [
        (log.log, each.number, each.ledger, each.sealed, each.entries, each.records, each.bytes)
        for log in found
        for each in log.segments
    ]
    columns = ("log", "segment", "ledger", "sealed", "entries", "records", "bytes")
    print_table(columns, rows, empty="no segments")
    for log in found:
        for problem in (*log.all_problems, *log.all_unread):
            note(f"{log.log}: {problem}")


@spark.command(short_help="Append a log's records to another log.")
@click.argument("log")
@click.option("--to", "target", required=True, help="Log that takes the records.")
@click.option("--to-store", metavar="URI", help="Its cluster; the same one if not given.")
@click.option("--job", help="Name under which the target remembers the offset reached.")
@click.option(
    "--skip-trimmed", is_flag=True, help="Continue after records that were trimmed meanwhile."
)
@master_option
@password_option
@key_path_option
@with_settings
def replay(
    settings: Settings,
    log: str,
    target: str,
    to_store: str | None,
    job: str | None,
    skip_trimmed: bool,
    master: str,
    password: bytes,
    key_file: str | None,
) -> None:
    """Append a log's records to another log, from the offset that the last replay reached.

    All or nothing; a leader that is writing the target is deposed.

    \b
    Example:
      quire spark replay orders --to orders --to-store zk://backup:2181/quire
    """
    source, goal = _places(settings, log, target, to_store, (password, key_file))
    with _session("quire replay", master) as session:
        copied = _jobs("jobs").replay_log(session, source, goal, job, skip_trimmed=skip_trimmed)
    _print_copied(settings, copied, target, "the source's")


@spark.command(short_help="Append the last record of every key to another log.")
@click.argument("log")
@click.option("--to", "target", required=True, help="Log that takes the records.")
@click.option("--key", required=True, help="SQL expression over the columns of the log.")
@click.option("--to-store", metavar="URI", help="Its cluster; the same one if not given.")
@click.option("--job", help="Name under which the target remembers that it was done.")
@master_option
@password_option
@key_path_option
@with_settings
def compact(
    settings: Settings,
    log: str,
    target: str,
    key: str,
    to_store: str | None,
    job: str | None,
    master: str,
    password: bytes,
    key_file: str | None,
) -> None:
    """Append the last record of every key of a log to another log.

    \b
    Example:
      quire spark compact prices --to prices-now \\
        --key "get_json_object(cast(payload as string), '$.id')"
    """
    source, goal = _places(settings, log, target, to_store, (password, key_file))
    with _session("quire compact", master) as session:
        copied = _jobs("jobs").compact_log(session, source, goal, key, job)
    _print_copied(settings, copied, target, "the last record of every key from")


@spark.command(short_help="Move a log's closed segments into Parquet files.")
@click.argument("log")
@click.option(
    "--to", "target", required=True, metavar="URI", help="Directory: file:///…, s3://…, gs://…"
)
@click.option("--keep-ledgers", is_flag=True, help="Keep the copies on the bookies for now.")
@master_option
@password_option
@with_settings
def offload(
    settings: Settings, log: str, target: str, keep_ledgers: bool, master: str, password: bytes
) -> None:
    """Move a log's closed segments into Parquet files, where readers find them.

    Every reader of the log must reach the files, and needs `pip install 'quire[cold]'`. The job can
    be killed and repeated at any time: all records stay readable.

    \b
    Example:
      quire spark offload orders --to s3://cold/quire
    """
    place = _jobs("jobs.copy").Place(resolve_store(settings.store_uri()), log, _text(password))
    with _session("quire offload", master) as session, progress_of("Offloading") as on_progress:
        moved = _jobs("jobs").offload_log(
            session, place, target, keep_ledgers=keep_ledgers, on_progress=on_progress
        )
    if settings.json:
        print_json(
            {
                "log": log,
                "tier": moved.tier,
                "segments": moved.segments,
                "records": moved.records,
                "bytes": moved.bytes,
                "swept": list(moved.swept),
            }
        )
    else:
        click.echo(
            f"{log}: {moved.segments} segments with {moved.records} records moved to {moved.tier}"
        )


def _places(
    settings: Settings,
    log: str,
    target: str,
    to_store: str | None,
    secrets: tuple[bytes, str | None],
) -> tuple[Any, Any]:
    place = _jobs("jobs.copy").Place
    store, given = resolve_store(settings.store_uri()), (_text(secrets[0]), secrets[1] or "")
    goal = resolve_store(to_store) if to_store else store
    return place(store, log, *given), place(goal, target, *given)


def _text(password: bytes) -> str:
    """A password as Spark's options can carry it."""
    try:
        return password.decode()
    except UnicodeDecodeError:
        raise ConfigurationError("the password is not UTF-8: Spark's options are text") from None


def _print_copied(settings: Settings, copied: Any, target: str, what: str) -> None:
    if settings.json:
        print_json({"target": target, "first": copied.first, "end": copied.end})
    elif copied.first == copied.end:
        click.echo(f"{target}: nothing is new in the source since offset {copied.end}")
    else:
        click.echo(f"{target}: has {what} offsets {copied.first} to {copied.end - 1}")


def _jobs(module: str) -> Any:
    """Import a module of quire.spark. Raises `MissingExtraError` where PySpark is missing."""
    with needed_for("quire spark (and Java 17 or newer)", "spark"):
        return importlib.import_module(f"quire.spark.{module}")


@contextlib.contextmanager
def _session(name: str, master: str) -> Iterator[Any]:
    with _jobs("errors").plain_errors():
        sessions = _jobs("jobs.session")
        with JavaWork(sessions.find_java, sessions.silence_java).handling() as java:
            with java.starting():
                sessions.start_java()
            session = sessions.local_session(name, master or None)
            try:
                yield session
            finally:
                if not java.has_come:
                    session.stop()
