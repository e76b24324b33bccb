"""What a caller without a right is answered, for every request: Kafka's code for it.

The codes are those of Kafka's own server: of the topic that is named, of the group, or of the
cluster for options of brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from kio.schema.errors import ErrorCode

from quire.errors import NotPermittedError
from quire.gateway.kafka.errors import code_of
from quire.gateway.kafka.messages import VERSIONS
from quire.gateway.kafka.nodes import node_at
from quire.gateway.tokens import Token
from quire.rights.calls import KAFKA
from quire.rights.roles import Action, Role
from quire.rights.scopes import CLUSTER, Reach, Scope
from quire.rights.table import AccessRule
from quire.wire.identity import ANONYMOUS
from quire.wire.issuing import DAY
from quire.wire.tls import serving_context
from tests.gateway.kafka.frames import sent
from tests.gateway.kafka.test_clients import cluster, serving
from tests.rights.scene import Scene, scene
from tests.wire.certificates import authority

pytestmark = pytest.mark.real_time

TOPIC = ErrorCode.topic_authorization_failed
GROUP = ErrorCode.group_authorization_failed
ALL = ErrorCode.cluster_authorization_failed
DENIALS = {TOPIC, GROUP, ALL}
SECOND = timedelta(seconds=1)
OF_TOPIC, OF_BROKER, OF_LOGGER, OF_GROUP, OF_NOTHING = 2, 4, 8, 32, 99


class Asked(NamedTuple):
    """A request, and the denials in the answer to it, in their order."""

    fields: Mapping[str, Any]
    denials: Sequence[ErrorCode] = ()


def in_topic(name: str, *partitions: Mapping[str, Any], of: str = "topics") -> dict[str, Any]:
    """A request about partitions of a topic."""
    return {of: [{"name": name, "partitions": list(partitions)}]}


def options(*kinds: int, **more: Any) -> dict[str, Any]:
    """A request about options of resources."""
    configs: dict[str, Any] = {"configs": [], "configuration_keys": None}
    made = [{"resource_type": kind, "resource_name": "orders", **configs} for kind in kinds]
    return {"resources": made, "validate_only": False, **more}


NAMES = ("orders", "missing", "no/topic")
READ_FROM = {"current_leader_epoch": -1, "timestamp": -1}
FETCHED = {"fetch_offset": 0, "partition_max_bytes": 1, "log_start_offset": -1}
NEW = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
MEMBER = {"group_id": "g", "member_id": "m", "generation_id": 1}
FETCH = {"replica_id": -1, "max_wait": timedelta(0), "min_bytes": 0, "max_bytes": 1}
FETCH |= {"isolation_level": 0, "session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
RESOURCES = (OF_TOPIC, OF_BROKER, OF_LOGGER, OF_GROUP, OF_NOTHING)
OF_RESOURCES = (TOPIC, ALL, ALL, GROUP)

REQUESTS: Mapping[int, Asked] = {
    0: Asked(
        {
            "transactional_id": None,
            "acks": 1,
            "timeout": SECOND,
            "topic_data": [
                {
                    "name": "orders",
                    "partition_data": [{"index": index, "records": b""} for index in (0, 1)],
                }
            ],
        },
        [TOPIC, TOPIC],
    ),
    1: Asked(
        {
            **FETCH,
            "topics": [
                {"topic": name, "partitions": [{"partition": index, **FETCHED}]}
                for name, index in (("orders", 0), ("missing", 1))
            ],
        },
        [TOPIC, TOPIC],
    ),
    2: Asked(
        {
            "replica_id": -1,
            "isolation_level": 0,
            **in_topic("orders", *({"partition_index": each, **READ_FROM} for each in (0, 1))),
        },
        [TOPIC, TOPIC],
    ),
    3: Asked(
        {
            "topics": [{"name": each, "topic_id": None} for each in NAMES],
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": False,
        },
        [TOPIC, TOPIC, TOPIC],
    ),
    8: Asked(
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            **in_topic(
                "orders",
                *(
                    {"partition_index": each, "committed_offset": 0, "committed_metadata": ""}
                    for each in (0, 1)
                ),
            ),
        },
        [TOPIC, TOPIC],
    ),
    9: Asked(
        {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]},
        [TOPIC, TOPIC],
    ),
    10: Asked({"key": "g", "key_type": 0}, [GROUP]),
    11: Asked(
        {
            **MEMBER,
            "protocol_type": "consumer",
            "protocols": [{"name": "r", "metadata": b""}],
            "session_timeout": SECOND,
            "rebalance_timeout": SECOND,
        },
        [GROUP],
    ),
    12: Asked(MEMBER, [GROUP]),
    13: Asked(MEMBER, [GROUP]),
    14: Asked({**MEMBER, "assignments": []}, [GROUP]),
    15: Asked({"groups": ["g"], "include_authorized_operations": False}, [GROUP]),
    16: Asked({}),  # Kafka lists the groups that the caller may describe
    17: Asked({"mechanism": "PLAIN"}),
    18: Asked({"client_software_name": "tests", "client_software_version": "1"}),
    19: Asked(
        {
            "timeout": SECOND,
            "validate_only": False,
            "topics": [{"name": each, **NEW} for each in NAMES],
        },
        [TOPIC, TOPIC, TOPIC],
    ),
    20: Asked({"topic_names": ["orders", "missing"], "timeout": SECOND}, [TOPIC, TOPIC]),
    21: Asked(
        {
            "timeout": SECOND,
            **in_topic("orders", *({"partition_index": each, "offset": 0} for each in (0, 1))),
        },
        [TOPIC, TOPIC],
    ),
    22: Asked({"transactional_id": None, "transaction_timeout": SECOND}),
    32: Asked(options(*RESOURCES, include_synonyms=False), OF_RESOURCES),
    33: Asked(options(*RESOURCES), OF_RESOURCES),
    36: Asked({"auth_bytes": b"\0any\0token"}),
    37: Asked(
        {
            "timeout": SECOND,
            "validate_only": False,
            "topics": [
                {"name": each, "count": 2, "assignments": None} for each in ("orders", "no")
            ],
        },
        [TOPIC, TOPIC],
    ),
    42: Asked({"groups_names": ["g"]}, [GROUP]),
    44: Asked(options(*RESOURCES), OF_RESOURCES),
    47: Asked(
        {
            "group_id": "g",
            **in_topic("orders", *({"partition_index": each} for each in (0, 1))),
        },
        [TOPIC, TOPIC],
    ),
}
"""By key: each request that a gateway answers."""


def codes(answer: Any) -> Iterator[ErrorCode]:
    """All errors of an answer, in their order."""
    if isinstance(answer, ErrorCode):
        yield answer
    elif isinstance(answer, tuple):
        for each in answer:
            yield from codes(each)
    elif is_dataclass(answer):
        for each in fields(answer):
            yield from codes(getattr(answer, each.name))


@asynccontextmanager
async def guarded() -> AsyncIterator[tuple[str, Scene]]:
    """A gateway with a log and a group, whose callers have the rights of the scene."""
    async with (
        cluster() as client,
        scene() as rights,
        serving(client, guard=rights.guard) as address,
    ):
        async with await client.open_log("orders") as log:
            await log.append_many([b"a"])
        await client.log_cursors("orders").open("g")
        await sent(address, 10, 1, {"key": "g", "key_type": 0})
        yield address, rights


async def denials(address: str, key: int) -> list[ErrorCode]:
    """Send a request of the table, in the newest version; return the denials in the answer."""
    version = VERSIONS[key].highest
    if key == 9:
        version = 7  # the groups are a list from 8 on
    elif key in (10, 13):
        version = min(version, 2)  # likewise the keys, and the members
    answer = await sent(address, key, version, REQUESTS[key].fields)
    return [each for each in codes(answer) if each in DENIALS]


def test_the_table_has_every_request() -> None:
    assert REQUESTS.keys() == VERSIONS.keys() == KAFKA.keys()
    assert {key for key, asked in REQUESTS.items() if asked.denials} == {
        key for key, actions in KAFKA.items() if actions and key != 16
    }


async def test_each_request_is_denied_by_kafkas_code() -> None:
    async with guarded() as (address, rights):
        await rights.set(AccessRule("quire://client/other", Role.ADMIN))
        for key, asked in REQUESTS.items():
            assert await denials(address, key) == list(asked.denials), key
        listed = await sent(address, 16, 4, {"states_filter": []})
        assert (listed.error_code, listed.groups) == (ErrorCode.none, ())


async def test_no_request_of_a_caller_with_all_rights_is_denied() -> None:
    async with guarded() as (address, rights):
        await rights.set(AccessRule(ANONYMOUS.name, Role.ADMIN))
        for key in REQUESTS:
            assert await denials(address, key) == [], key


async def test_all_brokers_have_options_for_callers_that_may_observe_the_cluster() -> None:
    all_brokers = {"resource_type": OF_BROKER, "resource_name": "", "configuration_keys": None}
    every = {"resources": [all_brokers]}
    async with guarded() as (address, rights):
        await rights.set(AccessRule(ANONYMOUS.name, Role.OPERATOR, Reach(log="orders")))
        (denied,) = (await sent(address, 32, 1, every)).results
        assert denied.error_code is ALL
        assert "the cluster" in denied.error_message
        await rights.set(AccessRule(ANONYMOUS.name, Role.AUDITOR))
        (told,) = (await sent(address, 32, 1, every)).results
        assert (told.error_code, told.configs) == (ErrorCode.none, ())


async def test_rights_come_before_the_form_of_options() -> None:
    wrong = [{"name": "unheard", "value": "of", "config_operation": 0}]
    topic = {"resource_type": OF_TOPIC, "resource_name": "orders", "configs": wrong}
    async with guarded() as (address, rights):
        await rights.set(AccessRule(ANONYMOUS.name, Role.READER))
        for key in (33, 44):
            fields_ = {"resources": [topic], "validate_only": True}
            (answer,) = (await sent(address, key, 1, fields_)).responses
            assert answer.error_code is TOPIC


async def test_members_of_a_group_are_no_secret_of_a_denied_caller() -> None:
    joining: dict[str, Any] = {"group_id": "g", "member_id": "", "protocol_type": "consumer"}
    joining |= {"protocols": [{"name": "r", "metadata": b""}]}
    joining |= {"session_timeout": 30 * SECOND, "rebalance_timeout": SECOND}
    async with guarded() as (address, rights):
        assert (await sent(address, 11, 2, joining)).error_code is ErrorCode.none
        await rights.set(AccessRule("quire://client/other", Role.ADMIN))
        assert await denials(address, 42) == [GROUP]
        assert await denials(address, 47) == [TOPIC, TOPIC]
        await rights.set(AccessRule(ANONYMOUS.name, Role.ADMIN))
        (deleted,) = (await sent(address, 42, 1, REQUESTS[42].fields)).results
        assert deleted.error_code is ErrorCode.non_empty_group


async def test_a_reader_of_one_log_finds_its_coordinator_and_a_stranger_makes_no_group() -> None:
    async with guarded() as (address, rights):
        await rights.set(AccessRule(ANONYMOUS.name, Role.READER, Reach(log="orders")))
        assert await denials(address, 10) == []
        await rights.set(AccessRule("quire://client/other", Role.ADMIN))
        new = {"key": "new", "key_type": 0}
        assert (await sent(address, 10, 1, new)).error_code is GROUP
        await rights.set(AccessRule(ANONYMOUS.name, Role.ADMIN))
        listed = await sent(address, 16, 4, {"states_filter": []})
        assert [each.group_id for each in listed.groups] == ["g"]


async def test_a_writer_finds_the_topic_that_it_writes() -> None:
    """In Kafka the right to write a topic has the right to describe it in it."""
    every = {"topics": None, "allow_auto_topic_creation": False}
    async with guarded() as (address, rights):
        await rights.set(AccessRule(ANONYMOUS.name, Role.WRITER, Reach(log="orders")))
        orders, missing, _ = (await sent(address, 3, 5, REQUESTS[3].fields)).topics
        assert (orders.error_code, missing.error_code) == (ErrorCode.none, TOPIC)
        assert [each.name for each in (await sent(address, 3, 5, every)).topics] == ["orders"]


async def test_a_created_topic_tells_its_options_to_those_who_may_observe_it() -> None:
    def asked(name: str, **more: Any) -> dict[str, Any]:
        configs = [{"name": "retention.ms", "value": "60000"}]
        topics = [{"name": name, **NEW, "configs": configs, **more}]
        return {"timeout": SECOND, "validate_only": False, "topics": topics}

    async with guarded() as (address, rights):
        await rights.set(AccessRule(ANONYMOUS.name, Role.ADMIN))
        (made,) = (await sent(address, 19, 7, asked("told"))).topics
        assert (made.num_partitions, made.replication_factor) == (1, 1)
        assert {each.name: each.value for each in made.configs}["retention.ms"] == "60000"
        assert made.topic_config_error_code == 0
        await rights.set(AccessRule(ANONYMOUS.name, Role.WRITER))
        (made,) = (await sent(address, 19, 7, asked("untold"))).topics
        assert made.error_code is ErrorCode.none
        assert (made.topic_config_error_code, made.num_partitions) == (TOPIC.value, -1)
        for more, code in (
            ({"replication_factor": 0}, ErrorCode.invalid_replication_factor),
            ({"num_partitions": 3}, ErrorCode.invalid_partitions),
            (
                {
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [
                        {"partition_index": each, "broker_ids": [1]} for each in (0, 1)
                    ],
                },
                ErrorCode.invalid_partitions,
            ),
        ):
            (made,) = (await sent(address, 19, 7, asked("wrong", **more))).topics
            assert made.error_code is code
        (made,) = (await sent(address, 19, 7, asked("copied", replication_factor=3))).topics
        assert made.error_code is ErrorCode.none


@pytest.mark.parametrize(("scope", "code"), [(CLUSTER, ALL), (Scope("orders"), TOPIC)])
def test_a_denial_is_of_its_scope(scope: Scope, code: ErrorCode) -> None:
    assert code_of(NotPermittedError("someone", str(Action.OBSERVE), str(scope))) is code


@pytest.mark.parametrize(
    ("address", "host"),
    [("[::1]:9092", "::1"), ("127.0.0.1:9092", "127.0.0.1"), ("one:9092", "one")],
)
def test_a_host_has_no_brackets_and_an_address_has(address: str, host: str) -> None:
    node = node_at(address)
    assert (node.host, node.port, node.address) == (host, 9092, address)


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("has_tokens", [False, True])
async def test_every_answer_names_the_port_as_it_is(
    has_tls: bool, has_tokens: bool, tmp_path: Path
) -> None:
    ours = authority()
    ca, _ = ours.pair.write(tmp_path, "ca")
    files = ours.issue("gateway", None, ["127.0.0.1"], DAY).write(tmp_path, "gateway")
    protocol = ("SASL_" if has_tokens else "") + ("SSL" if has_tls else "PLAINTEXT")
    words = {"security.protocol": protocol, "ssl.ca.location": str(ca)}
    words |= {"sasl.mechanisms": "PLAIN", "sasl.username": "any", "sasl.password": "secret"}
    tls = serving_context(*files) if has_tls else None
    tokens = (Token("secret"),) if has_tokens else ()

    def work(address: str) -> tuple[str, str, str]:
        admin = AdminClient({"bootstrap.servers": address, **words})
        ((node, broker),) = admin.list_topics(timeout=20).brokers.items()
        asked = ConfigResource(ConfigResource.Type.BROKER, str(node))
        (told,) = admin.describe_configs([asked]).values()
        (group,) = admin.describe_consumer_groups(["g"]).values()
        coordinator = group.result(20).coordinator
        return (
            told.result(20)["advertised.listeners"].value,
            f"{broker.host}:{broker.port}",
            f"{coordinator.host}:{coordinator.port}",
        )

    async with cluster() as client, serving(client, tokens, tls) as address:
        found = await asyncio.to_thread(work, address)
        assert found == (f"{protocol}://{address}", address, address)
