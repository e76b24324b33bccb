"""`make fuzz`: wrong requests against a bookie with TLS on both ports.

    python -m tests.fuzz [--requests 20000] [--seed 1] [--state build/fuzz.json] [--request N]

After each request the bookie must hold what a second bookie holds, to which the request was applied
directly if it still is one. After each few the bookie must answer. At the end the process must not
have grown. The campaign goes on where the last one of its seed ended. `--request N` sends one
request again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from quire.ledger.links import link_bookie
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import serve_bookie
from quire.wire import bookie_pb2 as pb
from quire.wire.adds import decode_reply, decode_request
from quire.wire.framed import ConnectionOverError, connect, pack_message
from quire.wire.framed_reads import REFUSAL, encode_question, number_of
from quire.wire.news import decode_news_reply
from quire.wire.reads import NoMessageError
from quire.wire.tls import Contexts
from quire.wire.transport import open_channel
from tests.fuzz.requests import Fuzzed, Way, request
from tests.wire.certificates import Directory, contexts
from tests.wire.test_fuzz import KEY, RUN, Pair, holdings

GROWTH_MAX: Final = 64 * 1024 * 1024
"""What a process may have grown from the hundredth request on: caches and arenas, no leak of a
kilobyte for each of 100,000 requests."""

WARM: Final = 500
SAVED_EACH: Final = 500
ASKED_EACH: Final = 16
"""Requests of a campaign after which the bookie is asked whether it answers."""

HERE: Final = "127.0.0.1:0"
LAST: Final = 2**63
"""The number of the good subscription after the wrong message."""


class SecurePair(Pair):
    """A bookie with TLS on both ports, its oracle, and ways to send any bytes."""

    def __init__(self, files: Directory, asked_each: int = 1) -> None:
        super().__init__()
        self._asked_each, self._unasked = asked_each, 0
        self._tls: Contexts = contexts(files.client())
        self._serving = serve_bookie(
            self.served, "b1", listen_runs=HERE, tls=contexts(files.bookie())
        )

    async def open(self) -> None:
        self._address = address = await self._serving.__aenter__()
        stub = link_bookie(address, tls=self._tls)
        assert isinstance(stub, RemoteBookie)
        self.stub = stub
        _, credentials = self._tls.certificates.current()
        self.channel = open_channel(address.address, "b1", credentials)

    async def send(self, fuzzed: Fuzzed) -> None:
        """Send a request, and compare the two bookies."""
        way, method, data = fuzzed
        if way is Way.GRPC:
            await self.exchange(method, data)
            return
        for bookie in (self.served, self.oracle):
            bookie.ledgers.clear()
            if way in (Way.NEWS, Way.READS):
                await bookie.add(7, KEY, RUN)
        async with asyncio.timeout(30):
            if way is Way.FRAME:
                await self._send_frame(data)
                await self._apply("Add", data)
            elif way is Way.NEWS:
                await self._send_news(method, data)
            elif way is Way.READS:
                await self._send_reads(method, data)
            else:
                await self._send_bytes(way, method, data)
        assert holdings(self.served) == holdings(self.oracle), fuzzed
        await self.must_answer()

    async def must_answer(self) -> None:
        """Ask the bookie by a good request, each time but after most of a campaign's requests: the
        next request asks as well.
        """
        self._unasked += 1
        if self._unasked >= self._asked_each:
            self._unasked = 0
            async with asyncio.timeout(30):
                assert (await self.stub.info()).bookie == "b1"

    async def _send_frame(self, data: bytes) -> None:
        assert self._address.runs is not None
        connection = await connect(self._address.runs, session=self._tls.open("b1"))
        wanted = 1
        with contextlib.suppress(NoMessageError):
            wanted = len(decode_request(data).runs)
        with contextlib.suppress(ConnectionOverError):
            await connection.write(data)
            while (answer := await connection.read()) is not None:
                reply: pb.AddReply = decode_reply(answer)
                if reply.HasField("refusal") or reply.settled >= wanted:
                    break
        connection.abort()

    async def _send_news(self, method: str, data: bytes) -> None:
        """Send a connection for subscriptions. It ends with a good one, which the bookie serves
        unless it has ended the connection.
        """
        last = pb.Subscribe(subscription=LAST, ledger=7, above=-1, bytes=1000, quiet_ms=10)
        good = pack_message(pb.NewsRequest(subscribe=[last]).SerializeToString())
        assert self._address.runs is not None
        connection = await connect(self._address.runs, data + good, self._tls.open("b1"))
        with contextlib.suppress(ConnectionOverError):
            hello = await connection.read()
            while method == "news" and hello and (answer := await connection.read()) is not None:
                reply = decode_news_reply(answer)
                if reply.HasField("refusal") or any(
                    each.subscription == LAST for each in reply.news
                ):
                    break
        connection.abort()

    async def _send_reads(self, method: str, data: bytes) -> None:
        """Send a connection for reads. It ends with a good one, as in `_send_news`. A fence of the
        bookie is set at its oracle as well.
        """
        request = pb.ReadRequest(bookie="b1", ledger=7, bytes_max=1000)
        good = b"".join(encode_question(LAST, "", request.SerializeToString()))
        assert self._address.runs is not None
        greeted = data + pack_message(good)
        connection = await connect(self._address.runs, greeted, self._tls.open("b1"))
        with contextlib.suppress(ConnectionOverError, NoMessageError):
            hello = await connection.read()
            while method == "reads" and hello and (answer := await connection.read()) is not None:
                number, _ = number_of(answer)
                if number in (REFUSAL, LAST):
                    break
        connection.abort()
        for ledger, held in self.served.ledgers.items():
            if held.fenced:
                await self.oracle.read_tail(ledger, fence_key=KEY)

    async def _send_bytes(self, way: Way, port: str, data: bytes) -> None:
        address = self._address.runs if port == "runs" else self._address.address
        assert address is not None
        if way is Way.STREAM:
            with contextlib.suppress(ConnectionOverError):
                connection = await connect(self._address.runs or "", data, self._tls.open("b1"))
                connection.close()
            return
        host, number = address.split(":")
        _, writer = await asyncio.open_connection(host, int(number))
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        writer.close()


def resident() -> int:
    """Return the resident bytes of this process, 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    return 0


