"""A bookie as a process: where directory, metadata store and network are put together.

Nothing is served before the directory's identity was compared with the metadata store, and
clients find the bookie only once it answers. At the end it is the other way round: the
registration goes first, then calls under way are finished, then the journal.

When its disk fails a bookie must not go on, not even for the sake of a tidy end: its answers could
be wrong then (docs/protocol.md, "Bookie"). `on_fatal` therefore ends the process on the spot.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from quire.aio.backoff import Backoff
from quire.aio.timing import time_limit
from quire.bookie import Bookie, BookieAddress, TlsPorts
from quire.entry import BookieId
from quire.errors import CertificateError, CorruptStorageError, QuireError, StoreUnavailableError
from quire.event_log import observing
from quire.extras import needed_for
from quire.labels import NOWHERE, Labels
from quire.metastore import open_store
from quire.metastore.heartbeat import Place
from quire.metastore.store import MetadataStore
from quire.storage.disk.port import Disk
from quire.storage.identity.cookie import BookieCookie
from quire.storage.identity.directories import open_to_serve, places
from quire.storage.identity.identity import identify, settle_twin
from quire.storage.identity.registration import SESSION_SECONDS, Registration
from quire.storage.journal.options import StorageOptions
from quire.storage.ledger_system import LedgerSystem, OpenSystem, own_system
from quire.storage.maintenance.disowning import Superfluous
from quire.storage.maintenance.garbage import Collector
from quire.storage.maintenance.replicas_port import Copies, Orders
from quire.storage.maintenance.scrub import Scrubber
from quire.storage.maintenance.self_repair import Mender
from quire.storage.node import BookieNode
from quire.storage.serving.births import BornBookie, GivenIds
from quire.storage.serving.grpc_service import serve_bookie
from quire.storage.serving.limits import Doorkeeper, ServiceLimits
from quire.storage.serving.metered import Meter, MeteredBookie, MeteredDisk
from quire.storage.serving.obedient import ObedientBookie
from quire.storage.serving.presence import Presence
from quire.storage.serving.store_exposure import check_store
from quire.storage.serving.vitals import HealingFigures, Stage, Vitals
from quire.tracing.spans import NO_SPANS, Spans
from quire.wire.certificates import SOON_SECONDS, day
from quire.wire.exposure import exposed
from quire.wire.identity import server_name
from quire.wire.tls import Contexts
from quire.wire.transport import split_address

_log = logging.getLogger(__name__)

STORE_BACKOFF: Final = Backoff(first=0.5, last=15.0)
"""Pauses of a bookie that waits for its metadata store."""

OpenStoredCopies: TypeAlias = Callable[
    [MetadataStore, BookieId], AbstractAsyncContextManager[Copies]
]
OpenDoorkeeper: TypeAlias = Callable[
    [MetadataStore, BookieId], AbstractAsyncContextManager[Doorkeeper]
]

EXIT_FATAL: Final = 74
"""Exit code of a bookie after a storage failure (EX_IOERR). Starting it again is safe."""


def end_process(error: BaseException) -> NoReturn:
    """End this process at once, without finishing anything. A traceback tells of defects only."""
    is_defect = not isinstance(error, OSError | QuireError)
    _log.critical(
        "storage failed, the bookie ends: %s; see to its disk and start it again",
        error,
        exc_info=error if is_defect else None,
    )
    os._exit(EXIT_FATAL)


def _shown(vitals: Vitals, meter: Meter, listen: str) -> AbstractAsyncContextManager[str]:
    with needed_for("--metrics", "server"):  # a tenth of a second that few bookies need
        from quire.storage.serving.metrics import serve_metrics
    return serve_metrics(vitals, meter, *split_address(listen))


@asynccontextmanager
async def _figures(
    vitals: Vitals, meter: Meter, listen: str, directory: Path
) -> AsyncIterator[None]:
    """Show a bookie's figures in the block."""
    async with _shown(vitals, meter, listen) as shown:
        _log.info("figures of the bookie in %s are at http://%s/metrics", directory, shown)
        yield


