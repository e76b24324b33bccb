"""The raw limits: the disk and loopback gRPC of this machine without any other load.

The echo servers are processes of their own, as bookies are; they end when their standard input is
closed. One may be given a file: then it writes and syncs 4 KiB before it answers.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from quire.aio.loops import loop_factory
from quire.bench.figures import COPIES, Figures, RawLimits
from quire.cluster.process import child_environment

STEPS: Final = 5
"""How often `advance` is called by `measure_limits`."""
MESSAGE_BYTES: Final = 1024
PIPELINED: Final = 64
MAJORITY: Final = 2
FILE_BYTES: Final = 64 * 1024 * 1024
ANSWER: Final = bytes(16)
SERVICE: Final = "quire.bench.Echo"
METHOD: Final = "Stream"
EOF: Final[Any] = grpc.aio.EOF  # type: ignore[attr-defined]

Answer: TypeAlias = "Callable[[object, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[None]]"


async def measure_limits(
    directory: Path, seconds: float, advance: Callable[[str], None]
) -> RawLimits:
    """Measure all limits, about `seconds` each; `advance` gets the name of each step."""
    advance("fdatasync of 4 KiB")
    sync_4k = await asyncio.to_thread(measure_sync, directory, 4096, seconds)
    advance("fdatasync of 1 MiB")
    sync_1m = await asyncio.to_thread(measure_sync, directory, 1024 * 1024, seconds)
    async with _echo_server() as port:
        advance("gRPC messages, one at a time")
        alone = await measure_messages(port, 1, seconds)
        advance(f"gRPC messages, {PIPELINED} under way")
        pipelined = await measure_messages(port, PIPELINED, seconds)
    advance("gRPC messages to three servers that sync")
    async with AsyncExitStack() as servers:
        files = [directory / f"raw-{number}.bin" for number in range(COPIES)]
        ports = [await servers.enter_async_context(_echo_server(file)) for file in files]
        path = await measure_path(ports, seconds)
    return RawLimits(sync_4k, sync_1m, alone, pipelined, path)


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
async def _echo_server(file: Path | None = None) -> AsyncIterator[int]:
    program = "import sys; from quire.bench.raw import serve_echo; serve_echo(*sys.argv[1:])"
    process = subprocess.Popen(  # noqa: ASYNC220 - takes a millisecond, before anything is measured
        [sys.executable, "-c", program, *([str(file)] if file else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
        start_new_session=True,  # Ctrl-C at the terminal is for us: it ends when its pipe closes
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
        if file is not None:
            await asyncio.to_thread(file.unlink, missing_ok=True)


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


async def measure_path(ports: Sequence[int], seconds: float) -> Figures:
    """Send one 1 KiB message at a time to every server and wait for the second answer."""
    async with AsyncExitStack() as channels:
        streams: list[Any] = []
        for port in ports:
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            connect: Any = (await channels.enter_async_context(channel)).stream_stream
            streams.append(connect(f"/{SERVICE}/{METHOD}")())
        latencies: list[float] = []
        message = random.Random(len(ports)).randbytes(MESSAGE_BYTES)
        cpu, started = time.process_time(), time.perf_counter()
        answered: asyncio.Queue[None] = asyncio.Queue()
        readers = [asyncio.create_task(_count_answers(stream, answered)) for stream in streams]
        now, late = started, 0
        while now < started + seconds:
            before = now
            await asyncio.gather(*(stream.write(message) for stream in streams))
            for _ in range(late + MAJORITY):
                await answered.get()
            late = len(ports) - MAJORITY
            now = time.perf_counter()
            latencies.append(now - before)
        cpu = time.process_time() - cpu
        for stream in streams:
            await stream.done_writing()
        await asyncio.gather(*readers)
    name = f"gRPC to {len(ports)} servers that sync, {MAJORITY} answers"
    return Figures.of(name, MESSAGE_BYTES, now - started, latencies, cpu)


async def _count_answers(stream: Any, answered: asyncio.Queue[None]) -> None:
    while await stream.read() is not EOF:
        answered.put_nowait(None)


async def _answer(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    while await context.read() is not EOF:
        await context.write(ANSWER)


def _answer_synced(descriptor: int) -> Answer:
    _prewrite(descriptor)
    block = random.Random(descriptor).randbytes(4096)

    async def answer(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        offset = 0
        while await context.read() is not EOF:
            os.pwrite(descriptor, block, offset)
            os.fdatasync(descriptor)
            offset = (offset + len(block)) % FILE_BYTES
            await context.write(ANSWER)

    return answer


async def _serve(
    answer: Answer, ready: Callable[[int], None], ended: Callable[[], Awaitable[object]]
) -> None:
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    handlers = {METHOD: grpc.stream_stream_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ready(port)
    await ended()
    await server.stop(None)


def serve_echo(file: str = "") -> None:
    """Be an echo server: print the port, serve until standard input is closed.

    With a file 4 KiB are synced into it before each answer.
    """
    answer: Answer = _answer
    if file:
        answer = _answer_synced(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))

    def ready(port: int) -> None:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(answer, ready, lambda: asyncio.to_thread(sys.stdin.buffer.read)))
