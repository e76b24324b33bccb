"""START_TLS at the port for clients of Apache BookKeeper, with real connections of this process."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from quire.bookie import BookieAddress
from quire.bookkeeper import single_reads, wire2, wire3
from quire.bookkeeper.apache_bookie import ApacheBookie
from quire.bookkeeper.serving.port import TLS_ONLY, serve_bookkeeper
from quire.bookkeeper.status import Status
from quire.bookkeeper.tls import ClientTls
from quire.bookkeeper.uri import BookieTls
from quire.bookkeeper.wire3 import Operation
from quire.entry import LedgerId
from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    LedgerFencedError,
    NotPermittedError,
    UnauthorizedError,
)
from quire.rights.roles import Action
from quire.run import pack_run, split_run
from quire.storage.serving.limits import Doorkeeper, Reception
from quire.testing.bookie import MemoryBookie
from quire.wire.certificates import TlsMode, TlsOptions
from quire.wire.identity import Identity
from tests.bookkeeper.serving.test_port import KEY, LEDGER, SOON, Scene, added, frame
from tests.contract.bookie.subjects import Ported
from tests.wire.certificates import Directory, contexts

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def served(
    options: TlsOptions | None, *, doorkeeper: Doorkeeper | None = None
) -> AsyncIterator[Scene]:
    bookie = MemoryBookie("b1")
    reception = Reception(bookie, "b1", doorkeeper=doorkeeper)
    tls = None if options is None else contexts(options)
    serving = serve_bookkeeper(reception, Ported(bookie), "127.0.0.1:0", 64, tls)
    async with serving as address:
        yield Scene(bookie, reception, address)
    await reception.ended()


@asynccontextmanager
async def linked(scene: Scene, options: TlsOptions | None, ca: Path) -> AsyncIterator[ApacheBookie]:
    """A client of quire's with START_TLS, with a certificate or without one."""
    certificate, key = (None, None) if options is None else map(str, options.files[:2])
    mine = BookieTls(str(ca), certificate, key, names=False)
    tls = ClientTls(mine, clock=time.monotonic)
    far = ApacheBookie(BookieAddress("b1", scene.address), request_timeout=SOON, tls=tls)
    try:
        yield far
    finally:
        await far.close()


