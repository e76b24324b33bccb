"""Many writers of small records, each with a connection of HTTP to one gateway.

    python -m benchmarks.http_writers [--writers 1000] [--bytes 100] [--seconds 5] [--rounds 3]

Each writer posts a record, waits for the answer, and posts the next, all to one log. In turns the
same writers post to a bare server: the same HTTP server with an application that only reads the
body and answers `201`. The clients share the machine and one process, so the ratio means more than
the rates.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from benchmarks.peers.machine import memory, spent
from quire.cli.settings import run
from quire.cluster import LocalCluster
from quire.http_server import bind, serve_application
from tests.gateway.process import GatewayProcess

PATH: Final = "/v1/logs/orders/records"
CREATED: Final = b"HTTP/1.1 201"


class Round(NamedTuple):
    """One round of one server."""

    per_second: float
    p50_ms: float
    p99_ms: float
    server_us: float
    """Of the server's processor, for each record; bookies are not in it."""
    memory_mb: float


class Writer(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, request: bytes, seen: Callable[[float], bool]) -> None:
        """`seen` takes the seconds of an answer, and tells whether to go on."""
        self._request = request
        self._seen = seen
        self._answer = b""
        self._begun = 0.0
        self._transport: Any = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; `post` begins."""
        self._transport = transport

    def post(self) -> None:
        """Send a request."""
        self._begun = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer."""
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return
        if not head.startswith(CREATED):
            self._end(RuntimeError(f"not 201: {self._answer[:300]!r}"))
            return
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        if len(body) < size:
            return
        self._answer = b""
        if self._seen(time.perf_counter() - self._begun):
            self.post()
        else:
            self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        """End with an error, unless all is done."""
        self._end(error or ConnectionResetError("the server closed the connection"))

    def _end(self, error: Exception | None) -> None:
        self._transport.close()
        if not self.done.done():
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)


async def write(url: str, pid: int, given: argparse.Namespace) -> Round:
    """Run all writers for some seconds."""
    place = urlsplit(url)
    host, port = place.hostname, place.port
    assert host is not None
    assert port is not None
    body = random.randbytes(given.bytes)
    head = f"POST {PATH} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(body)}\r\n"
    request = f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + body
    latencies: list[float] = []
    loop = asyncio.get_running_loop()
    end = 0.0

    def seen(seconds: float) -> bool:
        latencies.append(seconds)
        return time.perf_counter() < end

    async def connected() -> Writer:
        _, writer = await loop.create_connection(lambda: Writer(request, seen), host, port)
        return writer

    writers = [await connected() for _ in range(given.writers)]
    before, begun = spent([pid]), time.perf_counter()
    end = begun + given.seconds
    for writer in writers:
        writer.post()
    await asyncio.gather(*(writer.done for writer in writers))
    took, used = time.perf_counter() - begun, spent([pid]) - before
    latencies.sort()
    count = len(latencies)
    return Round(
        count / took,
        1e3 * latencies[count // 2],
        1e3 * latencies[count * 99 // 100],
        1e6 * used.cpu_seconds / count,
        memory([pid]) / 1e6,
    )


async def bare() -> None:
    """Serve an application that stores nothing, and say where."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def take(request: Request) -> JSONResponse:
        return JSONResponse({"bytes": len(await request.body())}, status_code=201)

    async def end() -> None:
        """Nothing is under way."""

    with closing(bind("127.0.0.1:0")) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        application = Starlette(routes=[Route(PATH, take, methods=["POST"])])
        await serve_application(
            application, listening, ready=lambda: print(url, flush=True), ending=end
        )


@contextmanager
def bare_server() -> Iterator[tuple[str, int]]:
    """Have the bare server in the block: its URL and its pid."""
    command = [sys.executable, "-m", "benchmarks.http_writers", "--bare"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.kill()


async def compare(given: argparse.Namespace) -> dict[str, list[Round]]:
    """Run rounds in turn."""
    rounds: dict[str, list[Round]] = {"gateway": [], "bare server": []}
    with tempfile.TemporaryDirectory(prefix="quire-writers-") as place, ExitStack() as stack:
        async with LocalCluster(Path(place), bookies=3) as cluster:
            gateway = GatewayProcess(cluster.store_uri, Path(place) / "gateway.log")
            try:
                url = (await asyncio.to_thread(gateway.start)).http
                other = await asyncio.to_thread(stack.enter_context, bare_server())
                servers = {"gateway": (url, gateway.pid), "bare server": other}
                for number in range(given.rounds + 1):
                    for name, (address, pid) in servers.items():
                        found = await write(address, pid, given)
                        if number:  # the first round warms up
                            rounds[name].append(found)
                            print(f"round {number}, {name}: {found}", file=sys.stderr)
            finally:
                await asyncio.to_thread(gateway.end)
    return rounds


def table(rounds: dict[str, list[Round]]) -> str:
    """Return medians as a table in Markdown."""
    lines = [
        "| | records/s | p50 ms | p99 ms | µs of the server's processor a record | MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in rounds.items():
        middle = [statistics.median(each) for each in zip(*found, strict=True)]
        cells = f"{middle[0]:,.0f} | {middle[1]:.0f} | {middle[2]:.0f} | {middle[3]:.0f}"
        lines.append(f"| {name} | {cells} | {middle[4]:,.0f} |")
    ratios = sorted(
        own.per_second / other.per_second
        for own, other in zip(rounds["gateway"], rounds["bare server"], strict=True)
    )
    lines.append(f"\ngateway ÷ bare server: {statistics.median(ratios):.2f} {ratios}")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--writers", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=100, help="of a record")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bare:
        run(bare)
        return
    if min(given.writers, given.bytes, given.seconds, given.rounds) <= 0:
        parser.error("writers, bytes, seconds and rounds are positive")
    try:
        print(table(asyncio.run(compare(given))))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
