"""Blocking twins of `connect` and `Client`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from quire import connection as asynchronous
from quire.bookie import BookieAddress, BookieInfo
from quire.client import SESSION_SECONDS, Client
from quire.client_logs import always
from quire.connection import CONNECT_SECONDS
from quire.entry import BookieId, DigestKind, LedgerId
from quire.leaving import LEAVE_SECONDS
from quire.ledger.domains import Placement
from quire.ledger.info import LedgerInfo
from quire.ledger.inventory import Inventory
from quire.ledger.options import LedgerOptions
from quire.ledger.quorum import Replication
from quire.log.manifest.info import LogInfo
from quire.log.manifest.options import LogOptions
from quire.log.reading.bounds import EVERYTHING, Bounds
from quire.log.reading.gaps import OnGap
from quire.log.reading.search import LogEnd
from quire.log.reading.span import Slice, Span
from quire.log.records.keyring import Keyring
from quire.log.records.position import BEGINNING, LATEST, Position, Start
from quire.metadata.check import Finding
from quire.metadata.recordless import RecordlessLedgers
from quire.metrics.registry import CollectorRegistry
from quire.scan import Place, RecordBatchReader
from quire.service import Application, ServiceOptions
from quire.service.service import R
from quire.sync.cursors import SyncLogCursors
from quire.sync.directory import SyncLogDirectory
from quire.sync.elections import SyncElection, SyncLeadership
from quire.sync.leading import SyncLeadingLog
from quire.sync.ledgers import SyncLedgerReader, SyncLedgerWriter
from quire.sync.logs import SyncLog, SyncLogReader
from quire.sync.portal import Portal
from quire.sync.services import SyncService
from quire.sync.twins import twin_of
from quire.tracing.provider import TracerProvider
from quire.wire.certificates import TlsOptions


@contextmanager
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
) -> Iterator[SyncClient]:
    """Connect to a cluster: `with quire.sync.connect(store) as client:`.

    Leaving the block in order closes the open handles, as with `quire.connect`.

    Args:
        store: `sqlite:///path/metadata.db`, `zk://host:port,host:port/root`, or the directory of a
            local cluster.
        options: limits of the ledgers that this client writes and reads; None for the defaults.
        timeout: seconds to wait for a connection to the metadata store.
        leave_timeout: seconds to close the open handles in, on leaving the block.
        metrics: a `prometheus_client.CollectorRegistry` that gets this client's figures.
        tls: certificate, key and trusted authorities, as with `quire.connect`.
        tracer_provider: an OpenTelemetry `TracerProvider` that gets this client's spans.
        trace_records: let records carry their trace, as with `quire.connect`.

    Yields:
        The client. Any thread may use it.

    Raises:
        ForkedError: this process was forked while its parent used `quire.sync`.
        QuireError: as `quire.connect`.

    Cancellation: Ctrl-C in the block abandons the writers as a crash would, and a warning names
        them.

    Guarantees: as `quire.connect`.
    """
    portal = Portal.shared()
    held = asynchronous.connect(
        store,
        options=options,
        timeout=timeout,
        leave_timeout=leave_timeout,
        metrics=metrics,
        tls=tls,
        tracer_provider=tracer_provider,
        trace_records=trace_records,
    )
    with portal.hold(held) as client:
        yield SyncClient(portal, client)


@twin_of(Client, "_client")
class SyncClient:
    """Blocking twin of `Client`. Safe to use from several threads.

    Ctrl-C in a blocking call cancels its work and waits until the work has ended.
    """

    def __init__(self, portal: Portal, client: Client) -> None:
        self._portal = portal
        self._client = client
        self._logs = SyncLogDirectory(portal, client._logs)

    @property
    def store_uri(self) -> str:
        """The metadata store's URI."""
        return self._client.store_uri

    def create_ledger(
        self,
        replication: Replication | None = None,
        *,
        password: bytes = b"",
        digest: DigestKind = DigestKind.CRC32C,
        custom_metadata: Mapping[str, str] | None = None,
        deferred_sync: bool = False,
        full_quorum: bool = False,
        placement: Placement | None = None,
        read_needs_password: bool = False,
    ) -> SyncLedgerWriter:
        """See `Client.create_ledger`."""
        work = self._client.create_ledger(
            replication,
            password=password,
            digest=digest,
            custom_metadata=custom_metadata,
            deferred_sync=deferred_sync,
            full_quorum=full_quorum,
            placement=placement,
            read_needs_password=read_needs_password,
        )
        return SyncLedgerWriter(self._portal, self._portal.call(work))

    def open_ledger(self, ledger: LedgerId, *, password: bytes = b"") -> SyncLedgerReader:
        """See `Client.open_ledger`."""
        work = self._client.open_ledger(ledger, password=password)
        return SyncLedgerReader(self._portal, self._portal.call(work))

    def open_ledger_without_recovery(
        self, ledger: LedgerId, *, password: bytes = b""
    ) -> SyncLedgerReader:
        """See `Client.open_ledger_without_recovery`."""
        work = self._client.open_ledger_without_recovery(ledger, password=password)
        return SyncLedgerReader(self._portal, self._portal.call(work))

    def delete_ledger(
        self, ledger: LedgerId, *, password: bytes = b"", force: bool = False
    ) -> None:
        """See `Client.delete_ledger`."""
        self._portal.call(self._client.delete_ledger(ledger, password=password, force=force))

    def list_ledgers(self) -> list[LedgerId]:
        """See `Client.list_ledgers`."""
        return self._portal.call(self._client.list_ledgers())

    def ledger_info(self, ledger: LedgerId) -> LedgerInfo:
        """See `Client.ledger_info`."""
        return self._portal.call(self._client.ledger_info(ledger))

    def ledger_inventory(self, ledger: LedgerId) -> Inventory:
        """See `Client.ledger_inventory`."""
        return self._portal.call(self._client.ledger_inventory(ledger))

    def whole_ledgers(
        self, ledgers: Sequence[LedgerId], up: Collection[BookieId] | None = None
    ) -> set[LedgerId]:
        """See `Client.whole_ledgers`."""
        return self._portal.call(self._client.whole_ledgers(ledgers, up))

    def recordless_ledgers(self) -> RecordlessLedgers:
        """See `Client.recordless_ledgers`."""
        return self._portal.call(self._client.recordless_ledgers())

    def check_ledgers(self) -> Iterator[tuple[int, int, Finding | None]]:
        """See `Client.check_ledgers`."""
        return self._portal.iterate(self._client.check_ledgers, lambda _: 0)

    def open_log(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        is_leader: Callable[[], bool] = always,
    ) -> SyncLog:
        """See `Client.open_log`."""
        work = self._client.open_log(name, options, is_leader=is_leader)
        return SyncLog(self._portal, self._portal.call(work))

    def lead_log(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        election: str | None = None,
        candidate: str | None = None,
        session_timeout: float = SESSION_SECONDS,
    ) -> SyncLeadingLog:
        """See `Client.lead_log`. A thread is not interrupted when the leadership is lost.

        The log then ends: its next call raises, and `SyncLog.has_ended` tells it before.
        """
        leading = self._portal.call_plain(
            lambda: self._client.lead_log(
                name,
                options,
                election=election,
                candidate=candidate,
                session_timeout=session_timeout,
            )
        )
        return SyncLeadingLog(self._portal, leading)

    def read_log(
        self,
        name: str,
        start: Start = BEGINNING,
        *,
        follow: bool = False,
        wait_for_log: bool = False,
        password: bytes = b"",
        log_id: str | None = None,
        on_gap: OnGap | None = None,
        keyring: Keyring | None = None,
        recover: bool = False,
    ) -> SyncLogReader:
        """See `Client.read_log`."""
        opening = self._client.read_log(
            name,
            start,
            follow=follow,
            wait_for_log=wait_for_log,
            password=password,
            log_id=log_id,
            on_gap=on_gap,
            keyring=keyring,
            recover=recover,
        )
        work = opening.open()
        return SyncLogReader(self._portal, self._portal.call(work))

    def scan_log(
        self,
        name: str,
        start: Place = BEGINNING,
        end: Place = LATEST,
        *,
        columns: Sequence[str] | None = None,
        password: bytes = b"",
        keyring: Keyring | None = None,
    ) -> RecordBatchReader:
        """See `Client.scan_log`. Any thread may read."""
        work = self._client.scan_log(
            name, start, end, columns=columns, password=password, keyring=keyring
        )
        return self._portal.call(work)

    def snapshot_log(
        self, name: str, *, password: bytes = b"", bounds: Bounds = EVERYTHING
    ) -> list[Span]:
        """See `Client.snapshot_log`."""
        return self._portal.call(self._client.snapshot_log(name, password=password, bounds=bounds))

    def read_span(
        self, span: Span, *, password: bytes = b"", keyring: Keyring | None = None
    ) -> Iterator[Slice]:
        """See `Client.read_span`."""
        return self._portal.iterate(
            lambda: self._client.read_span(span, password=password, keyring=keyring),
            lambda item: len(item.batch.body),
        )

    def log_end(self, name: str, *, linearizable: bool = False, password: bytes = b"") -> LogEnd:
        """See `Client.log_end`."""
        work = self._client.log_end(name, linearizable=linearizable, password=password)
        return self._portal.call(work)

    def log_cursors(
        self, name: str, *, password: bytes = b"", leadership: SyncLeadership | None = None
    ) -> SyncLogCursors:
        """See `Client.log_cursors`."""
        led = None if leadership is None else leadership._leadership
        cursors = self._client.log_cursors(name, password=password, leadership=led)
        return SyncLogCursors(self._portal, cursors)

    def list_logs(self) -> list[str]:
        """See `Client.list_logs`."""
        return self._portal.call(self._client.list_logs())

    def create_log(self, name: str, options: Mapping[str, str] | None = None) -> LogInfo:
        """See `Client.create_log`."""
        return self._portal.call(self._client.create_log(name, options))

    def recover_log(self, name: str, *, password: bytes = b"") -> None:
        """See `Client.recover_log`."""
        self._portal.call(self._client.recover_log(name, password=password))

    def last_txid(self, name: str, *, password: bytes = b"") -> int:
        """See `Client.last_txid`."""
        return self._portal.call(self._client.last_txid(name, password=password))

    def log_info(self, name: str) -> LogInfo:
        """See `Client.log_info`."""
        return self._portal.call(self._client.log_info(name))

    def watch_logs(self) -> Iterator[Sequence[str]]:
        """See `Client.watch_logs`."""
        return self._portal.iterate(self._client.watch_logs, lambda _: 0)

    def watch_log(self, name: str) -> Iterator[LogInfo]:
        """See `Client.watch_log`."""
        return self._portal.iterate(lambda: self._client.watch_log(name), lambda _: 0)

    def configure_log(self, name: str, options: Mapping[str, str]) -> LogInfo:
        """See `Client.configure_log`."""
        return self._portal.call(self._client.configure_log(name, options))

    def trim_log(
        self,
        name: str,
        before: Position | int,
        *,
        password: bytes = b"",
        log_id: str | None = None,
    ) -> None:
        """See `Client.trim_log`."""
        self._portal.call(self._client.trim_log(name, before, password=password, log_id=log_id))

    def delete_log(
        self,
        name: str,
        *,
        password: bytes = b"",
        forget_tiers: Collection[str] = (),
        led: SyncLog | LogInfo | None = None,
    ) -> None:
        """See `Client.delete_log`."""
        written = led._log if isinstance(led, SyncLog) else led
        self._portal.call(
            self._client.delete_log(name, password=password, forget_tiers=forget_tiers, led=written)
        )

    def election(
        self, name: str, candidate: str | None = None, *, session_timeout: float = SESSION_SECONDS
    ) -> SyncElection:
        """See `Client.election`."""
        election = self._client.election(name, candidate, session_timeout=session_timeout)
        return SyncElection(self._portal, election)

    def service(
        self,
        name: str,
        application: Application[R],
        candidate: str | None = None,
        *,
        options: ServiceOptions | None = None,
        session_timeout: float = SESSION_SECONDS,
    ) -> SyncService[R]:
        """See `Client.service`."""
        service = self._portal.call_plain(
            lambda: self._client.service(
                name, application, candidate, options=options, session_timeout=session_timeout
            )
        )
        return SyncService(self._portal, service)

    def bookies(self) -> list[BookieAddress]:
        """See `Client.bookies`."""
        return self._portal.call_plain(self._client.bookies)

    def bookie_info(self, bookie: BookieId) -> BookieInfo:
        """See `Client.bookie_info`."""
        return self._portal.call(self._client.bookie_info(bookie))

    def close(self) -> None:
        """See `Client.close`."""
        self._portal.call(self._client.close())
