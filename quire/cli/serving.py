"""`quire bookie serve`: one bookie as a process, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from quire.bookie import BookieAddress, TlsPorts
from quire.cli.auditing import OpenAuditor, auditor_options
from quire.cli.collecting import collecting_rarely
from quire.cli.logs import LogOutput, logging_options
from quire.cli.output import print_json
from quire.cli.pairs import Pairs, build
from quire.cli.settings import (
    Settings,
    exit_with_parent_option,
    run,
    until_orphaned,
    with_settings,
)
from quire.cli.supervisor import ServiceManager
from quire.cli.tls import tls_options
from quire.connection import open_contexts
from quire.errors import ConfigurationError
from quire.extras import needed_for
from quire.labels import Labels
from quire.ledger.links import link_bookie
from quire.metastore.place import resolve_store
from quire.tracing.spans import NO_SPANS, Spans
from quire.wire.certificates import TlsOptions
from quire.wire.tls import Contexts

if TYPE_CHECKING:
    from quire.storage.journal.options import StorageOptions
    from quire.storage.serving.limits import ServiceLimits

DESCRIPTORS_MAX: Final = 65_536


def storage_options() -> type[StorageOptions]:
    """Return the class of the storage's options. Its module is read when it is needed."""
    from quire.storage.journal.options import StorageOptions

    return StorageOptions


def service_limits() -> type[ServiceLimits]:
    """Return the class of a bookie's limits."""
    from quire.storage.serving.limits import ServiceLimits

    return ServiceLimits


directory_argument = click.argument(
    "directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIRECTORY"
)


@click.command(short_help="Serve a formatted directory until Ctrl-C.")
@directory_argument
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to serve on; port 0 takes a free one.",
)
@click.option(
    "--listen-runs",
    metavar="HOST:PORT",
    help="Address that takes entries as plain frames, cheaper than gRPC; 'none' turns it off. "
    "[default: a free port if --listen takes a free one, otherwise none]",
)
@click.option(
    "--listen-bookkeeper",
    metavar="HOST:PORT",
    help="Address for clients of Apache BookKeeper; needs a store with ledgers=bookkeeper:… "
    "[default: off]",
)
@click.option(
    "--advertise",
    metavar="HOST",
    help="Host that clients are told; needed if --listen is 0.0.0.0 or [::].",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Address of figures (/metrics) and probes (/livez, /readyz). [default: off]",
)
@click.option(
    "--labels",
    default="",
    envvar="QUIRE_LABELS",
    metavar="LEVEL=NAME,…",
    help="Where the bookie is, by region, zone, rack and host. [default: the host is this machine]",
)
@click.option(
    "--storage",
    type=Pairs(storage_options),
    multiple=True,
    metavar="NAME=VALUE",
    help="A size or time of the storage, such as write-cache-bytes=64MiB; given several times.",
)
@click.option(
    "--limits",
    type=Pairs(service_limits),
    multiple=True,
    metavar="NAME=VALUE",
    help="How much work may be under way at once, such as reads=512; given several times.",
)
@click.option(
    "--insecure-network",
    is_flag=True,
    help="Accept that other machines reach --listen or --listen-runs, which have no TLS.",
)
@tls_options
@click.option(
    "--listen-tls",
    metavar="HOST:PORT",
    help="With --tls optional: where gRPC has TLS. [default: a free port of the host of --listen]",
)
@click.option(
    "--listen-tls-runs",
    metavar="HOST:PORT",
    help="With --tls optional: where plain frames have TLS; 'none' turns it off. [default: as "
    "--listen-runs]",
)
@click.option(
    "--tracing",
    is_flag=True,
    help="Send OpenTelemetry spans of moves to the provider of this process, as "
    "opentelemetry-instrument sets it up.",
)
@auditor_options
@logging_options
@exit_with_parent_option
@with_settings
def serve(
    settings: Settings,
    directory: Path,
    listen: str,
    listen_runs: str | None,
    listen_bookkeeper: str | None,
    advertise: str | None,
    metrics: str | None,
    labels: str,
    storage: tuple[tuple[str, float], ...],
    limits: tuple[tuple[str, float], ...],
    insecure_network: bool,
    tls: TlsOptions | None,
    listen_tls: str | None,
    listen_tls_runs: str | None,
    tracing: bool,
    auditor: OpenAuditor | None,
    logging: LogOutput,
    exit_with_parent: bool,
) -> None:
    """Serve a formatted directory until Ctrl-C.

    Copies of an entry are spread over different racks, zones and regions as far as labels tell them
    apart. Name the host where bookies of one machine see different names, as in containers.

    A port without TLS gives every machine that reaches it the entries of all ledgers. So an address
    other than 127.0.0.1, [::1] and localhost needs certificates, or --insecure-network. With
    --tls-cert, --tls-key and --tls-ca the ports take TLS connections only; with --tls optional
    they take none, and a second pair of ports has TLS (docs/security.md).

    One bookie of a cluster is elected to audit: it finds lost bookies and missing copies, and asks
    other bookies for copies (docs/operations.md, Healing).

    \b
    Examples:
      quire bookie serve /var/lib/quire --listen 10.0.0.7:4181 \\
          --tls-cert bookie.pem --tls-key bookie-key.pem --tls-ca ca.pem
      quire bookie serve /var/lib/quire --listen 0.0.0.0:4181 \\
          --advertise bookie7 --insecure-network
      quire bookie serve /var/lib/quire --metrics 127.0.0.1:9181
      quire bookie serve /var/lib/quire --labels region=eu,zone=a,rack=r7
    """
    logging.begin()
    allow_descriptors()
    runs = runs_address(listen, listen_runs)
    place = Labels.parse(labels)
    options = build(storage_options(), storage)
    bounds = build(service_limits(), limits)
    more = ports_beside(tls, listen, runs, listen_tls, listen_tls_runs)
    where = (directory, listen, runs, insecure_network, advertise, metrics, place)
    rest = (options, bounds, auditor, open_contexts(tls), more, logging, _spans(tracing))
    work = partial(_serve, settings, *where, *rest, listen_bookkeeper)
    with collecting_rarely():
        run(lambda: until_orphaned(work()) if exit_with_parent else work())


