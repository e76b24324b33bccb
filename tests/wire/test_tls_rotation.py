"""Certificates that change while a bookie serves: no append fails, new connections have the new."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from quire.bookie import BookieAddress
from quire.errors import ClientRefusedError, UntrustedBookieError
from quire.ledger import freshness
from quire.wire.identity import client_identity
from quire.wire.tls import Contexts
from tests.wire.certificates import Directory, contexts
from tests.wire.link import KEY, run_of
from tests.wire.test_tls_ports import linked, served


@pytest.fixture(autouse=True)
def _look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "LOOK_SECONDS", 0.0)


@pytest.mark.parametrize("frames", [True, False])
def test_new_certificates_are_used_and_no_append_fails(tmp_path: Path, frames: bool) -> None:
    """In the middle of runs under way, and in their order."""

    async def main() -> None:
        files = Directory(tmp_path)
        server, client = contexts(files.bookie()), contexts(files.client("old"))
        async with served(server, frames=frames) as address, linked(address, client) as stub:
            adds = []
            for entry in range(60):
                if entry == 30:
                    files.bookie()
                    files.authority.client("new").write(tmp_path, "client-old")
                adds.append(asyncio.ensure_future(stub.add(7, KEY, run_of(entry, 10_000))))
                if entry % 10 == 9:
                    await adds[entry - 5]
            await asyncio.gather(*adds)
            assert await stub.list_entries(7) == [(0, 59)]
            assert client.certificates.credentials.identity == client_identity("new")
            assert len(stub._before) == 1, "the stream was replaced once"

    asyncio.run(main())


async def refused(address: BookieAddress, tls: Contexts) -> str:
    async with linked(address, tls) as stub:
        with pytest.raises(ClientRefusedError) as on_frames:
            await stub.add(7, KEY, run_of(0))
        with pytest.raises(ClientRefusedError):
            await stub.list_entries(7)
        return on_frames.value.reason


def test_an_authority_that_is_removed_shuts_its_clients_out(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = Directory(tmp_path, "old authority"), Directory(tmp_path, "new authority")
        both = tmp_path / "both.pem"
        both.write_bytes(old.authority.pair.certificate + new.authority.pair.certificate)
        server = contexts(replace(new.bookie(), ca=both))
        async with served(server) as address:
            leaving = contexts(replace(old.client("leaving"), ca=both))
            async with linked(address, leaving) as stub:
                await stub.add(7, KEY, run_of(0))
            both.write_bytes(new.authority.pair.certificate)
            async with linked(address, contexts(new.client("staying"))) as stub:
                await stub.add(7, KEY, run_of(1))
            trusts_both = tmp_path / "more.pem"
            trusts_both.write_bytes(old.authority.pair.certificate + new.authority.pair.certificate)
            leaving = contexts(replace(old.client("leaving"), ca=trusts_both))
            assert "does not trust the authority" in await refused(address, leaving)

    asyncio.run(main())


def test_a_stream_before_that_loses_runs_breaks_the_one_after_it(tmp_path: Path) -> None:
    """As one stream would: nothing may be stored behind a run that was lost."""

    async def main() -> None:
        files = Directory(tmp_path)
        async with (
            served(contexts(files.bookie())) as address,
            linked(address, contexts(files.client())) as stub,
        ):
            await stub.add(7, KEY, run_of(0))
            first = [asyncio.ensure_future(stub.add(7, KEY, run_of(1)))]
            files.client()
            after = asyncio.ensure_future(stub.add(7, KEY, run_of(2)))
            assert len(stub._before) == 1
            stub._before[0]._break(UntrustedBookieError("b1", "a loss"))
            results = await asyncio.gather(*first, after, return_exceptions=True)
            assert [str(result) for result in results] == ["bookie b1 is unavailable: a loss"] * 2
            await stub.add(7, KEY, run_of(1))

    asyncio.run(main())


def test_the_old_channel_serves_its_calls_to_their_end(tmp_path: Path) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with (
            served(contexts(files.bookie())) as address,
            linked(address, contexts(files.client())) as stub,
        ):
            await stub.add(7, KEY, run_of(0))
            waiting = asyncio.ensure_future(stub.wait_tail(7, 5, 30.0))
            await stub.info()
            for renewed in ("once", "twice"):
                files.authority.client(renewed).write(tmp_path, "client-tests")
                assert (await stub.list_entries(7))[0][0] == 0
                if renewed == "once":
                    await stub.add(7, KEY, run_of(10))
                    assert (await waiting).hint == 9

    asyncio.run(main())