async def test_a_client_with_a_certificate_writes_reads_and_fences(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    async with (
        served(files.bookie()) as scene,
        linked(scene, files.client("one"), files.ca) as writer,
        linked(scene, files.client("two"), files.ca) as taker,
    ):
        await writer.add(LEDGER, KEY, pack_run([frame(0), frame(1)]))
        run = await taker.read(LEDGER, 0, 1)
        assert [each for _, each in split_run(run)] == [frame(0), frame(1)]
        await taker.read_tail(LEDGER, fence_key=KEY)
        with pytest.raises(LedgerFencedError):
            await writer.add(LEDGER, KEY, pack_run([frame(2)]))
        large = frame(2, bytes(3_000_000))
        await taker.add(LEDGER, KEY, pack_run([large]), recovery=True)
        assert [each for _, each in split_run(await taker.read(LEDGER, 2, 2))] == [large]


async def test_batches_are_read_over_a_second_connection_with_tls(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    async with (
        served(files.bookie()) as scene,
        linked(scene, files.client("one"), files.ca) as far,
    ):
        run = pack_run(frame(each) for each in range(40))
        await far.add(LEDGER, KEY, run)
        with patch.object(single_reads, "readings", wraps=single_reads.readings) as singles:
            assert await far.read(LEDGER, 0, 99) == run
        assert not singles.called


async def test_without_tls_only_authentication_is_answered(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    async with (
        served(files.bookie()) as scene,
        scene.client() as third,
        scene.client() as second,
    ):
        await scene.bookie.add(LEDGER, KEY, pack_run([frame(0)]))
        assert (await third.third(wire3.authenticate(1, "x", b""))).status == Status.OK
        messages = [
            added(1),
            wire3.read(1, LEDGER, 0),
            wire3.read(1, LEDGER, 0, fence_key=KEY),
            wire3.poll(1, LEDGER, -1, 60_000),
            wire3.write_lac(1, LEDGER, 0, KEY, b""),
            wire3.info(1),
            *(
                wire3.of_ledger(each, 1, LEDGER)
                for each in (Operation.READ_LAC, Operation.FORCE, Operation.LIST_ENTRIES)
            ),
        ]
        for message in messages:
            answer = await third.third(message)
            assert (answer.status, answer.part.has(1)) == (Status.UNAUTHORIZED, False)
        for message in (
            wire2.add(KEY, frame(1)),
            wire2.read(LEDGER, 0),
            wire2.batch_read(1, LEDGER, 0, 1, 0),
        ):
            assert (await second.second(message)).status == Status.UNAUTHORIZED
        assert scene.reception.refusals.counts["tls"] == len(messages) + 3
        await scene.bookie.add(LEDGER, KEY, pack_run([frame(1)]))  # not fenced
        far = ApacheBookie(BookieAddress("b1", scene.address), request_timeout=SOON)
        try:
            for last in (0, 99):  # one entry, and a batch
                with pytest.raises(ClientRefusedError, match="bookie-tls=yes"):
                    await far.read(LEDGER, 0, last)
        finally:
            await far.close()
    assert "bookie-tls=yes" in TLS_ONLY


async def test_a_client_without_a_certificate_or_with_a_strange_one_is_refused(
    tmp_path: Path,
) -> None:
    files, strangers = Directory(tmp_path), Directory(tmp_path, "another authority")
    async with served(files.bookie()) as scene:
        for options in (None, strangers.client("evil")):
            async with linked(scene, options, files.ca) as far:
                with pytest.raises(BookieUnavailableError):
                    await far.add(LEDGER, KEY, pack_run([frame(0)]))
        assert scene.reception.refusals.counts["tls"] == 2
        assert LEDGER not in scene.bookie.ledgers


async def test_a_certificate_that_names_no_client_is_refused(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    nameless = files.other(None, ["one.example", "two.example"])
    async with (
        served(files.bookie()) as scene,
        linked(scene, nameless, files.ca) as far,
    ):
        with pytest.raises(ClientRefusedError):
            await far.add(LEDGER, KEY, pack_run([frame(0)]))
        with pytest.raises(ClientRefusedError):
            await far.read(LEDGER, 0, 0)
        assert scene.reception.refusals.counts["tls"] == 2
        assert LEDGER not in scene.bookie.ledgers


@pytest.mark.parametrize("cut", [None, 7])
async def test_bytes_that_came_before_the_handshake_end_the_connection(
    tmp_path: Path, cut: int | None
) -> None:
    """A third machine may have put them in: they must not count as said by the client."""
    files = Directory(tmp_path)
    async with served(files.bookie()) as scene, scene.client() as client:
        client.writer.write(wire3.start_tls(1) + added(0)[:cut])
        assert await client.is_closed()
        assert LEDGER not in scene.bookie.ledgers
        assert scene.reception.refusals.counts["tls"] == 1


async def test_start_tls_while_requests_are_under_way_is_a_bad_request(tmp_path: Path) -> None:
    """Their answers would come in plain text, or never."""
    files = Directory(tmp_path)
    async with served(files.bookie(), doorkeeper=None) as scene, scene.client() as client:
        await scene.bookie.add(LEDGER, KEY, pack_run([frame(0)]))
        client.writer.write(added(1) + wire3.start_tls(2))
        statuses = [wire3.read_answer(await client.answer()).status for _ in range(2)]
        assert sorted(statuses) == [Status.BAD_REQUEST, Status.UNAUTHORIZED]


async def test_a_handshake_that_is_none_ends_the_connection(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    async with served(files.bookie()) as scene, scene.client() as client:
        assert (await client.third(wire3.start_tls(1))).status == Status.OK
        client.writer.write(added(0))
        async with asyncio.timeout(SOON):
            rest = await client.drained()
        assert len(rest) < 64, "an alert, and nothing else"
        assert LEDGER not in scene.bookie.ledgers


async def test_inside_tls_start_tls_is_a_bad_request(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    async with served(files.bookie()) as scene, scene.client() as client:
        assert (await client.third(wire3.start_tls(1))).status == Status.OK
        options = files.client()
        context = ssl.create_default_context(cafile=str(files.ca))
        context.check_hostname = False
        context.load_cert_chain(options.certificate, options.key)
        await client.writer.start_tls(context)
        assert (await client.third(wire3.start_tls(2))).status == Status.BAD_REQUEST
        assert (await client.third(added(0))).status == Status.OK
        second = await client.second(wire2.read(LEDGER, 0))
        assert (second.status, bytes(second.body)) == (Status.OK, frame(0))


async def test_while_a_cluster_moves_to_tls_both_are_served(tmp_path: Path) -> None:
    files = Directory(tmp_path)
    options = files.bookie()
    both = TlsOptions(options.certificate, options.key, options.ca, TlsMode.OPTIONAL)
    async with (
        served(both) as scene,
        scene.client() as plain,
        linked(scene, files.client(), files.ca) as far,
    ):
        assert (await plain.third(added(0))).status == Status.OK
        await far.add(LEDGER, KEY, pack_run([frame(1)]))
        assert (await plain.third(wire3.read(1, LEDGER, 1))).status == Status.OK


async def test_new_connections_have_the_certificate_that_the_files_have_now(
    tmp_path: Path,
) -> None:
    old, new = Directory(tmp_path / "old", "an old authority"), Directory(tmp_path / "new")
    options = old.bookie()
    async with served(options) as scene:
        async with linked(scene, old.client(), old.ca) as far:
            await far.add(LEDGER, KEY, pack_run([frame(0)]))
            renewed = new.bookie()
            for at, file in zip(options.files, renewed.files, strict=True):
                shutil.copy(file, at.with_suffix(".next"))
                at.with_suffix(".next").replace(at)
            async with linked(scene, new.client(), new.ca) as later:
                await later.add(LEDGER, KEY, pack_run([frame(1)]))
            await far.add(LEDGER, KEY, pack_run([frame(2)]))  # its connection stands
        async with linked(scene, old.client(), old.ca) as late:
            with pytest.raises(BookieUnavailableError):
                await late.add(LEDGER, KEY, pack_run([frame(3)]))


class OneMayWrite:
    """Rights by name: `writer` may do everything, others read."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Action]] = []

    def admits(self, identity: Identity, action: Action, ledger: LedgerId | None, /) -> bool:
        return False

    async def check(self, identity: Identity, action: Action, ledger: LedgerId | None, /) -> None:
        self.asked.append((identity.name, action))
        if identity.name != "quire://client/writer" and action is not Action.READ:
            raise NotPermittedError(identity.name, action, f"ledger {ledger}")


async def test_rights_are_those_of_the_certificate(tmp_path: Path) -> None:
    files, rights = Directory(tmp_path), OneMayWrite()
    async with (
        served(files.bookie(), doorkeeper=rights) as scene,
        linked(scene, files.client("writer"), files.ca) as writer,
        linked(scene, files.client("reader"), files.ca) as reader,
    ):
        await writer.add(LEDGER, KEY, pack_run([frame(0)]))
        assert await reader.read(LEDGER, 0, 0)
        with pytest.raises(UnauthorizedError):
            await reader.add(LEDGER, KEY, pack_run([frame(1)]))
        with pytest.raises(UnauthorizedError):
            await reader.read(LEDGER, 0, 0, fence_key=KEY)
        await writer.add(LEDGER, KEY, pack_run([frame(1)]))
        assert rights.asked == [
            ("quire://client/writer", Action.APPEND),
            ("quire://client/reader", Action.READ),
            ("quire://client/reader", Action.READ),  # again, with its answer there
            ("quire://client/reader", Action.APPEND),
            ("quire://client/reader", Action.RECOVER),
            ("quire://client/writer", Action.APPEND),
        ]
