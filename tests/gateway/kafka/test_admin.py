"""Operators' requests by librdkafka: options, records and groups that are deleted, times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from kio.schema.errors import ErrorCode

import quire
from quire.entry import ENTRY_BYTES_MAX
from quire.gateway.kafka import offsets
from quire.gateway.kafka.coordinating import Coordinators
from quire.gateway.kafka.groups import PROTOCOLS_MAX
from quire.gateway.kafka.nodes import node_at
from quire.gateway.limits import GatewayLimits
from quire.gateway.place import GatewayPlace
from quire.gateway.tokens import Token
from quire.log.maintenance.cursor import Cursor
from quire.log.maintenance.cursors import LogCursors
from quire.rights.roles import Role
from quire.rights.scopes import Reach
from quire.rights.table import AccessRule
from quire.wire.identity import client_identity
from tests.gateway.kafka.frames import sent
from tests.gateway.kafka.test_clients import LOG, PARTITION, cluster, serving, started
from tests.rights.scene import scene

pytestmark = pytest.mark.real_time

SECONDS = 20.0


def answers(futures: Mapping[Any, Any]) -> list[Any]:
    """What became of a request: a result, or Kafka's name of the error, for each of its parts."""
    found: list[Any] = []
    for future in futures.values():
        try:
            found.append(future.result(SECONDS))
        except KafkaException as error:
            found.append(error.args[0].name())
    return found


async def asked(address: str, work: Callable[[AdminClient], Any], token: str | None = None) -> Any:
    """Return what `work` says, in a thread: librdkafka blocks."""
    options = {"bootstrap.servers": address}
    if token is not None:
        options |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
        options |= {"sasl.username": "any", "sasl.password": token}
    admin = AdminClient(options)
    return await asyncio.to_thread(work, admin)


async def committed(client: quire.Client, group: str) -> list[str]:
    """The logs at which a group has an offset."""
    return [
        log
        for log in await client.list_logs()
        if group in [each.name for each in await client.log_cursors(log).list()]
    ]


async def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    async with cluster() as client, serving(client) as address:
        async with await client.open_log(LOG) as log:
            await log.append_many([b"a", b"b"])
        options = {"bootstrap_servers": address, "group_id": "billing"}
        consumer = AIOKafkaConsumer(LOG, auto_offset_reset="earliest", **options)

        def delete(admin: AdminClient) -> list[Any]:
            return answers(admin.delete_consumer_groups(["billing", "unknown"]))

        async with started(consumer):
            await consumer.getone()
            await consumer.commit()
            assert await asked(address, delete) == ["NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND"]
            assert await committed(client, "billing") == [LOG]
        assert await asked(address, delete) == [None, "GROUP_ID_NOT_FOUND"]
        assert await committed(client, "billing") == []

        def names(admin: AdminClient) -> list[str]:
            return [each.group_id for each in admin.list_consumer_groups().result(SECONDS).valid]

        assert await asked(address, names) == []
        async with started(AIOKafkaConsumer(LOG, auto_offset_reset="earliest", **options)) as again:
            assert (await again.getone()).offset == 0, "the group begins anew"


async def test_no_member_joins_a_group_that_is_being_deleted() -> None:
    async with cluster() as client:
        place = GatewayPlace("http://one", "127.0.0.1:9")
        coordinators = Coordinators(client, place, GatewayLimits())
        here = node_at("127.0.0.1:9")
        async with coordinators.withheld("g") as (code, led):
            assert (code, led) == (ErrorCode.not_coordinator, None)
        assert await coordinators.find("g", here, SECONDS) == here
        async with coordinators.withheld("g") as (code, _):
            assert code is ErrorCode.group_id_not_found
            assert coordinators.get("g") is None
            assert await coordinators.find("g", here, SECONDS) is None
        assert [name for name, _ in coordinators.groups()] == ["g"], "it was not deleted"
        async with coordinators.withheld("g") as (_, led):
            assert led is not None
            await coordinators.give_up(led)
        assert coordinators.groups() == []
        assert await coordinators.find("g", here, SECONDS) == here
        await coordinators.close()