async def wait_for_store(
    opening: Callable[[], Awaitable[MetadataStore]], disk: Disk, vitals: Vitals, rng: random.Random
) -> tuple[MetadataStore, BookieCookie]:
    """Open the metadata store of the bookie's cluster, however long it is out of reach.

    A supervisor that restarts a bookie gives up after some attempts; an outage of the store may
    last longer. The caller closes the store.

    Raises:
        ConfigurationError: the store cannot be used.
        WrongBookieError: the directory belongs to another cluster.
    """
    pauses = STORE_BACKOFF.pauses(rng)
    while True:
        try:
            store = await opening()
            try:
                cookie = await identify(disk, store)
                await settle_twin(cookie, store)
                return store, cookie
            except BaseException:
                await store.close()
                raise
        except StoreUnavailableError as error:
            _log.warning("the bookie waits for its metadata store: %s", error)
            vitals.reach(Stage.WAITING, str(error))
        await asyncio.sleep(pauses.next())


@contextmanager
def _naming_the_remedy(directory: Path) -> Iterator[None]:
    try:
        yield
    except CorruptStorageError as error:
        remedy = f"`quire bookie repair {directory}` accepts the loss and copies from others"
        raise CorruptStorageError(error.path, f"{error.reason}; {remedy}") from error


async def close_in_time(
    disk: Disk, seconds: float, on_fatal: Callable[[BaseException], None]
) -> None:
    """Close a disk. What hangs in it cannot be ended: after some seconds the process must."""
    try:
        async with time_limit(seconds):
            await disk.close()
    except TimeoutError:
        on_fatal(TimeoutError(f"the disk did not answer for {seconds:g} s: ended as by a crash"))


def _upkeep(
    node: BookieNode,
    store: MetadataStore,
    cookie: BookieCookie,
    copies: OpenStoredCopies | None,
    orders: Callable[[MetadataStore, BookieId], Orders] | None,
    superfluous: Callable[[MetadataStore, BookieId, str], Superfluous] | None,
    spans: Spans,
    system: LedgerSystem,
) -> list[Collector | Scrubber | Mender]:
    """Return the tasks that keep a bookie's disk in order, to be started and closed."""
    bookie, cluster = cookie.bookie, cookie.cluster
    others = None if copies is None else partial(copies, store, bookie)
    spare = superfluous and superfluous(store, bookie, cluster)
    collector = node.collector(system.deletions, spare)
    tasks: list[Collector | Scrubber | Mender] = [collector, node.scrubber(others)]
    if others is not None:
        tasks.append(node.mender(others, orders and orders(store, bookie), spans))
    return tasks


def _start(tasks: Sequence[Collector | Scrubber | Mender], stack: AsyncExitStack) -> None:
    """Start tasks, which the stack closes."""
    for task in tasks:
        stack.push_async_callback(task.close)
        task.start()


def _warn_of_exposure(ports: Sequence[str | None], accepted: bool) -> None:
    """Say which ports other machines reach without TLS. Raises as `exposed`."""
    for address in exposed("bookie", filter(None, ports), accepted=accepted):
        _log.warning(
            "%s has no TLS: each machine that reaches it can read entries and fence ledgers",
            address,
        )


async def _check_tls(
    tls: Contexts | None,
    beside: TlsPorts | None,
    bookie: BookieId,
    store: MetadataStore,
    vitals: Vitals,
    *,
    accepted: bool,
) -> None:
    """Raise `ConfigurationError` for a certificate of another bookie, and for a metadata store that
    every client may change, unless that is accepted or ports without TLS are still there. Have the
    vitals say when the certificate ends.
    """
    check_certificate(bookie, tls)
    if tls is not None:
        vitals.certificate_end = partial(_certificate_end, tls)
        await check_store(store, accepted=accepted or beside is not None)


def _tell_of_service(vitals: Vitals, registration: Registration, stack: AsyncExitStack) -> None:
    """Have the vitals say that the bookie serves, until the stack ends."""
    vitals.is_registered = lambda: registration.is_registered
    vitals.reach(Stage.SERVING)
    stack.callback(vitals.reach, Stage.ENDING)


def _certificate_end(tls: Contexts) -> float:
    """Return when the certificate ends that the files have now."""
    return tls.certificates.credentials.validity.end


