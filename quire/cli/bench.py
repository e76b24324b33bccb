"""`quire bench`: throughput and latency on this machine, beside the machine's limits."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from quire.bench import Figures, LogReport, Report, TlsFigures, measure, measure_logs
from quire.bench.suite import STEPS
from quire.cli.collecting import collecting_rarely
from quire.cli.durations import Duration
from quire.cli.output import Value, note, print_fields, print_json, print_table, progress
from quire.cli.settings import Settings, run, with_settings


@click.command(short_help="Measure throughput and latency on this machine.")
@click.argument("what", type=click.Choice(["appends", "log"]), default="appends")
@click.option(
    "--seconds",
    type=Duration(least=0.1),
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="Duration of each workload.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    show_default=True,
    help="Where to put the bookies' temporary directories: the disk that is measured.",
)
@click.option("--tls", is_flag=True, help="Measure every workload with mutual TLS too, in turns.")
@with_settings
def bench(settings: Settings, what: str, seconds: float, data: Path, tls: bool) -> None:
    """Measure appends to three bookies of this machine, reading them, and the machine itself.

    One client and three bookie processes; every entry of 1 KiB is sent to all three and counts when
    two have synced it to disk. Everything shares this machine's cores and disk. The raw limits are
    measured in the same run, so the shares mean something wherever it runs.

    `log` measures the log layer instead: records through one leader, rolls, followers, catching up,
    a planned handoff and a takeover after a crash.

    \b
    Example:
      quire bench --seconds 10s --json
      quire bench --tls
      quire bench log
    """
    data.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="quire-bench-", dir=data))
    try:
        with collecting_rarely():
            _measure(settings, what, seconds, directory, tls)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _measure(settings: Settings, what: str, seconds: float, directory: Path, tls: bool) -> None:
    if what == "log":
        _print_log(settings, run(lambda: measure_logs(directory, seconds)))
        return
    with progress("Measuring", STEPS) as advance:
        report = run(lambda: measure(directory, seconds, lambda _: advance(1), tls=tls))
    _print(settings, report)


def _print_log(settings: Settings, report: LogReport) -> None:
    figures = (*report.appends, report.alone, report.rolling, report.follower)
    others: dict[str, Value] = {
        "catch_up_mb_s": round(report.catch_up_mb_s, 1),
        "handoff_ms": round(report.handoff_ms, 1),
        "take_over_ms": round(report.take_over_ms, 1),
        "crash_ms": round(report.crash_ms, 1),
        "metadata_operations_per_append": round(report.operations_per_append, 2),
        "metadata_operations_per_roll": round(report.operations_per_roll, 2),
    }
    if settings.json:
        print_json({"figures": [_fields(each) for each in figures], **others})
        return
    columns = ("records of a log", "per second", "MB/s", "p50 ms", "p99 ms", "client CPU µs")
    print_table(columns, [_row(each) for each in figures], empty="")
    click.echo()
    print_fields(others)


def _print(settings: Settings, report: Report) -> None:
    if settings.json:
        print_json(
            {
                "uvloop": report.uvloop,
                "limits": [_fields(each) for each in report.limits.all()],
                "appends": [
                    {**_fields(each), "share": round(report.share(each)[0], 4)}
                    for each in report.appends
                ],
                "reads": [_fields(each) for each in report.reads],
                "tls": report.tls and _tls_fields(report, report.tls),
            }
        )
        return
    columns = ("", "per second", "MB/s", "p50 ms", "p99 ms", "client CPU µs")
    print_table(("raw limit", *columns[1:]), [_row(each) for each in report.limits.all()], empty="")
    click.echo()
    rows = [(*_row(each), _share(report, each)) for each in report.appends]
    print_table(("appends of 1 KiB, 2 of 3", *columns[1:], "share of raw limit"), rows, empty="")
    click.echo()
    columns = ("entries of 1 KiB read back", *columns[1:3], "p50 to first", "p99", columns[5])
    print_table(columns, [_row(each) for each in report.reads], empty="")
    if report.tls is not None:
        _print_tls(report, report.tls)
    if any(report.share(each)[0] > 1 for each in report.appends):
        note("The machine was busy when its limits were measured: repeat it when it is quiet.")


def _pairs(report: Report, tls: TlsFigures) -> list[tuple[Figures, Figures]]:
    """Return the figures without TLS and with it, in order."""
    plain = (*report.appends, *report.reads)
    return list(zip(plain, (*tls.appends, *tls.reads), strict=True))


def _tls_fields(report: Report, tls: TlsFigures) -> list[dict[str, Value]]:
    return [
        {**_fields(secured), "share_of_plain": round(secured.per_second / plain.per_second, 4)}
        for plain, secured in _pairs(report, tls)
    ]


def _print_tls(report: Report, tls: TlsFigures) -> None:
    rows = [
        (*_row(secured), f"{secured.per_second / plain.per_second:.0%}")
        for plain, secured in _pairs(report, tls)
    ]
    columns = ("per second", "MB/s", "p50 ms", "p99 ms", "client CPU µs", "of plain")
    click.echo()
    print_table(("with mutual TLS", *columns), rows, empty="")


def _row(figures: Figures) -> tuple[object, ...]:
    return (
        figures.name,
        round(figures.per_second),
        round(figures.megabytes_per_second, 1),
        round(figures.p50_ms, 3),
        round(figures.p99_ms, 3),
        round(figures.cpu_us, 1),
    )


def _share(report: Report, figures: Figures) -> str:
    share, limit = report.share(figures)
    return f"{share:.0%} of {limit}"


def _fields(figures: Figures) -> dict[str, Value]:
    return {
        "name": figures.name,
        "per_second": round(figures.per_second, 1),
        "megabytes_per_second": round(figures.megabytes_per_second, 3),
        "p50_ms": round(figures.p50_ms, 4),
        "p99_ms": round(figures.p99_ms, 4),
        "cpu_us": round(figures.cpu_us, 2),
        "seconds": round(figures.seconds, 3),
    }
