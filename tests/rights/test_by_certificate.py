"""Rights over mutual TLS: the name in a certificate decides, at both ports of a bookie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quire.bookie import BookieAddress, TlsPorts
from quire.errors import NotPermittedError
from quire.ledger.links import link_bookie
from quire.ledger.remote import RemoteBookie
from quire.rights.roles import Role
from quire.rights.table import AccessRule
from quire.storage.serving.grpc_service import serve_bookie
from quire.testing.bookie import MemoryBookie
from quire.wire.certificates import TlsOptions
from tests.rights.scene import APP, scene
from tests.wire.certificates import Directory, contexts
from tests.wire.link import KEY, SOON, run_of

HERE = "127.0.0.1:0"


@asynccontextmanager
async def linked(address: BookieAddress, options: TlsOptions | None) -> AsyncIterator[RemoteBookie]:
    tls = None if options is None else contexts(options)
    stub = link_bookie(address, request_timeout=SOON, tls=tls)
    assert isinstance(stub, RemoteBookie)
    try:
        yield stub
    finally:
        await stub.close()


async def denied_to(stub: RemoteBookie) -> list[tuple[str, str]]:
    """The identity and the right in each denial of a read and an add."""
    found = []
    for call in (lambda: stub.read(7, 0, 0), lambda: stub.add(7, KEY, run_of(1))):
        try:
            await call()
        except NotPermittedError as error:
            found.append((error.identity, error.action))
    return found


@pytest.mark.real_time
@pytest.mark.parametrize("frames", [True, False])
async def test_a_reader_is_known_by_its_certificate(tmp_path: Path, frames: bool) -> None:
    files, bookie = Directory(tmp_path), MemoryBookie("b1")
    await bookie.add(7, KEY, run_of(0))
    runs = HERE if frames else None
    async with asyncio.timeout(SOON), scene() as rights:
        await rights.set(AccessRule(APP.name, Role.READER))
        async with serve_bookie(
            *(bookie, "b1", HERE, runs),
            tls=contexts(files.bookie()),
            beside=TlsPorts(HERE, runs),
            doorkeeper=rights.guard,
            drain_seconds=0.0,
        ) as address:
            for options, name, denied in (
                (files.client("app"), APP.name, ["append"]),
                (files.client("other"), "quire://client/other", ["read", "append"]),
                (None, "anonymous", ["read", "append"]),
            ):
                async with linked(address, options) as stub:
                    assert await denied_to(stub) == [(name, action) for action in denied]
    assert await bookie.list_entries(7) == [(0, 0)]