def check_certificate(bookie: BookieId, tls: Contexts | None) -> None:
    """Raise `CertificateError` if a bookie's certificate is of another one: no client would
    believe it. Warn if the certificate ends soon.
    """
    if tls is None:
        return
    certificates = tls.certificates
    held, path = certificates.credentials, str(certificates.options.certificate)
    if server_name(bookie) not in held.names:
        found = ", ".join(held.names) or held.identity.name
        raise CertificateError(
            path,
            f"is of {found}: the certificate of bookie {bookie} needs the DNS name "
            f"{server_name(bookie)} (`quire certificates issue bookie {bookie}` makes one)",
        )
    if held.validity.end - certificates.clock() < SOON_SECONDS:
        _log.warning("%s ends at %s: renew it", path, day(held.validity.end))


def _guarded(node: BookieNode, given: GivenIds) -> BornBookie:
    """Return the bookie with the guard of ids."""
    return BornBookie(node, node.bookie, given, node.knows)


@asynccontextmanager
async def _doors(
    serving: Callable[..., AbstractAsyncContextManager[BookieAddress]],
    knowing: Callable[[], AbstractAsyncContextManager[Doorkeeper]] | None,
) -> AsyncIterator[BookieAddress]:
    """Serve a bookie in the block, with a doorkeeper that knows the rights of peers."""
    async with AsyncExitStack() as stack:
        keeper = None if knowing is None else await stack.enter_async_context(knowing())
        yield await stack.enter_async_context(serving(doorkeeper=keeper))


def _registration(
    ledgers: LedgerSystem,
    bookie: Bookie,
    served: BookieAddress,
    rng: random.Random,
    session_timeout: float,
    check_identity: Callable[[], Awaitable[object]],
    presence: Presence,
) -> Registration:
    """Return the registration of a bookie in the system of its ledgers. The store is compared with
    the disk before each: it may have been replaced by another cluster's while the bookie served.
    """
    return Registration(
        *(ledgers.store, bookie, ledgers.address(served), rng, session_timeout),
        check_identity=check_identity,
        place=presence.place,
        form=ledgers.form,
    )


async def _present(
    store: MetadataStore,
    bookie: ObedientBookie,
    look_at_places: Callable[[], Awaitable[Sequence[Place]]],
    rng: random.Random,
    stack: AsyncExitStack,
) -> Presence:
    """Return what obeys the bookie's operator, and tells of the bookie."""
    presence = Presence(store, bookie, look_at_places, clock=time.time, rng=rng)
    stack.push_async_callback(presence.close)
    await presence.look()
    return presence


async def _check_store(
    disk: Disk, store: MetadataStore, node: BookieNode, born: BornBookie
) -> None:
    """Raise unless the store belongs to this bookie's cluster, and is not older than it."""
    await identify(disk, store)
    await born.check_store(node.highest())


