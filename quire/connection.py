"""`connect`: where the parts of a client are put together.

This is the composition root of the client side: the one place that chooses implementations (the
metadata store by its URI, links to bookies by their addresses, real randomness, the wall clock) and
hands them to the layers below. No layer creates another layer's objects.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from quire.bookkeeper.cluster import ApacheCluster
from quire.bookkeeper.uri import split_uri
from quire.checked import given_or_default
from quire.client import Client
from quire.errors import ConfigurationError
from quire.event_log import observing
from quire.extras import needed_for
from quire.leaving import LEAVE_SECONDS, OpenHandles
from quire.ledger.catalog import LedgerCatalog
from quire.ledger.links import link_bookie
from quire.ledger.observed_store import observed
from quire.ledger.options import LedgerOptions
from quire.ledger.read_keys import ReadKeys
from quire.ledger.records import LedgerRecords
from quire.ledger.roster import BookieRoster
from quire.ledger.stored_records import StoredRecords
from quire.log.directory import LogDirectory
from quire.log.manifest.holder import Process
from quire.log.manifest.options import LogOptions
from quire.metastore import open_store
from quire.metastore.cluster import Level
from quire.metastore.members import registered
from quire.metastore.metered import metered
from quire.metastore.place import resolve_store
from quire.metrics.meter import SILENT_METER, ClientMeter
from quire.metrics.registry import CollectorRegistry
from quire.observer import SILENT, Observer
from quire.opening import Opening
from quire.service.snapshots import Snapshots
from quire.steady import machine_clock
from quire.tracing.provider import TracerProvider
from quire.version import SPEAKS
from quire.wire.certificates import Certificates, TlsOptions, local_tls
from quire.wire.tls import Contexts

CONNECT_SECONDS: Final = 5.0
"""Default seconds to wait for the metadata store."""


def connect(
    store: str,
    *,
    options: LedgerOptions | None = None,
    timeout: float = CONNECT_SECONDS,
    leave_timeout: float = LEAVE_SECONDS,
    metrics: CollectorRegistry | None = None,
    tls: TlsOptions | None = None,
    tracer_provider: TracerProvider | None = None,
    trace_records: bool = False,
) -> Opening[Client]:
    """Connect to a cluster: `async with quire.connect(store) as client:`.

    `client = await quire.connect(store)` works, too; `await client.close()` then takes the place of
    leaving the block.

    The client contacts bookies when it needs them. Leaving the block in order closes the open
    handles: services hand over, logs, ledgers and readers are closed, leaders resign. That takes at
    most `leave_timeout` seconds, and a few more to give up. Handles that are still open then,
    because bookies or the metadata store do not answer, are abandoned, and a warning names them. A
    warning also names a log that failed earlier, if no call has raised its error.

    Args:
        store: `sqlite:///path/metadata.db`, `zk://host:port,host:port/root`, or the directory of a
            local cluster. A SQLite file must exist: `quire cluster up` and `quire bookie format`
            create it, and for elections without a cluster `quire.metastore.create_store`. With
            `?ledgers=bookkeeper:/ledgers` ledgers are on the Apache BookKeeper cluster at that
            path, to be read only unless `&write=true` follows (docs/bookkeeper.md).
        options: limits of the ledgers that this client writes and reads; None for the defaults.
        timeout: seconds to wait for a connection to the metadata store.
        leave_timeout: seconds to close the open handles in, on leaving the block.
        metrics: a `prometheus_client.CollectorRegistry` that gets this client's figures
            (docs/metrics.md); None for no figures. Several clients may share a registry.
        tls: certificate, key and trusted authorities for connections to bookies. None for
            connections without TLS, unless `store` is the directory of a local cluster with TLS:
            it has the files of a client.
        tracer_provider: an OpenTelemetry `TracerProvider` that gets spans of openings, takeovers,
            recoveries and rolls (docs/metrics.md, "Spans"); None for no spans, whatever provider
            the process has.
        trace_records: let records carry the trace that they are appended in, and make spans of
            appends and of SQL consumers in sampled traces (docs/how-to/tracing.md).

    Returns:
        The connection that is about to be made: enter it by `async with`, or `await` it. Either
        gives the client.

    Raises:
        ConfigurationError: the store does not exist, or cannot exist; it has no BookKeeper cluster
            at the path, or `tls` is given for one; `trace_records` is given without
            `tracer_provider`. `CertificateError`: a file of `tls` cannot be
            used, with the remedy.
        MissingExtraError: `metrics` is given without `pip install 'quire[metrics]'`, or
            `tracer_provider` without `pip install 'quire[tracing]'`.
        StoreUnavailableError: the store did not answer within `timeout` seconds, with the reason.
        OutcomeUnknownError: on leaving, records that were submitted could not be confirmed.
            `LeavingTimeoutError`: writers were abandoned at the deadline.
        RetryError: on leaving, a writer could not be closed. An error that a handle had raised
            before is not raised again.

    Cancellation: if an exception or a cancellation leaves the block, writers are abandoned as by a
        crash, and a warning names them.

    Guarantees: after leaving in order, every submitted record is confirmed, and every plain read
        sees it. After an abandoned writer, every acknowledged record is safe, and a plain read may
        miss the last ones until the log is opened again (docs/decisions/0023-leaving-connect.md).
    """
    limits = given_or_default(options, LedgerOptions)
    if trace_records and tracer_provider is None:
        raise ConfigurationError("trace_records has nowhere to send spans: give a tracer_provider")
    telling = partial(_telling, metrics, tracer_provider, trace_records)
    return Opening(_connected(store, limits, timeout, leave_timeout, telling, tls))


@contextlib.contextmanager
def _telling(
    registry: CollectorRegistry | None, provider: TracerProvider | None, records: bool
) -> Iterator[ClientMeter]:
    """Yield the meter of a client: silent unless the application gave something to be told."""
    if registry is None and provider is None:
        yield SILENT_METER
        return
    with contextlib.ExitStack() as stack:
        meter = ClientMeter()
        if registry is not None:
            with needed_for("connect(metrics=…)", "metrics"):
                from quire.metrics.client import shown_in
            meter = stack.enter_context(shown_in(registry))
        if provider is not None:
            with needed_for("connect(tracer_provider=…)", "tracing"):
                from quire.tracing.opentelemetry import spans_of
            meter.spans = spans_of(provider, records=records)
        yield meter


def open_contexts(tls: TlsOptions | None) -> Contexts | None:
    """Read the files of TLS; None without options. Raises `CertificateError`."""
    return None if tls is None else Contexts(Certificates(tls, clock=time.time))


def _observing(cluster: ApacheCluster | None) -> contextlib.AbstractContextManager[Observer]:
    """Return the observer of a client. Bookies of Apache's tell no events, and those of a client
    prove nothing alone.
    """
    if cluster is not None:
        return contextlib.nullcontext(SILENT)
    return observing("client", str(os.getpid()))


@contextlib.asynccontextmanager
async def _connected(
    store: str,
    limits: LedgerOptions,
    timeout: float,
    leave_timeout: float,
    telling: Callable[[], contextlib.AbstractContextManager[ClientMeter]],
    tls: TlsOptions | None,
) -> AsyncIterator[Client]:
    uri, apache = split_uri(resolve_store(store))
    cluster = None if apache is None else await ApacheCluster.open(apache)
    if cluster is not None and tls is not None:
        raise ConfigurationError(
            "tls is for quire's bookies: add bookie-tls=yes to the URI instead"
        )
    contexts = open_contexts(tls or local_tls(store))
    limits = replace(limits, labels=limits.labels.at_host(socket.gethostname()))
    rng, keys = random.Random(), ReadKeys(has_tls=contexts is not None)
    async with contextlib.AsyncExitStack() as stack:
        meter = stack.enter_context(telling())
        handles = OpenHandles(leave_timeout, meter)
        opened = metered(await open_store(uri, timeout=timeout), meter)
        stack.push_async_callback(handles.release, "the metadata store", opened.close)
        observer = stack.enter_context(_observing(cluster))
        records: LedgerRecords
        if cluster is None:
            metadata_store = observed(opened, observer)
            records = StoredRecords(metadata_store, rng)
            link = partial(
                link_bookie,
                request_timeout=limits.request_timeout,
                slow_seconds=limits.slow_request,
                tls=contexts,
                keys=keys,
            )
            roster, level = BookieRoster(metadata_store, link), Level(metadata_store)
        else:
            metadata_store = cluster.guarded(opened)
            records = await cluster.records(metadata_store)
            roster = cluster.roster(metadata_store, limits.request_timeout)
            # Programs before level 2 open no ledgers of Apache's bookies.
            level = Level(metadata_store, SPEAKS.highest)
        stack.push_async_callback(handles.release, "a connection to a bookie", roster.close)
        await roster.start()
        catalog = LedgerCatalog(
            *(records, roster),
            rng=rng,
            clock=time.time,
            options=limits,
            observer=observer,
            meter=meter,
            keys=keys,
        )
        logs = LogDirectory(
            metadata_store,
            catalog,
            rng=rng,
            clock=time.time,
            steady=machine_clock(rng),
            attachments=lambda name: [Snapshots(metadata_store, catalog, name, LogOptions())],
            meter=meter,
            level=level,
            process=Process(socket.gethostname(), os.getpid()),
        )
        if cluster is None or cluster.is_writable:
            where = f"{socket.gethostname()}, process {os.getpid()}"
            await stack.enter_async_context(
                registered(metadata_store, f"{rng.getrandbits(128):032x}", where)
            )
        stack.push_async_exit(handles.leave)
        yield Client(metadata_store, roster, catalog, logs, rng, limits, handles)
