"""Requests about options: of topics, which are options of logs, and of gateways.

Options of a gateway hold from its start on: they are told, and not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quire.errors import InvalidRequestError, NotPermittedError, QuireError
from quire.gateway.kafka.broker import Broker, KafkaSession
from quire.gateway.kafka.errors import code_of
from quire.gateway.kafka.messages import Fields
from quire.log.manifest.options import of_log
from quire.log.records.batch import BATCH_BYTES_MAX
from quire.rights.roles import Action

_OPTIONS: Final = {"retention.ms": "retention_seconds", "retention.bytes": "retention_bytes"}
_POLICY: Final = "cleanup.policy"
_DEFAULTS: Final = {_POLICY: "delete", **dict.fromkeys(_OPTIONS, "-1")}
"""Values of options that were not set. A log has no limit by default."""

_LONG_MAX: Final = 2**63 - 1
"""Both options are 64-bit numbers to Kafka's clients."""

_TOPIC, _BROKER, _GROUP = 2, 4, 32
"""Kinds of resources."""

_OF_CLUSTER: Final = frozenset({_BROKER, 8, 16})
"""Brokers, their loggers, and metrics of clients."""

_SET, _DELETE = 0, 1
"""Operations on an option."""

_BOOLEAN, _STRING, _INT, _LONG, _LIST = 1, 2, 3, 5, 7
_OF_TOPIC, _OF_GATEWAY, _DEFAULT = 1, 4, 5
"""Sources of a value."""


def log_options(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the options of a log that Kafka's stand for; "" means no limit.

    Raises `InvalidRequestError`, also for a value that a log does not take.
    """
    options: dict[str, str] = {}
    for name, value in configs.items():
        if name == _POLICY and value == _DEFAULTS[_POLICY]:
            continue
        if name not in _OPTIONS or value is None:
            known = ", ".join(_OPTIONS)
            raise InvalidRequestError(
                f"{name}={value}: a log has {known}, and cleanup.policy=delete"
            )
        options[_OPTIONS[name]] = _option(name, value)
    of_log({name: text for name, text in options.items() if text})
    return options


def _option(name: str, value: str) -> str:
    try:
        number = int(value)
    except ValueError:
        raise InvalidRequestError(f"{name}={value!r} is not a number") from None
    if not -1 <= number <= _LONG_MAX:
        raise InvalidRequestError(f"{name}={value!r} is not a number from -1 to {_LONG_MAX}")
    if number == -1:
        return ""
    return str(number / 1000 if name.endswith(".ms") else number)


async def describe_configs(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer DescribeConfigs: the options that Kafka has a name for."""
    return {"results": [await _describe(broker, session, each) for each in request.resources]}


async def _describe(broker: Broker, session: KafkaSession, asked: Any) -> Fields:
    fields = _answer_to(asked) | {"configs": []}
    try:
        configs = await _configs(broker, session, asked)
    except QuireError as error:
        return fields | {"error_code": _code(asked, error), "error_message": str(error)}
    wanted = asked.configuration_keys
    return fields | {"configs": [each for each in configs if not wanted or each["name"] in wanted]}


def _answer_to(asked: Any) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
    }


def _check(broker: Broker, session: KafkaSession, asked: Any, action: Action) -> None:
    """Raise `NotPermittedError` unless the caller may do it to a resource. Groups belong to no
    topic, so they need the right on all logs.
    """
    if asked.resource_type == _TOPIC:
        broker.check(session, action, asked.resource_name)
    elif asked.resource_type in _OF_CLUSTER or asked.resource_type == _GROUP:
        broker.check(session, action, None)


def _code(asked: Any, error: QuireError) -> ErrorCode:
    if isinstance(error, NotPermittedError) and asked.resource_type == _GROUP:
        return ErrorCode.group_authorization_failed
    return code_of(error)


async def _configs(broker: Broker, session: KafkaSession, asked: Any) -> list[dict[str, Any]]:
    _check(broker, session, asked, Action.OBSERVE)
    if asked.resource_type == _TOPIC:
        return topic_configs((await broker.client.log_info(asked.resource_name)).options)
    if asked.resource_type != _BROKER:
        raise InvalidRequestError(
            f"resources of kind {asked.resource_type}: topics ({_TOPIC}) and brokers ({_BROKER})"
            " have options"
        )
    if not asked.resource_name:
        return []  # of all brokers
    if asked.resource_name != str(broker.nodes.mine.id):
        raise InvalidRequestError(
            f"broker {asked.resource_name!r} is not this one, {broker.nodes.mine.id}: ask that one"
        )
    return _of_gateway(broker)


def topic_configs(options: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the options of a log as Kafka's clients are told."""
    configs = [_config(_POLICY, _DEFAULTS[_POLICY], _DEFAULT, _LIST)]
    for kafka, ours in _OPTIONS.items():
        value = options.get(ours)
        source = _DEFAULT if value is None else _OF_TOPIC
        if value is not None and kafka.endswith(".ms"):
            seconds = float(value)
            value = _DEFAULTS[kafka] if isinf(seconds) else str(round(seconds * 1000))
        configs.append(_config(kafka, value or _DEFAULTS[kafka], source, _LONG))
    return configs


def _of_gateway(broker: Broker) -> list[dict[str, Any]]:
    told = (
        ("advertised.listeners", broker.listener, _STRING),
        ("auto.create.topics.enable", "true", _BOOLEAN),
        ("default.replication.factor", "1", _INT),
        ("message.max.bytes", str(BATCH_BYTES_MAX), _INT),
        ("num.partitions", "1", _INT),
    )
    return [_config(*each[:2], _OF_GATEWAY, each[2], read_only=True) for each in told]


def _config(
    name: str, value: str, source: int, kind: int, *, read_only: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "read_only": read_only,
        "config_source": source,
        "is_default": source == _DEFAULT,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": kind,
        "documentation": None,
    }


async def alter_configs(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer AlterConfigs: the options are those of the request, and defaults otherwise."""
    return {
        "responses": [
            await _alter(broker, session, each, _whole(each), request.validate_only)
            for each in request.resources
        ]
    }


async def alter_some_configs(broker: Broker, session: KafkaSession, request: Any) -> Fields:
    """Answer IncrementalAlterConfigs: options of the request, and no others."""
    return {
        "responses": [
            await _alter(broker, session, each, _some(each), request.validate_only)
            for each in request.resources
        ]
    }


def _whole(asked: Any) -> dict[str, str | None]:
    return {**_DEFAULTS, **{each.name: each.value for each in asked.configs}}


def _some(asked: Any) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for each in asked.configs:
        if each.config_operation not in (_SET, _DELETE):
            changes[f"{each.name} (appended or subtracted)"] = each.value  # no list has parts
        else:
            changes[each.name] = (
                each.value if each.config_operation == _SET else _DEFAULTS.get(each.name)
            )
    return changes


async def _alter(
    broker: Broker,
    session: KafkaSession,
    asked: Any,
    changes: Mapping[str, str | None],
    is_checked_only: bool,
) -> Fields:
    fields = _answer_to(asked)
    name = asked.resource_name
    try:
        _check(broker, session, asked, Action.OPERATE)
        if asked.resource_type != _TOPIC:
            raise InvalidRequestError("options of a gateway are set when it starts")
        options = log_options(changes)
        if is_checked_only:
            await broker.client.log_info(name)
        else:
            await broker.client.configure_log(name, options)
    except QuireError as error:
        code = _code(asked, error)
        if code is ErrorCode.invalid_request:
            code = ErrorCode.invalid_config
        return fields | {"error_code": code, "error_message": str(error)}
    return fields
