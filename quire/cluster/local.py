"""A cluster on this machine: real bookie processes around one metadata store.

    DIRECTORY/metadata.db      the metadata store, unless `store` names another
    DIRECTORY/store            the URI of that other store
    DIRECTORY/zookeeper-1/     or the first of the ZooKeeper servers that form it (zookeeper/)
    DIRECTORY/bookie-0/        the disk of bookie 0, formatted on first use
    DIRECTORY/bookie-0.log     the log of bookie 0

The data is kept when the cluster stops, and the next start finds it again. A cluster without a
directory of its own gets a temporary one, which is removed. Made for tutorials, tests and trying
faults: the processes can be killed, paused and started again one by one.

Invariant: child processes do not outlive this process. Each is ended by its own pid, and exits by
itself when its pipe to this process breaks (process.py).
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from quire.cluster.certificates import LocalCertificates
from quire.cluster.process import PROGRAM, BookieProcess, ProcessState, Ready
from quire.cluster.zookeeper.local import LocalZooKeeper, servers_of
from quire.directory_lock import lock_directory, unlock_directory
from quire.errors import ConfigurationError, HandleClosedError
from quire.labels import Labels
from quire.metastore.place import (
    METADATA_FILE,
    STORE_FILE,
    cluster_store,
    place_of,
    remember_store,
    resolve_store,
)
from quire.private_files import complaint, make_directories
from quire.storage.identity.identity import bookie_of, format_directory, is_formatted
from quire.wire.certificates import LOCAL, TlsOptions

START_SECONDS: Final = 60.0
"""A bookie has to be ready within this time; replaying a full journal takes a few seconds."""

_log = logging.getLogger(__name__)

FORMAT_SECONDS: Final = 5.0
"""How long a start that is cancelled waits for the formatting under way."""


@dataclass(frozen=True, slots=True)
class ServerDeath:
    """A server process that ended unasked."""

    kind: str
    """`bookie`, counted from 0 on, or `ZooKeeper server`, from 1 on."""
    index: int
    exit_code: int | None
    last_words: str

    @property
    def who(self) -> str:
        """Its name in messages."""
        return f"{self.kind} {self.index}"


class LocalCluster:
    """Bookies 0 … n−1 as processes of this machine. An async context manager: `start` and `stop`.

    `directory` keeps the cluster's data; without one a temporary directory is used and removed.
    `store` names another metadata store than the SQLite file in the directory; `zookeeper` is how
    many ZooKeeper servers to run instead (1, 3 or 5), from the jars in `zookeeper_jars` or of
    pyspark. `labels` are given to the bookies in turn, as if they stood in several racks. With
    `tls` the bookies take TLS connections only, with certificates of the cluster's own authority. A
    directory that has either continues with it by default. Must be used from one event loop.
    Raises `ConfigurationError` for fewer than one bookie, for arguments that contradict the
    directory, and if Java or the jars are missing.
    """

    program: Sequence[str] = PROGRAM
    """The program that Python runs as a bookie. Drills put a disk of their own below it."""

    def __init__(
        self,
        directory: str | Path | None = None,
        bookies: int = 6,
        *,
        store: str | None = None,
        zookeeper: int | None = None,
        zookeeper_jars: str | Path | None = None,
        labels: Sequence[Labels] = (),
        tls: bool = False,
    ) -> None:
        if bookies < 1:
            raise ConfigurationError(f"a cluster has at least one bookie, not {bookies}")
        if store is not None and zookeeper is not None:
            raise ConfigurationError(
                "a cluster has one metadata store: give either store or zookeeper"
            )
        self.is_temporary = directory is None
        self.directory = place_of(
            tempfile.mkdtemp(prefix="quire-") if directory is None else directory
        )
        self.bookies = bookies
        self._labels = labels
        self._has_tls = tls
        self._certificates: LocalCertificates | None = None
        self._store = store or cluster_store(self.directory)
        self.zookeeper: LocalZooKeeper | None = None
        try:
            if store is None and (size := servers_of(self.directory, zookeeper)):
                jars = Path(zookeeper_jars) if zookeeper_jars else None
                self.zookeeper = LocalZooKeeper(self.directory, size, jars, self._zookeeper_died)
            elif store is None and (self.directory / STORE_FILE).is_file():
                self._store = resolve_store(str(self.directory))
        except BaseException:
            self._remove_temporary()
            raise
        self._is_started = False
        self._lock = -1
        self._processes: dict[int, BookieProcess] = {}
        self._expected: set[int] = set()
        self._watchers: dict[int, asyncio.Task[None]] = {}
        self._deaths: asyncio.Queue[ServerDeath] = asyncio.Queue()

    @property
    def store_uri(self) -> str:
        """The URI for clients. With ZooKeeper of its own it is known once the cluster runs."""
        return self._store if self.zookeeper is None else self.zookeeper.ensemble.uri

    @property
    def tls(self) -> TlsOptions | None:
        """The files of a client, for `connect`; None without TLS, and before `start`."""
        return None if self._certificates is None else self._certificates.client

    async def start(self, on_ready: Callable[[int], None] | None = None) -> None:
        """Format new directories, start every bookie and wait until clients can find all of them.

        Args:
            on_ready: called with the number of each bookie as it comes up.

        Raises:
            ConfigurationError: the directory cannot be created, or the cluster already runs.
            DirectoryInUseError: another process runs a cluster there.
            BookieUnavailableError: a bookie cannot start; the error has its last words. The other
                bookies are ended.

        Cancellation: ends the processes that were started.
        """
        if self._is_started:
            raise ConfigurationError(f"the cluster in {self.directory} already runs")
        self._is_started = True
        try:
            self._make_directory()
            self._lock = lock_directory(self.directory, "another local cluster")
            self._make_certificates()
            if self.zookeeper is not None:
                await self.zookeeper.start()
            for index in range(self.bookies):
                await self._format(index)
            async with asyncio.TaskGroup() as group:
                for index in range(self.bookies):
                    group.create_task(self._start(index, on_ready))
            self._remember_store()
        except BaseExceptionGroup as errors:
            await self.stop()
            raise errors.exceptions[0] from None
        except BaseException:
            await self.stop()
            raise

    def _make_directory(self) -> None:
        try:
            make_directories(self.directory)
        except OSError as error:
            raise ConfigurationError(
                f"{self.directory} cannot be used: {error.strerror}"
            ) from error
        for path in (self.directory, self.directory / METADATA_FILE):
            if (found := complaint(path)) is not None:
                _log.warning("%s", found)

    def _make_certificates(self) -> None:
        """Issue missing certificates. A cluster that had TLS keeps it."""
        if self._has_tls or (self.directory / LOCAL).is_dir():
            self._certificates = LocalCertificates(self.directory, time.time())

    def _remember_store(self) -> None:
        """Note a store outside the directory: clients that name the directory mean that store.

        Called once the bookies run: they check that the store is theirs.
        """
        if self.zookeeper is None and self._store != cluster_store(self.directory):
            remember_store(self.directory, self._store)

    async def stop(self) -> None:
        """End every process, wait until all are gone, and remove a temporary directory.

        Raises:
            Nothing: a process that does not end is killed.

        Cancellation: processes that still run are killed, which does not harm them.
        """
        self._expected.update(self._processes)
        try:
            await self._end_processes()
        finally:
            self._is_started = False
            self._processes.clear()
            self._watchers.clear()
            self._unlock()
            self._remove_temporary()

    def _unlock(self) -> None:
        if self._lock >= 0:
            unlock_directory(self._lock)
            self._lock = -1

    async def _end_processes(self) -> None:
        processes = self._processes.values()
        try:
            await asyncio.gather(*(process.stop() for process in processes))
            await asyncio.gather(*self._watchers.values())
        except BaseException:
            for process in processes:  # also processes that were not asked to end yet
                process.send(signal.SIGKILL)
            await asyncio.gather(*(process.stop() for process in processes))
            raise
        finally:
            if self.zookeeper is not None:
                await self.zookeeper.stop()

    def _remove_temporary(self) -> None:
        if self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, index: int) -> None:
        """End a bookie with SIGKILL, as a crash would.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            HandleClosedError: the bookie was not started.
        """
        self._expected.add(index)
        self._process(index).send(signal.SIGKILL)

    def pause(self, index: int) -> None:
        """Freeze a bookie with SIGSTOP: it stays connected and says nothing.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            HandleClosedError: the bookie was not started.
        """
        self._process(index).send(signal.SIGSTOP)

    def resume(self, index: int) -> None:
        """Let a paused bookie continue.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            HandleClosedError: the bookie was not started.
        """
        self._process(index).send(signal.SIGCONT)

    async def restart(self, index: int) -> None:
        """Start a bookie again, ending it first if it runs; wait until clients can find it.

        Args:
            index: the bookie's number, from 0 on.

        Raises:
            HandleClosedError: the bookie was not started.
            BookieUnavailableError: the bookie cannot start; the error has its last words.

        Cancellation: the bookie may be down.
        """
        self._expected.add(index)
        await self._process(index).stop()
        await self._watchers[index]
        await self._start(index)

    async def next_death(self) -> ServerDeath:
        """Wait for a bookie or ZooKeeper server to end unasked.

        Returns:
            Which process ended, its exit code and its last words.

        Raises:
            Nothing: a death is the result.

        Cancellation: ends the waiting only; the death stays to be told.
        """
        return await self._deaths.get()

    def state(self, index: int) -> ProcessState:
        """Return the state of a bookie's process.

        Args:
            index: the bookie's number, from 0 on.

        Returns:
            The state: starting, running, paused or exited.

        Raises:
            HandleClosedError: the bookie was not started.
        """
        return self._process(index).state

    def ready(self, index: int) -> Ready | None:
        """Return how to reach a bookie.

        Args:
            index: the bookie's number, from 0 on.

        Returns:
            Its id and addresses; None before it is ready.

        Raises:
            HandleClosedError: the bookie was not started.
        """
        return self._process(index).ready

    def index_of(self, bookie: str) -> int:
        """Return a bookie's number.

        Args:
            bookie: the bookie's id.

        Returns:
            The number, from 0 on.

        Raises:
            ConfigurationError: the cluster has no bookie of that id.
        """
        for index, process in sorted(self._processes.items()):
            if process.ready is not None and process.ready.bookie == bookie:
                return index
        raise ConfigurationError(f"no bookie {bookie} in the cluster in {self.directory}")

    def pid(self, index: int) -> int:
        """Return a bookie's process id.

        Args:
            index: the bookie's number, from 0 on.

        Returns:
            The number of the process.

        Raises:
            HandleClosedError: the bookie was not started.
        """
        return self._process(index).pid

    def bookie_directory(self, index: int) -> Path:
        """Return the directory that is a bookie's disk.

        Args:
            index: the bookie's number, from 0 on.

        Returns:
            The path. The directory exists once the bookie was started.
        """
        return self.directory / f"bookie-{index}"

    def bookie_tls(self, index: int) -> TlsOptions | None:
        """Return the certificate of a bookie and its key.

        Args:
            index: the bookie's number, from 0 on.

        Returns:
            The files; None without TLS. They exist once the bookie was started.
        """
        return None if self._certificates is None else self._certificates.bookie(index)

    def bookie_log(self, index: int) -> Path:
        """Return the file of a bookie's log.

        Args:
            index: the bookie's number, from 0 on.

        Returns:
            The path. The file exists once the bookie was started.
        """
        return self.directory / f"bookie-{index}.log"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _process(self, index: int) -> BookieProcess:
        if index not in self._processes:
            raise HandleClosedError(f"bookie {index} of the cluster in {self.directory}")
        return self._processes[index]

    async def _format(self, index: int) -> None:
        """Format a new bookie. When cancelled, let formatting that has begun finish: its threads
        write into a directory that is removed next, and would create it again.
        """
        formatting = asyncio.create_task(self._format_missing(index))
        try:
            await asyncio.shield(formatting)
        except asyncio.CancelledError:
            await asyncio.wait([formatting], timeout=FORMAT_SECONDS)
            formatting.cancel()
            await asyncio.gather(formatting, return_exceptions=True)
            raise

    async def _format_missing(self, index: int) -> None:
        directory = self.bookie_directory(index)
        if not await is_formatted(directory):
            await format_directory(directory, self.store_uri)

    async def _tls_arguments(self, index: int) -> list[str]:
        if self._certificates is None:
            return []
        bookie = await bookie_of(self.bookie_directory(index))
        certificate, key, ca = self._certificates.issue(index, bookie).files
        return [f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-ca={ca}"]

    async def _start(self, index: int, on_ready: Callable[[int], None] | None = None) -> None:
        arguments = (
            "bookie",
            "serve",
            str(self.bookie_directory(index)),
            f"--store={self.store_uri}",
            "--exit-with-parent",
            "--json",
            *([f"--labels={self._labels[index % len(self._labels)]}"] if self._labels else []),
            *await self._tls_arguments(index),
        )
        name = f"bookie-{index}"
        self._expected.discard(index)
        process = await BookieProcess.start(name, arguments, self.bookie_log(index), self.program)
        self._processes[index] = process
        self._watchers[index] = asyncio.create_task(self._watch(index, process))
        await process.wait_ready(START_SECONDS)
        if on_ready is not None:
            on_ready(index)

    def _zookeeper_died(self, number: int, last_words: str) -> None:
        self._deaths.put_nowait(ServerDeath("ZooKeeper server", number, None, last_words))

    async def _watch(self, index: int, process: BookieProcess) -> None:
        await process.wait_exited()
        if index not in self._expected:
            code = process.exit_code
            assert code is not None
            self._deaths.put_nowait(ServerDeath("bookie", index, code, process.last_words()))