def _spans(tracing: bool) -> Spans:
    if not tracing:
        return NO_SPANS
    with needed_for("--tracing", "tracing"):
        from quire.tracing.opentelemetry import spans_of_process
    return spans_of_process()


def allow_descriptors() -> None:
    """Raise the limit of open files and connections to the allowed maximum: 1,024 are soon used."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def runs_address(listen: str, listen_runs: str | None) -> str | None:
    """Return the address for runs; by default a free port if `listen` takes one, else None."""
    if listen_runs is None:
        return listen if listen.endswith(":0") else None
    return None if listen_runs == "none" else listen_runs


def ports_beside(
    tls: TlsOptions | None, listen: str, runs: str | None, at: str | None, runs_at: str | None
) -> TlsPorts | None:
    """Return the ports that take TLS connections beside others that do not; None for none.

    Raises `ConfigurationError` for ports that nothing uses.
    """
    if tls is None or tls.is_required:
        if at is not None or runs_at is not None:
            raise ConfigurationError(
                "--listen-tls and --listen-tls-runs are for --tls optional: otherwise --listen and "
                "--listen-runs have TLS"
            )
        return None
    free = f"{listen.rpartition(':')[0]}:0"
    if runs_at == "none" or (runs_at is None and runs is None):
        return TlsPorts(at or free)
    return TlsPorts(at or free, runs_at or free)


async def _serve(
    settings: Settings,
    directory: Path,
    listen: str,
    listen_runs: str | None,
    insecure_network: bool,
    advertise: str | None,
    metrics: str | None,
    labels: Labels,
    options: StorageOptions,
    limits: ServiceLimits,
    auditor: OpenAuditor | None,
    tls: Contexts | None,
    beside: TlsPorts | None,
    logging: LogOutput,
    spans: Spans,
    listen_bookkeeper: str | None,
) -> None:
    from quire.cli.apache import bookkeeper_place, is_apache
    from quire.rights.guard import guarding
    from quire.storage.server import serve as serve_bookie
    from quire.storage.serving.vitals import Stage, Vitals

    manager = ServiceManager()

    def tell(stage: Stage, remark: str) -> None:
        status = f"{stage}: {remark}" if remark else str(stage)
        ending = {"STOPPING": "1"} if stage is Stage.ENDING else {}
        manager.tell(STATUS=status, **ending)

    def announce(ready: BookieAddress) -> None:
        logging.note(bookie=ready.bookie)
        manager.tell(READY="1", STATUS=f"serves at {ready.address}")
        if settings.json:
            where = {"address": ready.address, "runs": ready.runs, "protocol": ready.protocol}
            print_json({"bookie": ready.bookie, **where, "pid": os.getpid()})
        else:
            click.echo(f"bookie {ready.bookie} serves {directory} at {ready.address}")
        sys.stdout.flush()

    uri = resolve_store(settings.store_uri())
    if listen_bookkeeper is not None or is_apache(uri):
        secured = (insecure_network, tls)
        uri, system = bookkeeper_place(uri, listen_bookkeeper, advertise, *secured)
        around: dict[str, Any] = {"system": system}
    else:
        around = _around(auditor, tls)
    async with manager.pulse():
        await serve_bookie(
            *(directory, uri, listen),
            listen_runs=listen_runs,
            insecure_network=insecure_network,
            advertise=advertise,
            on_ready=announce,
            tls=tls,
            beside=beside,
            doorkeeper=guarding,
            metrics=metrics,
            labels=labels,
            options=options,
            limits=limits,
            vitals=Vitals(tell),
            spans=spans,
            **around,
        )


def _around(auditor: OpenAuditor | None, tls: Contexts | None) -> dict[str, Any]:
    """Return the duties of a bookie in a cluster of quire's towards other bookies."""
    from quire.healing.figures import read_figures
    from quire.repair.copies import open_copies
    from quire.repair.orders import stored_orders
    from quire.repair.superfluous import superfluous_copies

    link = partial(link_bookie, tls=tls)
    return {
        "copies": partial(open_copies, connect=link),
        "orders": stored_orders,
        "superfluous": partial(superfluous_copies, connect=link),
        "auditor": auditor and partial(auditor, connect=link),
        "healing": partial(read_figures, clock=time.time),
    }
