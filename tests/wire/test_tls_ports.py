"""TLS on both ports of a bookie, with real connections of this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from quire.bookie import QUIRE, QUIRE_TLS, BookieAddress, TlsPorts
from quire.errors import (
    BookieUnavailableError,
    ClientRefusedError,
    QuireError,
    TlsMismatchError,
    UntrustedBookieError,
)
from quire.ledger.links import link_bookie
from quire.ledger.remote import RemoteBookie
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.wire.certificates import TlsMode, TlsOptions
from quire.wire.tls import Contexts
from tests.wire.certificates import Directory, contexts
from tests.wire.link import KEY, SOON, run_of

HERE = "127.0.0.1:0"


@asynccontextmanager
async def served(
    tls: Contexts | None, *, beside: bool = False, frames: bool = True
) -> AsyncIterator[BookieAddress]:
    runs = HERE if frames else None
    async with asyncio.timeout(SOON):
        async with serve_bookie(
            *(MemoryBookie("b1"), "b1", HERE, runs),
            tls=tls,
            beside=TlsPorts(HERE, runs) if beside else None,
            drain_seconds=0.0,
        ) as address:
            yield address


@asynccontextmanager
async def linked(address: BookieAddress, tls: Contexts | None) -> AsyncIterator[RemoteBookie]:
    stub = link_bookie(address, request_timeout=SOON, tls=tls)
    assert isinstance(stub, RemoteBookie)
    try:
        yield stub
    finally:
        await stub.close()


async def outcome(stub: RemoteBookie, entry: int = 0) -> list[type[QuireError] | None]:
    """How an add and a read end."""
    found: list[type[QuireError] | None] = []
    for call in (lambda: stub.add(7, KEY, run_of(entry)), lambda: stub.list_entries(7)):
        try:
            await call()
        except QuireError as error:
            found.append(type(error))
        else:
            found.append(None)
    return found


@pytest.mark.parametrize("frames", [True, False])
def test_a_bookie_and_a_client_trust_each_other(tmp_path: Path, frames: bool) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with (
            served(contexts(files.bookie()), frames=frames) as address,
            linked(address, contexts(files.client())) as stub,
        ):
            assert address.protocol == QUIRE_TLS
            assert (address.runs is not None) == frames
            await stub.add(7, KEY, run_of(0))
            await stub.add(7, KEY, run_of(1, 3_000_000))
            assert await stub.list_entries(7) == [(0, 1)]
            assert len(await stub.read(7, 1, 1)) > 3_000_000

    asyncio.run(main())


def client_of_another_authority(files: Directory) -> TlsOptions:
    stranger = Directory(files.path / "stranger", "another authority")
    return replace(stranger.client(), ca=files.ca)


@pytest.mark.parametrize("frames", [True, False])
def test_a_client_of_another_authority_is_refused_by_name(tmp_path: Path, frames: bool) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with (
            served(contexts(files.bookie()), frames=frames) as address,
            linked(address, contexts(client_of_another_authority(files))) as stub,
        ):
            assert await outcome(stub) == [ClientRefusedError, ClientRefusedError]
            with pytest.raises(ClientRefusedError, match="authority"):
                await stub.add(7, KEY, run_of(0))

    asyncio.run(main())


@pytest.mark.parametrize("frames", [True, False])
def test_a_client_whose_certificate_has_ended_is_refused_by_name(
    tmp_path: Path, frames: bool
) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        ended = contexts(files.client(seconds=-60.0), clock=lambda: time.time() - 200.0)
        async with (
            served(contexts(files.bookie()), frames=frames) as address,
            linked(address, ended) as stub,
        ):
            assert await outcome(stub) == [ClientRefusedError, ClientRefusedError]
            with pytest.raises(ClientRefusedError, match="ended"):
                await stub.add(7, KEY, run_of(0))

    asyncio.run(main())


@pytest.mark.parametrize("frames", [True, False])
def test_another_bookie_at_the_address_is_not_believed(tmp_path: Path, frames: bool) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with (
            served(contexts(files.bookie("b2")), frames=frames) as address,
            linked(address, contexts(files.client())) as stub,
        ):
            assert await outcome(stub) == [UntrustedBookieError, UntrustedBookieError]
            with pytest.raises(UntrustedBookieError, match="not of bookie b1"):
                await stub.add(7, KEY, run_of(0))

    asyncio.run(main())


@pytest.mark.parametrize("frames", [True, False])
def test_a_bookie_of_another_authority_is_not_believed(tmp_path: Path, frames: bool) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        stranger = Directory(tmp_path / "stranger", "another authority")
        wrong = replace(files.client(), ca=stranger.ca)
        async with (
            served(contexts(files.bookie()), frames=frames) as address,
            linked(address, contexts(wrong)) as stub,
        ):
            assert await outcome(stub) == [UntrustedBookieError, UntrustedBookieError]
            with pytest.raises(UntrustedBookieError, match="not accepted"):
                await stub.add(7, KEY, run_of(0))

    asyncio.run(main())


@pytest.mark.parametrize("frames", [True, False])
def test_a_bookie_whose_certificate_has_ended_is_not_believed(tmp_path: Path, frames: bool) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        ended = contexts(files.bookie(seconds=-60.0), clock=lambda: time.time() - 200.0)
        async with (
            served(ended, frames=frames) as address,
            linked(address, contexts(files.client())) as stub,
        ):
            assert await outcome(stub) == [UntrustedBookieError, UntrustedBookieError]

    asyncio.run(main())


def test_a_program_without_certificates_does_not_try(tmp_path: Path) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with served(contexts(files.bookie())) as address:
            with pytest.raises(TlsMismatchError, match="TLS connections only"):
                link_bookie(address)

    asyncio.run(main())


def test_a_client_without_tls_is_told_by_the_port_for_frames(tmp_path: Path) -> None:
    """As a program that reads an old registration."""

    async def main() -> None:
        files = Directory(tmp_path)
        async with (
            served(contexts(files.bookie())) as address,
            linked(replace(address, protocol=QUIRE), None) as stub,
        ):
            with pytest.raises(ClientRefusedError, match="TLS connections only"):
                await stub.add(7, KEY, run_of(0))
            with pytest.raises(BookieUnavailableError):
                await stub.list_entries(7)

    asyncio.run(main())


@pytest.mark.parametrize("frames", [True, False])
def test_a_client_with_tls_is_told_by_a_port_without(tmp_path: Path, frames: bool) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with (
            served(None, frames=frames) as address,
            linked(replace(address, protocol=QUIRE_TLS), contexts(files.client())) as stub,
        ):
            assert await outcome(stub) == [UntrustedBookieError, UntrustedBookieError]

    asyncio.run(main())


def test_both_kinds_of_clients_are_served_during_a_roll_out(tmp_path: Path) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with served(contexts(files.bookie()), beside=True) as address:
            assert address.protocol == QUIRE
            assert address.tls is not None
            for entry, tls in enumerate((None, contexts(files.client()))):
                async with linked(address, tls) as stub:
                    assert stub.address.address == ((tls and address.tls) or address).address
                    assert await outcome(stub, entry) == [None, None]

    asyncio.run(main())


def test_a_client_that_wants_tls_uses_no_port_without(tmp_path: Path) -> None:
    async def main() -> None:
        files = Directory(tmp_path)
        async with served(None) as address:
            with pytest.raises(TlsMismatchError, match="no TLS"):
                link_bookie(address, tls=contexts(files.client()))
            tls = contexts(files.client(mode=TlsMode.OPTIONAL))
            async with linked(address, tls) as stub:
                assert await outcome(stub) == [None, None]

    asyncio.run(main())