async def test_a_group_is_withheld_once_its_commits_are_over() -> None:
    async with cluster() as client:
        coordinators = Coordinators(client, GatewayPlace("http://one", None), GatewayLimits())
        await coordinators.find("g", node_at("127.0.0.1:9"), SECONDS)
        led = coordinators.get("g")
        assert led is not None
        async with coordinators.withheld("g"):
            assert coordinators.get("g") is None
        withheld = asyncio.Event()

        async def withhold() -> None:
            async with coordinators.withheld("g"):
                withheld.set()

        with led.committing(), led.committing():
            deleting = asyncio.create_task(withhold())
            for _ in range(10):
                await asyncio.sleep(0)
            assert coordinators.get("g") is None, "no further commit begins"
            assert not withheld.is_set()
        await deleting
        await coordinators.close()


async def test_a_member_is_described_by_its_client_and_host() -> None:
    async with cluster() as client, serving(client) as address:
        await client.create_log(LOG)
        options = {"bootstrap_servers": address, "group_id": "g", "client_id": "till-7"}
        async with started(AIOKafkaConsumer(LOG, **options)):

            def describe(admin: AdminClient) -> Any:
                (group,) = answers(admin.describe_consumer_groups(["g"]))
                return group

            (member,) = (await asked(address, describe)).members
            assert (member.client_id, member.host) == ("till-7", "/127.0.0.1")
            assert member.member_id.startswith("till-7-")
            assert [each.topic for each in member.assignment.topic_partitions] == [LOG]


async def test_a_member_with_long_names_is_described() -> None:
    long = "x" * 32_767
    async with cluster() as client, serving(client) as address:
        await sent(address, 10, 1, {"key": "g", "key_type": 0})
        answer = await joined(address, client=long)
        assert answer.error_code is ErrorCode.none
        fields = {"groups": ["g"] * 1000, "include_authorized_operations": False}
        (group,) = (await sent(address, 15, 4, fields)).groups
        (member,) = group.members
        assert (member.client_id, member.member_id) == (long, answer.member_id)
        assert [each.group_id for each in (await sent(address, 16, 2, {})).groups] == ["g"]


async def test_further_partitions_are_refused() -> None:
    async with cluster() as client, serving(client) as address:
        await client.create_log(LOG)

        def widen(admin: AdminClient) -> Any:
            return answers(admin.create_partitions([NewPartitions(LOG, 2), NewPartitions("no", 2)]))

        assert await asked(address, widen) == ["INVALID_PARTITIONS", "UNKNOWN_TOPIC_OR_PART"]


async def test_an_offset_of_a_group_without_members_is_deleted() -> None:
    async with cluster() as client, serving(client) as address:
        for name in ("a", "b", "c"):
            await client.create_log(name)
            await client.log_cursors(name).open("g")
        topics = {"a": [0, 1], "c": [0]}
        not_here = await offset_delete(address, topics)
        assert not_here.error_code is ErrorCode.not_coordinator
        consumer = AIOKafkaConsumer("b", bootstrap_servers=address, group_id="g")
        async with started(consumer):
            assert codes(await offset_delete(address, topics)) == {
                ("a", 0): ErrorCode.group_subscribed_to_topic,
                ("a", 1): ErrorCode.unknown_topic_or_partition,
                ("c", 0): ErrorCode.group_subscribed_to_topic,
            }
        assert codes(await offset_delete(address, {"a": [0], "none": [0]})) == {
            ("a", 0): ErrorCode.none,
            ("none", 0): ErrorCode.unknown_topic_or_partition,
        }
        assert await committed(client, "g") == ["b", "c"]
        assert codes(await offset_delete(address, {"b": [1], "c": []})) == {
            ("b", 1): ErrorCode.unknown_topic_or_partition,
        }
        assert await committed(client, "g") == ["b", "c"], "it was not partition 0"


async def test_no_member_joins_while_an_offset_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    codes_of_joins = []
    delete = LogCursors.delete
    async with cluster() as client, serving(client) as address:

        async def delete_late(cursors: LogCursors, name: str) -> None:
            codes_of_joins.append((await joined(address)).error_code)
            await delete(cursors, name)

        monkeypatch.setattr(LogCursors, "delete", delete_late)
        await client.create_log("a")
        await client.log_cursors("a").open("g")
        await sent(address, 10, 1, {"key": "g", "key_type": 0})
        assert codes(await offset_delete(address, {"a": [0]})) == {("a", 0): ErrorCode.none}
        assert codes_of_joins == [ErrorCode.not_coordinator]
        assert (await joined(address)).error_code is ErrorCode.none, "the group was not given up"


