"""The raw limits: what the disk and loopback gRPC do here when nothing else is asked of them.

The echo server is a process of its own, as a bookie is; it ends when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from quire.bench.figures import Figures, RawLimits
from quire.cluster.process import child_environment

MESSAGE_BYTES: Final = 1024
PIPELINED: Final = 64
FILE_BYTES: Final = 64 * 1024 * 1024
ANSWER: Final = bytes(16)
SERVICE: Final = "quire.bench.Echo"
METHOD: Final = "Stream"
EOF: Final[Any] = grpc.aio.EOF  # type: ignore[attr-defined]


async def measure_limits(
    directory: Path, seconds: float, advance: Callable[[str], None]
) -> RawLimits:
    """Measure all limits, about `seconds` each; `advance` is told what was done."""
    advance("fdatasync of 4 KiB")
    sync_4k = await asyncio.to_thread(measure_sync, directory, 4096, seconds)
    advance("fdatasync of 1 MiB")
    sync_1m = await asyncio.to_thread(measure_sync, directory, 1024 * 1024, seconds)
    async with _echo_server() as port:
        advance("gRPC messages, one at a time")
        alone = await measure_messages(port, 1, seconds)
        advance(f"gRPC messages, {PIPELINED} under way")
        pipelined = await measure_messages(port, PIPELINED, seconds)
    return RawLimits(sync_4k, sync_1m, alone, pipelined)


def measure_sync(directory: Path, size: int, seconds: float) -> Figures:
    """Write and fdatasync `size` bytes at a time into a file that was really written before."""
    path = directory / "raw.bin"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _prewrite(descriptor)
        block = random.Random(size).randbytes(size)
        latencies: list[float] = []
        cpu, started = time.process_time(), time.perf_counter()
        offset, now = 0, started
        while now < started + seconds:
            before = now
            os.pwrite(descriptor, block, offset)
            os.fdatasync(descriptor)
            now = time.perf_counter()
            latencies.append(now - before)
            offset = (offset + size) % FILE_BYTES
        cpu = time.process_time() - cpu
        return Figures.of(_sync_name(size), size, now - started, latencies, cpu)
    finally:
        os.close(descriptor)
        path.unlink()


def _sync_name(size: int) -> str:
    return f"fdatasync of {size // 1024} KiB, existing blocks"


def _prewrite(descriptor: int) -> None:
    zeros = bytes(1024 * 1024)
    for offset in range(0, FILE_BYTES, len(zeros)):
        os.pwrite(descriptor, zeros, offset)
    os.fsync(descriptor)


@asynccontextmanager
async def _echo_server() -> AsyncIterator[int]:
    process = subprocess.Popen(  # noqa: ASYNC220 - takes a millisecond, before anything is measured
        [sys.executable, "-c", "from quire.bench.raw import serve_echo; serve_echo()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = await asyncio.to_thread(process.stdout.readline)
        yield int(port)
    finally:
        process.stdin.close()
        await asyncio.to_thread(process.wait)
        process.stdout.close()


async def measure_messages(port: int, under_way: int, seconds: float) -> Figures:
    """Send 1 KiB messages over one stream with `under_way` of them unanswered."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        connect: Any = channel.stream_stream  # the stubs know nothing of streams without callbacks
        stream = connect(f"/{SERVICE}/{METHOD}")()
        latencies: list[float] = []
        sent: deque[float] = deque()
        message = random.Random(under_way).randbytes(MESSAGE_BYTES)
        cpu, started = time.process_time(), time.perf_counter()
        now = started
        while now < started + seconds or sent:
            while len(sent) < under_way and now < started + seconds:
                sent.append(time.perf_counter())
                await stream.write(message)
            await stream.read()
            now = time.perf_counter()
            latencies.append(now - sent.popleft())
        cpu = time.process_time() - cpu
        await stream.done_writing()
    name = "gRPC message and answer" + (f", {under_way} under way" if under_way > 1 else "")
    return Figures.of(name, MESSAGE_BYTES, now - started, latencies, cpu)


async def _answer(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    while await context.read() is not EOF:
        await context.write(ANSWER)


async def _serve(ready: Callable[[int], None], ended: Callable[[], Awaitable[object]]) -> None:
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    handlers = {METHOD: grpc.stream_stream_rpc_method_handler(_answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready(port)
    await ended()
    await server.stop(None)


def serve_echo() -> None:
    """Be the echo server: print the port, serve until standard input is closed."""

    def ready(port: int) -> None:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(ready, lambda: asyncio.to_thread(sys.stdin.buffer.read)))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop where there is one: both ends of quire use it too."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