async def campaign(seed: int, numbers: range, state: Path | None) -> int:
    """Send requests until the last or Ctrl-C; return how many were sent."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ended.set)
    sent, ways, begun, warm = 0, Counter[str](), time.monotonic(), 0
    with tempfile.TemporaryDirectory() as directory:
        pair = SecurePair(Directory(Path(directory)), 1 if len(numbers) == 1 else ASKED_EACH)
        await pair.open()
        try:
            for number in numbers:
                if ended.is_set():
                    break
                fuzzed = request(seed, number)
                try:
                    await pair.send(fuzzed)
                except BaseException:
                    print(f"failed: python -m tests.fuzz --seed {seed} --request {number}")
                    print(f"(or one of the {ASKED_EACH - 1} before it, if the bookie is silent)")
                    raise
                sent += 1
                ways[f"{fuzzed.way}"] += 1
                if sent == WARM:
                    gc.collect()
                    warm = resident()
                if sent % SAVED_EACH == 0 and state is not None:
                    save(state, seed, number + 1)
                    rate = sent / (time.monotonic() - begun)
                    print(f"{number + 1} requests, {rate:.0f} a second", flush=True)
            if state is not None:
                save(state, seed, numbers.start + sent)
        finally:
            await pair.close()
    gc.collect()
    growth = resident() - warm if warm else 0
    print(f"{sent} requests of seed {seed}: {dict(ways)}, grown by {growth / 2**20:.1f} MiB")
    assert growth <= GROWTH_MAX, f"the process has grown by {growth} bytes"
    return sent


def save(state: Path, seed: int, number: int) -> None:
    """Note where a campaign goes on."""
    state.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(state.read_text()) if state.exists() else {}
    partial = state.with_suffix(".partial")
    partial.write_text(json.dumps({**found, str(seed): number}))
    partial.replace(state)


def main() -> int:
    """Go on with a campaign, or send one request again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000, help="requests of the whole seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, default=Path("build/fuzz.json"))
    parser.add_argument("--request", type=int, help="send this one only")
    given = parser.parse_args()
    if given.request is not None:
        print(request(given.seed, given.request))
        numbers, state = range(given.request, given.request + 1), None
    else:
        state = given.state
        first = json.loads(state.read_text()).get(str(given.seed), 0) if state.exists() else 0
        numbers = range(first, given.requests)
        if not numbers:
            print(f"all {given.requests} requests of seed {given.seed} were sent: {state} says so")
    asyncio.run(campaign(given.seed, numbers, state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