async def test_a_commit_under_way_is_deleted_with_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create, deleting = LogCursors.open, []
    async with cluster() as client, serving(client) as address:

        async def open_late(cursors: LogCursors, name: str, start: int) -> Cursor:
            delete = sent(address, 42, 0, {"groups_names": [name]})
            deleting.append(asyncio.create_task(delete))
            beat = {"group_id": name, "generation_id": 1, "member_id": "none"}
            while (await sent(address, 12, 0, beat)).error_code is not ErrorCode.not_coordinator:
                pass  # until the group is withheld
            return await create(cursors, name, start)

        await client.create_log("a")
        await sent(address, 10, 1, {"key": "g", "key_type": 0})
        monkeypatch.setattr(LogCursors, "open", open_late)
        offset = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
        topics = [{"name": "a", "partitions": [offset]}]
        fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
        (topic,) = (await sent(address, 8, 5, {**fields, "topics": topics})).topics
        assert [each.error_code for each in topic.partitions] == [ErrorCode.none]
        (deleted,) = (await deleting[0]).results
        assert deleted.error_code is ErrorCode.none
        assert await committed(client, "g") == []


async def joined(address: str, client: str = "frames", protocols: int = 1) -> Any:
    """Send JoinGroup of a new member of the group `g`, and return the answer."""
    seconds = {name: timedelta(seconds=9) for name in ("session_timeout", "rebalance_timeout")}
    fields: dict[str, Any] = {"group_id": "g", "member_id": "", "protocol_type": "consumer"}
    named = [{"name": f"r{number}", "metadata": b""} for number in range(protocols)]
    fields |= {"protocols": named, **seconds}
    return await sent(address, 11, 2, fields, client=client)


async def test_a_member_names_a_few_protocols() -> None:
    async with cluster() as client, serving(client) as address:
        await sent(address, 10, 1, {"key": "g", "key_type": 0})
        refused = await joined(address, protocols=PROTOCOLS_MAX + 1)
        assert refused.error_code is ErrorCode.invalid_request
        assert (await joined(address, protocols=PROTOCOLS_MAX)).error_code is ErrorCode.none


async def test_a_client_may_look_for_no_coordinator() -> None:
    async with cluster() as client, serving(client) as address:
        answer = await sent(address, 10, 4, {"key_type": 0, "coordinator_keys": []})
        assert answer.coordinators == ()


async def offset_delete(address: str, topics: Mapping[str, list[int]]) -> Any:
    """Send OffsetDelete for the group `g`, which Kafka's Java client alone has a call for."""
    asked = [
        {"name": name, "partitions": [{"partition_index": each} for each in partitions]}
        for name, partitions in topics.items()
    ]
    return await sent(address, 47, 0, {"group_id": "g", "topics": asked})


