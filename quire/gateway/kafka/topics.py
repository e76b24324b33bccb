"""Requests about topics: which there are, and where; creation, deletion, options, ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.errors import (
    InvalidRequestError,
    LogExistsError,
    NoSuchLogError,
    PositionTrimmedError,
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
from quire.gateway.kafka.errors import code_of
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.nodes import BrokerNode, first_guess, node_at
from quire.log.records.position import BEGINNING
from quire.rights.roles import Action

LATEST, EARLIEST = -1, -2
"""Times of a question for an offset that are not times."""

_OPTIONS: Final = {"retention.ms": "retention_seconds", "retention.bytes": "retention_bytes"}
_TOPIC_RESOURCE: Final = 2
_DEFAULT_SOURCE, _TOPIC_SOURCE = 5, 1
_LONG: Final = 5


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
    return [each for each in found if is_topic(each) and broker.may(session, Action.OBSERVE, each)]


async def _topic(
    broker: Broker, session: KafkaSession, name: str, request: Any, nodes: dict[int, BrokerNode]
) -> Fields:
    fields: dict[str, Any] = {"name": name, "topic_id": None, "partitions": []}
    fields["error_code"] = ErrorCode.none
    try:
        check_topic(name)
        broker.check(session, Action.OBSERVE, name)
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
        check_topic(topic.name)
        check_log(topic.name)
        broker.check(session, Action.APPEND, topic.name)
    except QuireError as error:
        code = code_of(error)
        if code is ErrorCode.invalid_request:
            code = ErrorCode.invalid_topic_exception
        return fields | {"error_code": code, "error_message": str(error)}
    if topic.num_partitions not in (-1, 1):
        message = "a log is a topic with one partition: ask for 1"
        return fields | {"error_code": ErrorCode.invalid_partitions, "error_message": message}
    try:
        options = _options({each.name: each.value for each in topic.configs})
    except InvalidRequestError as error:
        return fields | {"error_code": ErrorCode.invalid_config, "error_message": str(error)}
    try:
        if not request.validate_only:
            await broker.client.create_log(topic.name, options)
        elif await _exists(broker, topic.name):
            raise LogExistsError(topic.name)
    except QuireError as error:
        return fields | {"error_code": code_of(error), "error_message": str(error)}
    return fields | {
        "error_code": ErrorCode.none,
        "error_message": None,
        "num_partitions": 1,
        "replication_factor": 1,
    }


def _options(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the options of a log that Kafka's stand for. Raises `InvalidRequestError`."""
    options: dict[str, str] = {}
    for name, value in configs.items():
        if name == "cleanup.policy" and value == "delete":
            continue
        if name not in _OPTIONS or value is None:
            known = ", ".join(_OPTIONS)
            raise InvalidRequestError(
                f"{name}={value}: a log has {known}, and cleanup.policy=delete"
            )
        try:
            number = int(value)
        except ValueError:
            raise InvalidRequestError(f"{name}={value!r} is not a number") from None
        if number >= 0:  # −1: without a limit, which is a log's default
            options[_OPTIONS[name]] = str(number / 1000 if name.endswith(".ms") else number)
    return options


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


async def describe_configs(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer DescribeConfigs: the options that Kafka has a name for."""
    return {"results": [await _describe_one(broker, session, each) for each in request.resources]}


async def _describe_one(broker: Broker, session: KafkaSession, asked: Any) -> Fields:
    name = asked.resource_name
    fields = {"resource_type": asked.resource_type, "resource_name": name, "configs": []}
    if asked.resource_type != _TOPIC_RESOURCE:
        return fields | {"error_code": ErrorCode.none, "error_message": None}
    try:
        broker.check(session, Action.OBSERVE, name)
        options = (await broker.client.log_info(name)).options
    except QuireError as error:
        return fields | {"error_code": code_of(error), "error_message": str(error)}
    configs = [_config("cleanup.policy", "delete", _DEFAULT_SOURCE)]
    for kafka, ours in _OPTIONS.items():
        value = options.get(ours)
        source = _DEFAULT_SOURCE if value is None else _TOPIC_SOURCE
        if value is not None and kafka.endswith(".ms"):
            value = str(round(float(value) * 1000))
        configs.append(_config(kafka, value or "-1", source))
    wanted = asked.configuration_keys
    chosen = [each for each in configs if wanted is None or each["name"] in wanted]
    return fields | {"error_code": ErrorCode.none, "error_message": None, "configs": chosen}


def _config(name: str, value: str, source: int) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "read_only": False,
        "config_source": source,
        "is_default": source == _DEFAULT_SOURCE,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": _LONG,
        "documentation": None,
    }


async def list_offsets(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer ListOffsets: the ends of topics, or the first offset from a time on."""
    topics = []
    for topic in request.topics:
        partitions = [await _offset(broker, session, topic.name, each) for each in topic.partitions]
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


async def _offset(broker: Broker, session: KafkaSession, name: str, asked: Any) -> Fields:
    fields = {"partition_index": asked.partition_index}
    if asked.partition_index != PARTITION:
        return fields | {"error_code": ErrorCode.unknown_topic_or_partition}
    try:
        broker.check(session, Action.READ, name)
        time_ms, offset = await _look_up(broker, name, asked.timestamp)
    except QuireError as error:
        return fields | {"error_code": code_of(error)}
    return fields | {
        "error_code": ErrorCode.none,
        "timestamp": time_ms,
        "offset": offset,
        "leader_epoch": -1,
    }


async def _look_up(broker: Broker, name: str, time_ms: int) -> tuple[int, int]:
    if time_ms == LATEST:
        return -1, (await broker.client.log_end(name)).offset
    if time_ms == EARLIEST:
        return -1, await first_offset(broker, name)
    if time_ms < 0:
        raise InvalidRequestError(f"time {time_ms} of a question for an offset is not known")
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return -1, -1
    async with broker.client.read_log(name, moment) as reader:
        async for record in reader:
            return record.timestamp_ms, record.offset
    return -1, -1


async def first_offset(broker: Broker, name: str) -> int:
    """Return the offset of a log's first record, or of the next one if it has none."""
    while True:
        end = (await broker.client.log_end(name)).offset
        with suppress(PositionTrimmedError):
            async with broker.client.read_log(name, BEGINNING) as reader:
                async for record in reader:
                    return record.offset
            return end
