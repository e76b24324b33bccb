"""The programs that write and read the log, one for each kind of client."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import quire
from quire.cluster.zookeeper.java import find_java
from tests.gateway.process import Addresses
from tests.gateway.rpc.test_go_client import build as build_go
from tests.gateway.rpc.test_java_client import COMPILER, java
from tests.gateway.soak.history import Read, Written
from tests.interop.jars import KAFKA, install_grpc, install_kafka

LOG: Final = "soak"
HERE: Final = Path(__file__).parent
QUICK: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
KINDS: Final = ("http", "go", "librdkafka", "java", "python")
"""Names of the writers and of the readers. Python writes over gRPC, and reads by quire's client."""
PROGRESS_SECONDS_MAX: Final = 90.0
READ_SECONDS_MAX: Final = 300.0


@dataclass(frozen=True, slots=True)
class Programs:
    """The commands of the kinds, and the addresses that each kind is given."""

    commands: Mapping[str, tuple[str, ...]]
    addresses: Mapping[str, str]


def build(scratch: Path) -> dict[str, tuple[str, ...]]:
    """Compile the programs of Go and Java, and return the command of each kind.

    Raises `JarsMissingError`, `ConfigurationError` without Java, `AssertionError` without Go.
    """
    classes = scratch / "classes"
    jars, kafka = install_grpc()[0], install_kafka()
    options = ("-17", "-nowarn", "-proc:none", "-classpath", f"{kafka}/kafka-clients-{KAFKA}.jar")
    java([f"{jars}/*"], COMPILER, *options, "-d", classes, HERE / "KafkaClient.java")
    of_python = (sys.executable, "-m")
    return {
        "http": (*of_python, "tests.gateway.soak.http_client"),
        "go": (str(build_go(scratch, HERE / "go" / "main.go")),),
        "librdkafka": (*of_python, "tests.gateway.soak.rdkafka_client"),
        "java": (str(find_java()), *QUICK, "-cp", f"{classes}:{kafka}/*", "KafkaClient"),
        "python": (*of_python, "tests.gateway.soak.rpc_client"),
    }


def addressed(gateways: Sequence[Addresses]) -> dict[str, str]:
    """Return what each kind is given as the addresses of gateways."""
    http = ",".join(each.http for each in gateways)
    rpc = ",".join(each.grpc for each in gateways)
    servers = ",".join(each.kafka for each in gateways)
    return {"http": http, "go": rpc, "librdkafka": servers, "java": servers, "python": rpc}


class Writers:
    """A writer of each kind, as processes."""

    def __init__(self, programs: Programs, directory: Path) -> None:
        self.written = {name: Written() for name in KINDS}
        self._programs = programs
        self._directory = directory
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Start all of them."""
        for name in KINDS:
            words = (*self._programs.commands[name], "write", self._programs.addresses[name], LOG)
            with (self._directory / f"{name}.log").open("ab") as said:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=said,
                )
            self._processes[name] = process
            self._listening[name] = asyncio.create_task(self._listen(name, process))

    async def _listen(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for raw in process.stdout:
            self.written[name].heard(raw.decode().rstrip("\n"))
            self._changed.set()
        self._changed.set()

    def count(self) -> int:
        """Records that were acknowledged."""
        return sum(len(each.acked) for each in self.written.values())

    async def progress(self) -> None:
        """Wait until each writer was told of a record that was not acknowledged at the call.

        Raises:
            RuntimeError: a writer failed, ended, or was told nothing for too long.
        """
        before = {name: len(each.acked) for name, each in self.written.items()}
        waiting = set(before)
        try:
            async with asyncio.timeout(PROGRESS_SECONDS_MAX):
                while waiting:
                    self._changed.clear()
                    for name in list(waiting):
                        if len(self.written[name].acked) > before[name]:
                            waiting.remove(name)
                        elif self.written[name].failed or self._listening[name].done():
                            raise RuntimeError(f"the writer {name} ended: {self._said(name)}")
                    if waiting:
                        await self._changed.wait()
        except TimeoutError:
            raise RuntimeError(
                f"{', '.join(sorted(waiting))}: no record acknowledged for "
                f"{PROGRESS_SECONDS_MAX:.0f} s: {[self._said(name) for name in sorted(waiting)]}"
            ) from None

    def _said(self, name: str) -> str:
        errors = (self._directory / f"{name}.log").read_text(errors="replace")
        return " ".join([*self.written[name].failed, errors[-500:]])

    async def finish(self) -> None:
        """Let each writer wait for its last answers and end.

        Raises:
            RuntimeError: a writer did not end in order.
        """
        for name, process in self._processes.items():
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(PROGRESS_SECONDS_MAX):
                    await self._listening[name]
                    code = await process.wait()
            except TimeoutError:
                raise RuntimeError(f"the writer {name} does not end: {self._said(name)}") from None
            if code:
                raise RuntimeError(f"the writer {name} ended with {code}: {self._said(name)}")

    async def end(self) -> None:
        """Kill those that run."""
        for process in self._processes.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await process.wait()
        await asyncio.gather(*self._listening.values())


async def read_by_program(programs: Programs, name: str, end: int) -> list[Read]:
    """Read the log up to an offset with the program of a kind.

    Raises `RuntimeError` if it fails or takes too long.
    """
    words = (*programs.commands[name], "read", programs.addresses[name], LOG, str(end))
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            said, errors = await process.communicate()
    except TimeoutError:
        raise RuntimeError(f"the reader {name} did not end in {READ_SECONDS_MAX:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"the reader {name} failed: {errors.decode()[-1000:]}")
    return [_line(each) for each in said.decode().splitlines()]


def _line(text: str) -> Read:
    offset, _, payload = text.partition(" ")
    return Read(int(offset), payload)


async def read_by_quire(store: str) -> list[Read]:
    """Read the whole log, to its real end, with quire's client. Its gateways have ended."""
    async with quire.connect(store) as client:
        return [
            Read(each.offset, each.payload.decode())
            async for each in client.read_log(LOG, recover=True)
        ]