def codes(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    """The code of each partition."""
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


async def test_records_are_deleted_up_to_an_offset() -> None:
    async with cluster() as client, serving(client) as address:
        async with await client.open_log(LOG) as log:
            await log.append_many([b"%d" % number for number in range(10)])

        def delete(*places: Place) -> Callable[[AdminClient], list[Any]]:
            return lambda admin: answers(admin.delete_records(list(places)))

        (deleted,) = await asked(address, delete(Place(LOG, 0, 4)))
        assert deleted.low_watermark == 4
        assert await asked(address, delete(Place(LOG, 0, 11))) == ["OFFSET_OUT_OF_RANGE"]
        assert [each.offset async for each in client.read_log(LOG)] == [4, 5, 6, 7, 8, 9]
        (deleted,) = await asked(address, delete(Place(LOG, 0, -1)))
        assert deleted.low_watermark == 10


async def test_options_of_a_topic_are_changed_and_told() -> None:
    topic = ConfigResource(ConfigResource.Type.TOPIC, LOG)

    def change(**options: tuple[str | None, AlterConfigOpType]) -> Callable[[AdminClient], Any]:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=operation)
            for name, (value, operation) in options.items()
        ]
        wanted = ConfigResource(topic.restype, LOG, incremental_configs=entries)
        return lambda admin: answers(admin.incremental_alter_configs([wanted]))

    def replace(admin: AdminClient) -> Any:
        with pytest.warns(DeprecationWarning, match="alter_configs"):  # older programs send it
            return answers(
                admin.alter_configs([ConfigResource(topic.restype, LOG, {"retention.ms": "-1"})])
            )

    def tell(admin: AdminClient) -> Any:
        (found,) = answers(admin.describe_configs([topic]))
        return {name: each.value for name, each in found.items()}

    put, drop = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    async with cluster() as client, serving(client) as address:
        missing = change(retention_ms=("60000", put))
        assert await asked(address, missing) == ["UNKNOWN_TOPIC_OR_PART"]
        await client.create_log(LOG, {"retention_seconds": "7d"})
        told = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
        assert await asked(address, tell) == told
        both = change(retention_ms=("60000", put), retention_bytes=("5000", put))
        assert await asked(address, both) == [None]
        assert await asked(address, tell) == {
            **told,
            "retention.ms": "60000",
            "retention.bytes": "5000",
        }
        assert await asked(address, change(retention_bytes=(None, drop))) == [None]
        assert dict((await client.log_info(LOG)).options) == {"retention_seconds": "60.0"}
        wrong = (
            change(cleanup_policy=("compact", put)),
            change(retention_ms=("soon", put)),
            change(retention_ms=("1", AlterConfigOpType.APPEND)),
            change(segment_ms=("1", put)),
        )
        for each in wrong:
            assert await asked(address, each) == ["INVALID_CONFIG"]
        assert await asked(address, replace) == [None]
        assert not (await client.log_info(LOG)).options


