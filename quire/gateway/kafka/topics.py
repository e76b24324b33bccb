"""Requests about topics: which there are, and where; creation and deletion."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.errors import (
    InvalidRequestError,
    LogExistsError,
    NoSuchLogError,
    QuireError,
)
from quire.gateway.answers import GatewayError
from quire.gateway.elections import check_log
from quire.gateway.kafka.broker import (
    PARTITION,
    Broker,
    KafkaSession,
    check_topic,
    is_topic,
)
from quire.gateway.kafka.configs import log_options, topic_configs
from quire.gateway.kafka.errors import code_of
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.nodes import BrokerNode, first_guess, node_at
from quire.rights.roles import Action

_ONE_PARTITION: Final = "a log is a topic with one partition: ask for 1"
_COPIES: Final = "the gateway decides how many copies a log has: ask for -1, or for 1 or more"


async def describe(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer Metadata: the gateways, and the topics with their leaders."""
    names = await _wanted(broker, session, request)
    nodes = {each.id: each for each in await broker.nodes.known()}
    controller = min(nodes, default=-1)
    topics = [await _topic(broker, session, name, request, nodes) for name in names]
    return {
        "brokers": [
            {"node_id": each.id, "host": each.host, "port": each.port} for each in nodes.values()
        ],
        "cluster_id": "quire",
        "controller_id": controller,
        "topics": topics,
    }


async def _wanted(broker: Broker, session: KafkaSession, request: Any) -> list[str]:
    if request.topics is not None:
        return [each.name for each in request.topics if each.name is not None]
    found = await broker.client.list_logs()
    return [each for each in found if is_topic(each) and broker.may_describe(session, each)]


async def _topic(
    broker: Broker, session: KafkaSession, name: str, request: Any, nodes: dict[int, BrokerNode]
) -> Fields:
    fields: dict[str, Any] = {"name": name, "topic_id": None, "partitions": []}
    fields["error_code"] = ErrorCode.none
    try:
        broker.check_described(session, name)
        check_topic(name)
        if request.topics is not None and not await _exists(broker, name):
            if not getattr(request, "allow_auto_topic_creation", True):
                return fields | {"error_code": ErrorCode.unknown_topic_or_partition}
            broker.check(session, Action.APPEND, name)
            check_log(name)
            with suppress(LogExistsError):
                await broker.client.create_log(name)
        leader = await _leader(broker, name, list(nodes.values()))
    except (QuireError, GatewayError) as error:
        code = code_of(error)
        if code is ErrorCode.invalid_request:
            code = ErrorCode.invalid_topic_exception
        return fields | {"error_code": code}
    if leader is None:
        partition = {"error_code": ErrorCode.leader_not_available, "leader_id": -1, "nodes": []}
    else:
        nodes[leader.id] = leader
        partition = {"error_code": ErrorCode.none, "leader_id": leader.id, "nodes": [leader.id]}
    replicas = partition.pop("nodes")
    partition |= {"partition_index": PARTITION, "replica_nodes": replicas, "isr_nodes": replicas}
    return fields | {"partitions": [partition]}


async def _exists(broker: Broker, name: str) -> bool:
    try:
        await broker.client.log_info(name)
    except NoSuchLogError:
        return False
    return True


async def _leader(broker: Broker, name: str, nodes: list[BrokerNode]) -> BrokerNode | None:
    """Return the gateway that writes a log, or that should if no candidate leads it.

    None: a program that does not speak this protocol leads it, or this gateway, which ends.
    """
    found = await broker.owners.leading(name)
    if found is None:
        return first_guess(name, nodes)
    node = None if found.kafka is None else node_at(found.kafka)
    return None if node == broker.nodes.mine and node not in nodes else node


async def create(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer CreateTopics."""
    made = [await _create(broker, session, each, request) for each in request.topics]
    return {"topics": made}


async def _create(broker: Broker, session: KafkaSession, topic: Any, request: Any) -> Fields:
    fields = {"name": topic.name, "topic_id": None, "configs": []}
    try:
        broker.check(session, Action.APPEND, topic.name)
        check_topic(topic.name)
        check_log(topic.name)
    except QuireError as error:
        code = code_of(error)
        if code is ErrorCode.invalid_request:
            code = ErrorCode.invalid_topic_exception
        return fields | {"error_code": code, "error_message": str(error)}
    if topic.num_partitions not in (-1, 1) or len(topic.assignments) > 1:
        code = ErrorCode.invalid_partitions
        return fields | {"error_code": code, "error_message": _ONE_PARTITION}
    if topic.replication_factor != -1 and topic.replication_factor < 1:
        code = ErrorCode.invalid_replication_factor
        return fields | {"error_code": code, "error_message": _COPIES}
    try:
        given = log_options({each.name: each.value for each in topic.configs})
        options = {option: value for option, value in given.items() if value}
    except InvalidRequestError as error:
        return fields | {"error_code": ErrorCode.invalid_config, "error_message": str(error)}
    try:
        if not request.validate_only:
            await broker.client.create_log(topic.name, options)
        elif await _exists(broker, topic.name):
            raise LogExistsError(topic.name)
    except QuireError as error:
        return fields | {"error_code": code_of(error), "error_message": str(error)}
    fields |= {"error_code": ErrorCode.none, "error_message": None}
    if not broker.may(session, Action.OBSERVE, topic.name):
        return fields | {"topic_config_error_code": ErrorCode.topic_authorization_failed.value}
    told = {"num_partitions": 1, "replication_factor": 1, "configs": topic_configs(options)}
    return fields | told


async def delete(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer DeleteTopics."""
    answers = []
    for name in request.topic_names:
        code, message = ErrorCode.none, None
        try:
            broker.check(session, Action.OPERATE, name)
            await broker.client.delete_log(name)
        except QuireError as error:
            code, message = code_of(error), str(error)
        answers.append({"name": name, "error_code": code, "error_message": message})
    return {"responses": answers}


async def create_partitions(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer CreatePartitions: refuse."""
    results = []
    for topic in request.topics:
        code, message = ErrorCode.invalid_partitions, _ONE_PARTITION
        try:
            broker.check(session, Action.OPERATE, topic.name)
            await broker.client.log_info(topic.name)
        except QuireError as error:
            code, message = code_of(error), str(error)
        results.append({"name": topic.name, "error_code": code, "error_message": message})
    return {"results": results}
