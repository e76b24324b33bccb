"""A log with the name of an election of gateways: said at once, over each protocol."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import InvalidTopicError

from quire.errors import InvalidRequestError
from quire.gateway.elections import GATEWAYS, check_log, election_of_group
from quire.gateway.rpc import logs_pb2 as pb
from quire.testing.cluster import MemoryCluster
from tests.gateway import test_app
from tests.gateway.kafka import test_clients
from tests.gateway.rpc.serving import fact, request
from tests.gateway.rpc.serving import serving as serving_grpc


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.mark.parametrize("name", [GATEWAYS, election_of_group("billing")])
def test_gateways_write_no_log_that_their_elections_lead(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="give the log another name"):
        check_log(name)


def test_names_that_only_look_alike_are_free() -> None:
    for name in (f"{GATEWAYS}2", "kafka-groups", "kafka-group", GATEWAYS.upper()):
        check_log(name)


async def test_over_http(cluster: MemoryCluster) -> None:
    async with test_app.serving(cluster) as one:
        path = f"/v1/logs/{GATEWAYS}"
        records = {"value": "a"}
        for answer in (
            await one.http.put(path),
            await one.http.post(f"{path}/records", json=records),
        ):
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
        assert await one.gateway.client.list_logs() == []


@pytest.mark.real_time
async def test_over_grpc(cluster: MemoryCluster) -> None:
    async with serving_grpc(cluster) as one:
        for call in (
            one.logs.CreateLog(pb.CreateLogRequest(log=GATEWAYS)),
            one.append(request(b"a", log=GATEWAYS)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert fact(caught.value) == "invalid_request"


@pytest.mark.real_time
async def test_over_kafkas_protocol() -> None:
    async with test_clients.cluster() as client, test_clients.serving(client) as address:
        admin = AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        try:
            answer = await admin.create_topics([NewTopic(GATEWAYS, 1, 1)])
        finally:
            await admin.close()
        assert [each[1] for each in answer.topic_errors] == [InvalidTopicError.errno]
        assert await client.list_logs() == []