@pytest.mark.parametrize("value", ["-2", "9" * 400, str(2**63), "0", None])
async def test_a_number_that_no_log_takes_changes_nothing(value: str | None) -> None:
    async with cluster() as client, serving(client) as address:
        await client.create_log(LOG, {"retention_seconds": "9"})
        configs = [{"name": "retention.ms", "value": value, "config_operation": 0}]
        topic = {"resource_type": 2, "resource_name": LOG, "configs": configs}
        for key in (33, 44):
            for is_checked_only in (True, False):
                fields = {"resources": [topic], "validate_only": is_checked_only}
                (answer,) = (await sent(address, key, 1, fields)).responses
                assert answer.error_code is ErrorCode.invalid_config
        new = {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": []}
        fields = {"topics": [new | {"configs": configs}], "validate_only": False}
        (made,) = (await sent(address, 19, 2, fields)).topics
        assert made.error_code is ErrorCode.invalid_config
        assert await client.list_logs() == [LOG]
        assert dict((await client.log_info(LOG)).options) == {"retention_seconds": "9"}


async def test_an_error_about_a_long_name_is_answered() -> None:
    long = "x" * 32_767
    async with cluster() as client, serving(client) as address:
        configs = [{"name": long, "value": long, "config_operation": 0}]
        topic = {"resource_type": 2, "resource_name": LOG, "configs": configs}
        for key in (33, 44):
            fields = {"resources": [topic], "validate_only": False}
            (answer,) = (await sent(address, key, 0, fields)).responses
            assert answer.error_code is ErrorCode.invalid_config
            assert answer.error_message.startswith("xxx")
        fields = {"topics": [{"name": long, "count": 2, "assignments": None}]}
        fields |= {"timeout": timedelta(seconds=1), "validate_only": False}
        (result,) = (await sent(address, 37, 0, fields)).results
        assert result.error_code is ErrorCode.invalid_request


async def test_endless_retention_is_told_as_none() -> None:
    async with cluster() as client, serving(client) as address:
        await client.create_log(LOG, {"retention_seconds": "inf"})
        topic = {"resource_type": 2, "resource_name": LOG, "configuration_keys": ["retention.ms"]}
        (answer,) = (await sent(address, 32, 1, {"resources": [topic]})).results
        assert [each.value for each in answer.configs] == ["-1"]


async def test_options_of_a_gateway_are_told_and_not_changed() -> None:
    async with cluster() as client, serving(client) as address:

        def work(admin: AdminClient) -> Any:
            (node,) = admin.list_topics(timeout=SECONDS).brokers
            mine = ConfigResource(ConfigResource.Type.BROKER, str(node))
            entry = ConfigEntry("num.partitions", "3", incremental_operation=AlterConfigOpType.SET)
            changed = ConfigResource(mine.restype, str(node), incremental_configs=[entry])
            return answers(admin.describe_configs([mine])), answers(
                admin.incremental_alter_configs([changed])
            )

        def odd(admin: AdminClient) -> Any:
            kind = ConfigResource.Type.GROUP
            return answers(admin.describe_configs([ConfigResource(kind, "x")]))

        assert await asked(address, odd) == ["INVALID_REQUEST"]
        (told,), refused = await asked(address, work)
        assert told["advertised.listeners"].value == f"PLAINTEXT://{address}"
        assert told["num.partitions"].value == "1"
        assert int(told["message.max.bytes"].value) <= ENTRY_BYTES_MAX
        assert all(each.is_read_only for each in told.values())
        assert refused == ["INVALID_CONFIG"]


async def test_changes_need_the_right_to_operate_the_log() -> None:
    identities = {role.value: client_identity(role.value) for role in (Role.READER, Role.OPERATOR)}
    observer = client_identity("observer")
    tokens = tuple(Token(name, identity) for name, identity in identities.items())
    rules = [
        AccessRule(identity.name, Role(name), Reach(log=LOG))
        for name, identity in identities.items()
    ]
    rules.append(AccessRule(observer.name, Role.AUDITOR))

    def work(admin: AdminClient) -> list[Any]:
        entry = ConfigEntry("retention.ms", "5", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ConfigResource.Type.TOPIC, LOG, incremental_configs=[entry])
        return [
            *answers(admin.delete_records([Place(LOG, 0, 1)])),
            *answers(admin.incremental_alter_configs([topic])),
            *answers(admin.create_partitions([NewPartitions(LOG, 2)])),
            *answers(admin.delete_consumer_groups(["here", "elsewhere"])),
        ]

    async with (
        cluster() as client,
        scene() as rights,
        serving(client, (*tokens, Token("observer", observer)), guard=rights.guard) as address,
    ):
        await rights.set(*rules)
        async with await client.open_log(LOG) as log:
            await log.append_many([b"a", b"b"])
        await client.create_log("bills")
        for name, group in ((LOG, "here"), (LOG, "elsewhere"), ("bills", "elsewhere")):
            await client.log_cursors(name).open(group)
        refused = "TOPIC_AUTHORIZATION_FAILED"
        groups = ["GROUP_AUTHORIZATION_FAILED"] * 2
        assert await asked(address, work, "reader") == [*[refused] * 3, *groups]
        assert await committed(client, "here") == [LOG]

        def led(admin: AdminClient) -> set[str]:
            return {each.group_id for each in admin.list_consumer_groups().result(SECONDS).valid}

        assert await asked(address, led, "observer") == {"here", "elsewhere"}, "not given up"
        deleted, *others = await asked(address, work, "operator")
        assert deleted.low_watermark == 1
        assert others == [None, "INVALID_PARTITIONS", None, groups[0]]
        assert await committed(client, "here") == []
        assert await committed(client, "elsewhere") == ["bills", LOG], "all of it or nothing"


async def test_a_time_is_that_of_records_and_not_of_their_appends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as client, serving(client) as address:
        async with started(AIOKafkaProducer(bootstrap_servers=address)) as producer:
            for time_ms in (1000, 2000, 5000, 4000):
                await producer.send_and_wait(LOG, b"a", timestamp_ms=time_ms)
        async with started(AIOKafkaConsumer(bootstrap_servers=address)) as consumer:

            async def found(time_ms: int) -> tuple[int, int] | None:
                place = (await consumer.offsets_for_times({PARTITION: time_ms}))[PARTITION]
                return None if place is None else (place.offset, place.timestamp)

            assert await found(0) == (0, 1000)
            assert await found(1001) == (1, 2000)
            assert await found(2001) == (2, 5000)
            assert await found(4000) == (2, 5000)
            assert await found(5001) is None
            monkeypatch.setattr(offsets, "PASSED_MAX", 1)
            assert await found(4000) == (1, 2000), "the search has an end"