async def serve(
    directory: Path,
    store_uri: str,
    listen: str = "127.0.0.1:0",
    *,
    listen_runs: str | None = None,
    advertise: str | None = None,
    on_ready: Callable[[BookieAddress], None] | None = None,
    on_fatal: Callable[[BaseException], None] = end_process,
    options: StorageOptions | None = None,
    limits: ServiceLimits | None = None,
    session_timeout: float = SESSION_SECONDS,
    rng: random.Random | None = None,
    copies: OpenStoredCopies | None = None,
    orders: Callable[[MetadataStore, BookieId], Orders] | None = None,
    superfluous: Callable[[MetadataStore, BookieId, str], Superfluous] | None = None,
    auditor: Callable[[MetadataStore, BookieId], AbstractAsyncContextManager[object]] | None = None,
    doorkeeper: OpenDoorkeeper | None = None,
    metrics: str | None = None,
    healing: Callable[[MetadataStore], Awaitable[HealingFigures]] | None = None,
    labels: Labels = NOWHERE,
    vitals: Vitals | None = None,
    insecure_network: bool = False,
    tls: Contexts | None = None,
    beside: TlsPorts | None = None,
    spans: Spans = NO_SPANS,
    system: OpenSystem = own_system,
) -> None:
    """Serve a formatted directory on host:port until cancelled, then end in good order.

    `listen_runs` is another host:port, where runs are taken as plain frames: they cost their sender
    and the bookie a fraction of the cost of gRPC. Clients find it by the registration. They
    are told the host `advertise` instead of the host of `listen`; a wildcard as 0.0.0.0 needs it.
    `on_ready` is called once, when clients can find the bookie; `session_timeout` is how many
    seconds a dead bookie stays registered; `on_fatal` is called when the storage has failed and
    the process must end; `copies` reaches the other bookies, which replace its lost entries
    (without, they stay lost); `orders` says which copies it is asked to make; `superfluous` proves
    which of its copies are not needed (without, it keeps them); `auditor` is open while clients can
    find the bookie; `doorkeeper` knows the rights of peers; `metrics` is a host:port where
    Prometheus finds its figures and a supervisor its health; `healing` tells the cluster's figures
    beside them; `labels` say where it is, and the host
    is this machine unless they name one; `vitals` are told each step; `insecure_network` accepts an
    address that other machines reach (quire.wire.exposure); with `tls` the ports take TLS
    connections only, or the ports `beside` them do; `spans` are told of moves;
    `system` opens the metadata system of its ledgers. While the metadata
    store is away at the start, the bookie waits.

    Raises `DirectoryInUseError`, `SharedFilesError`, `ConfigurationError` when directory, store or
    address cannot be used, `WrongBookieError` when the directory belongs to another cluster or
    another process serves under its identity, `CorruptStorageError` for damage, and the metadata
    store's errors.
    """
    rng, vitals, meter = rng or random.SystemRandom(), vitals or Vitals(), Meter()
    _warn_of_exposure((listen, listen_runs) if tls is None or beside else (), insecure_network)
    async with AsyncExitStack() as stack:
        if metrics is not None:
            await stack.enter_async_context(_figures(vitals, meter, metrics, directory))
        with _naming_the_remedy(directory):
            disk = await open_to_serve(directory)  # first: a second process waits for nothing
            look_at_places = vitals.look_at_places = partial(places, disk)
            disk = disk if metrics is None else MeteredDisk(disk, meter)
            seconds = (options or StorageOptions()).close_seconds
            stack.push_async_callback(close_in_time, disk, seconds, on_fatal)
            store, cookie = await wait_for_store(partial(open_store, store_uri), disk, vitals, rng)
            stack.push_async_callback(store.close)
            vitals.look_at_healing = healing and partial(healing, store)
            await _check_tls(tls, beside, cookie.bookie, store, vitals, accepted=insecure_network)
            ledgers = await stack.enter_async_context(system(store, cookie))
            vitals.reach(Stage.RECOVERING)
            observer = stack.enter_context(observing("bookie", cookie.bookie))
            make = partial(BookieNode.open, rng=rng, on_fatal=on_fatal, options=options)
            node = await make(disk, cookie.bookie, cookie.cluster, observer=observer)
        stack.push_async_callback(node.close)
        born = _guarded(node, ledgers.given)
        stack.push_async_callback(born.close)
        obedient = ObedientBookie(born, cookie.bookie, node.knows)
        presence = await _present(store, obedient, look_at_places, rng, stack)
        bookie = vitals.bookie = obedient if metrics is None else MeteredBookie(obedient, meter)
        _start(_upkeep(node, store, cookie, copies, orders, superfluous, spans, ledgers), stack)
        serving = partial(serve_bookie, bookie, cookie.bookie, listen, listen_runs, tls=tls)
        serving = partial(serving, advertise=advertise, limits=limits, lets_read=node.lets_read)
        knowing = doorkeeper and partial(doorkeeper, store, cookie.bookie)
        serving = partial(serving, beside=beside, doors=ledgers.doors(node))
        serving = partial(serving, refusals=meter.refusals, news=meter.news)
        address = await stack.enter_async_context(_doors(serving, knowing))
        address = replace(address, labels=labels.at_host(socket.gethostname()))
        check = partial(_check_store, disk, store, node, born)
        where = (ledgers, obedient, address, rng, session_timeout)
        registration = _registration(*where, check, presence)
        await presence.start(address)
        if auditor is not None:
            await stack.enter_async_context(auditor(store, cookie.bookie))
        _tell_of_service(vitals, registration, stack)
        await registration.keep(on_ready)
