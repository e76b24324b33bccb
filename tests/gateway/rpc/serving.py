"""A gateway for gRPC over a cluster in memory, with real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

import quire
from quire.gateway.app import Gateway
from quire.gateway.limits import GatewayLimits
from quire.gateway.owners import Owners
from quire.gateway.rpc import logs_pb2 as pb
from quire.gateway.rpc import logs_pb2_grpc
from quire.gateway.rpc.port import RpcPort
from quire.gateway.tokens import Token
from quire.rights.guard import Guard
from quire.testing.cluster import MemoryCluster

LOG = "orders"


class Served:
    """A gateway of this process, and a client of its port."""

    def __init__(self, gateway: Gateway, address: str, channel: grpc.aio.Channel) -> None:
        self.gateway = gateway
        self.client = gateway.client
        self.address = address
        self.logs: Any = logs_pb2_grpc.LogsStub(channel)

    async def append(self, *requests: pb.AppendRequest, **more: Any) -> list[pb.AppendReply]:
        """The answers to requests of one stream."""
        return [each async for each in self.logs.Append(iter(requests), **more)]

    async def read(self, **query: Any) -> list[pb.Record]:
        """The records that a call of Read gives."""
        call = self.logs.Read(pb.ReadRequest(log=LOG, **query))
        return [record async for reply in call for record in reply.records]

    async def payloads(self) -> list[bytes]:
        """The payloads of all records, the last ones included."""
        return [each.payload async for each in self.client.read_log(LOG, recover=True)]


def request(*payloads: bytes, log: str = LOG, **more: Any) -> pb.AppendRequest:
    """A message of Append."""
    return pb.AppendRequest(log=log, records=map(_record, payloads), **more)


def _record(payload: bytes) -> pb.NewRecord:
    return pb.NewRecord(payload=payload)


def numbered(first: int, payloads: Iterable[bytes]) -> list[pb.AppendRequest]:
    """Messages of a producer, numbered from a sequence on."""
    return [
        request(each, producer=pb.Producer(id="shop", sequence=number))
        for number, each in enumerate(payloads, first)
    ]


@asynccontextmanager
async def serving(
    cluster: MemoryCluster,
    limits: GatewayLimits | None = None,
    tokens: tuple[Token, ...] = (),
    guard: Guard | None = None,
) -> AsyncIterator[Served]:
    """Have a gateway in the block."""
    limits = limits or GatewayLimits()
    async with quire.connect(cluster.store_uri) as client:
        port = RpcPort(limits.connections)
        address = port.bind("127.0.0.1:0")
        owners = Owners(client, f"http://{address}", limits, None, None, address)
        gateway = Gateway(client, owners, limits, tokens, guard)
        async with grpc.aio.insecure_channel(address) as channel, port.serve(gateway):
            try:
                yield Served(gateway, address, channel)
            finally:
                gateway.is_ending = True
                await owners.close()


def metadata(error: Any) -> dict[str, str | bytes]:
    """The trailing metadata of an error, which the types of grpcio do not know."""
    return dict(error.trailing_metadata() or ())


def fact(error: grpc.aio.AioRpcError, key: str = "quire-error") -> str | None:
    """A value of the trailing metadata."""
    found = metadata(error).get(key)
    return None if found is None else str(found)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the server does after its client has left; the limit of the test bounds it."""
    while not condition():  # noqa: ASYNC110 - no event tells the client
        await asyncio.sleep(0.01)
