"""Consumer groups: their coordinator among gateways, their members, and committed offsets.

A group has one coordinator at a time, the winner of an election among gateways. Its members are in
memory: when it ends they join again at the next one. Committed offsets are cursors of the logs,
named after the group, so they outlive every gateway and can be seen by `quire log cursor`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from quire.aio.tasks import Tasks, first_of
from quire.aio.timing import time_limit
from quire.client import Client
from quire.election.leadership import Leadership
from quire.errors import InvalidRequestError, NoSuchCursorError, NotPermittedError, QuireError
from quire.gateway.answers import BusyError, GatewayError
from quire.gateway.elections import election_of_group
from quire.gateway.kafka.broker import PARTITION, Broker, KafkaSession
from quire.gateway.kafka.commits import OffsetCommits
from quire.gateway.kafka.errors import group_code_of
from quire.gateway.kafka.groups import (
    PROTOCOL_COST,
    PROTOCOLS_MAX,
    ConsumerGroup,
    JoinAnswer,
    JoinRequest,
    PartAnswer,
)
from quire.gateway.kafka.messages import Fields
from quire.gateway.kafka.nodes import BrokerNode, node_at
from quire.gateway.limits import GatewayLimits
from quire.gateway.place import GatewayPlace
from quire.log.maintenance.cursors import LogCursors
from quire.rights.roles import Action

MEMBER_SECONDS_MAX: Final = 1800.0
"""A member may be silent, and a group may wait for it, for so long: half an hour, as Kafka has it.
"""

GROUPS_SHARE: Final = 4
"""What members of all groups said and were told may have one of so many parts of the bytes."""

CLIENT_CHARACTERS_MAX: Final = 200
"""A member that has no name gets one that begins with so much of its client's."""

_GROUP_KEY: Final = 0


class LedGroup:
    """A group that this gateway coordinates, or stands for."""

    def __init__(self) -> None:
        self.group: ConsumerGroup | None = None
        self.leadership: Leadership | None = None
        """By it the group is coordinated: the fence of its cursors."""
        self.settled = asyncio.Event()
        self.changed = asyncio.Event()
        """The group's next event may have moved."""
        self.is_deleted = False
        self.commits = 0
        """Commits of offsets under way."""
        self.is_quiet = asyncio.Event()
        """No commit is under way."""
        self.is_quiet.set()
        self.task: asyncio.Task[None] | None = None

    def cursors(self, client: Client, log: str) -> LogCursors:
        """Return the cursors of a log, to be changed while this gateway coordinates the group."""
        assert self.leadership is not None, "it was settled"
        return client.log_cursors(log, leadership=self.leadership)

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Count a commit of offsets as under way in the block."""
        self.commits += 1
        self.is_quiet.clear()
        try:
            yield
        finally:
            self.commits -= 1
            if not self.commits:
                self.is_quiet.set()


class Withheld(NamedTuple):
    """A group that is withheld, or the reason why it is not."""

    code: ErrorCode
    led: LedGroup | None = None


class Coordinators:
    """The groups of one gateway."""

    def __init__(self, client: Client, place: GatewayPlace, limits: GatewayLimits) -> None:
        self._client = client
        self._limits = limits
        self._candidate = str(place)
        self._led: dict[str, LedGroup] = {}
        self._tasks = Tasks()
        self._is_ending = False

    async def find(self, group: str, node: BrokerNode, seconds: float) -> BrokerNode | None:
        """Return the node that coordinates a group; None if it is not known yet.

        Raises `BusyError` when this gateway coordinates as many groups as it may, and `QuireError`.
        """
        leader = await self._client.election(election_of_group(group)).leader()
        if leader is not None and leader.candidate != self._candidate:
            place = GatewayPlace.named(leader.candidate)
            return None if place is None or place.kafka is None else node_at(place.kafka)
        if self._is_ending:
            return None
        led = self._led.get(group)
        if led is None:
            if len(self._led) >= self._limits.groups:
                raise BusyError(f"it coordinates {self._limits.groups} groups")
            led = self._led[group] = LedGroup()
            led.task = self._tasks.start(self._lead(group, led), f"coordinates group {group}")
        with suppress(TimeoutError):
            async with time_limit(seconds):
                await led.settled.wait()
        return node if led.group is not None else None

    def get(self, group: str) -> LedGroup | None:
        """Return a group that this gateway coordinates, None for another."""
        led = self._led.get(group)
        return led if led is not None and led.group is not None else None

    def groups(self) -> list[tuple[str, ConsumerGroup]]:
        """Return the groups that this gateway coordinates, by name."""
        led = [(name, each.group) for name, each in sorted(self._led.items())]
        return [(name, group) for name, group in led if group is not None]

    def has_space(self, size: int) -> bool:
        """Return whether members of all groups may have so many bytes more."""
        held = sum(led.group.size for led in self._led.values() if led.group is not None)
        return held + size <= self._limits.bytes // GROUPS_SHARE

    async def _lead(self, name: str, led: LedGroup) -> None:
        election = self._client.election(election_of_group(name), self._candidate)
        try:
            async with election.lead() as leadership:
                led.leadership = leadership
                led.group = ConsumerGroup(self._limits.members)
                led.settled.set()
                await first_of(leadership.wait_lost(), self._tick(led, led.group))
        except QuireError:
            pass  # members find the next coordinator
        finally:
            group, led.group = led.group, None
            if group is not None:
                for member in group.members:
                    group.leave(member, _now())
            del self._led[name]
            led.settled.set()
            await election.close()

    async def _tick(self, led: LedGroup, group: ConsumerGroup) -> None:
        """Call the group when something is due. Return when it is deleted, or had no members for
        long.
        """
        while not led.is_deleted:
            due = group.next_event
            idle = self._limits.idle_seconds
            try:
                async with time_limit(idle if due is None else max(0.0, due - _now())):
                    await led.changed.wait()
            except TimeoutError:
                if due is None:
                    return
            led.changed.clear()
            group.expire(_now())

    def state(self, name: str) -> ErrorCode:
        """Return whether a group may be deleted: `none`, or `group_id_not_found` if the group had
        no members here. Other codes say why not.
        """
        led = self.get(name)
        if led is None or led.group is None:
            return ErrorCode.not_coordinator
        if led.group.members:
            return ErrorCode.non_empty_group
        return ErrorCode.none if led.group.generation else ErrorCode.group_id_not_found

    @asynccontextmanager
    async def withheld(self, name: str) -> AsyncIterator[Withheld]:
        """Withhold a group without members: in the block no member joins
        and no offset is committed here.

        The block has the group's `state`. A group with members stays as it is. Another gateway may
        have become the coordinator in the block: cursors are changed under the leadership.
        """
        code = self.state(name)
        if code not in (ErrorCode.none, ErrorCode.group_id_not_found):
            yield Withheld(code)
            return
        led = self._led[name]
        group, led.group = led.group, None
        try:
            await led.is_quiet.wait()
            yield Withheld(code, led)
        finally:
            if self._led.get(name) is led and not led.is_deleted:
                led.group = group

    async def give_up(self, led: LedGroup) -> None:
        """Forget a withheld group, and leave it to the next coordinator."""
        assert led.task is not None, "it was begun"
        led.is_deleted = True
        led.changed.set()
        await asyncio.wait([led.task])

    async def close(self) -> None:
        """Give up all groups, and take no other: members join again elsewhere."""
        self._is_ending = True
        await self._tasks.stop()


def _now() -> float:
    return asyncio.get_running_loop().time()


class Coordinating:
    """Answers requests about groups."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators
        self._commits = OffsetCommits()

    async def find(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer FindCoordinator."""
        keys = getattr(request, "coordinator_keys", None)
        asked = [request.key] if keys is None else list(keys)
        is_group = getattr(request, "key_type", _GROUP_KEY) == _GROUP_KEY
        denied = _denied(broker, session) if is_group else None
        found = [await self._find(broker, each, is_group, denied) for each in asked]
        return {"coordinators": found, **(found[0] if found else {})}

    async def _find(
        self, broker: Broker, key: str, is_group: bool, denied: Fields | None
    ) -> Fields:
        nowhere = {"key": key, "node_id": -1, "host": "", "port": -1}
        if denied is not None:
            return {**nowhere, **denied}
        if not is_group:
            code = ErrorCode.transactional_id_authorization_failed
            message = "a log has no transactions of Kafka"
            return nowhere | {"error_code": code, "error_message": message}
        try:
            node = await self._coordinators.find(
                key, broker.nodes.mine, broker.limits.takeover_seconds
            )
        except InvalidRequestError as error:
            code = ErrorCode.invalid_group_id
            return nowhere | {"error_code": code, "error_message": str(error)}
        except (QuireError, GatewayError) as error:
            code = ErrorCode.coordinator_not_available
            return nowhere | {"error_code": code, "error_message": str(error)}
        if node is None:
            return nowhere | {
                "error_code": ErrorCode.coordinator_not_available,
                "error_message": "the coordinator changes",
            }
        return {
            "key": key,
            "node_id": node.id,
            "host": node.host,
            "port": node.port,
            "error_code": ErrorCode.none,
            "error_message": None,
        }

    async def join(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer JoinGroup."""
        answer = {"protocol_name": "", "leader": "", "member_id": request.member_id, "members": []}
        if (denied := _denied(broker, session)) is not None:
            return {**answer, **denied}
        led = self._coordinators.get(request.group_id)
        if led is None:
            return answer | {"error_code": ErrorCode.not_coordinator}
        assert led.group is not None
        member = request.member_id
        if not member:
            member = f"{session.client[:CLIENT_CHARACTERS_MAX] or 'member'}-{secrets.token_hex(8)}"
            if request.__version__ >= 4:
                code = ErrorCode.member_id_required
                return answer | {"error_code": code, "member_id": member}
        if len(request.protocols) > PROTOCOLS_MAX:
            return answer | {"error_code": ErrorCode.invalid_request}
        said = sum(
            PROTOCOL_COST + len(each.name) + len(each.metadata) for each in request.protocols
        )
        if not self._coordinators.has_space(said):
            return answer | {"error_code": ErrorCode.group_max_size_reached}
        session_seconds = min(request.session_timeout.total_seconds(), MEMBER_SECONDS_MAX)
        rebalance = getattr(request, "rebalance_timeout", request.session_timeout)
        given = JoinRequest(
            request.protocol_type,
            [(each.name, each.metadata) for each in request.protocols],
            session_seconds,
            min(rebalance.total_seconds(), MEMBER_SECONDS_MAX),
            session.client,
            session.address,
        )
        future: asyncio.Future[JoinAnswer] = asyncio.get_running_loop().create_future()
        led.group.join(member, given, _now(), _setter(future))
        led.changed.set()
        joined = await future
        return {
            "error_code": joined.code,
            "generation_id": joined.generation,
            "protocol_type": joined.kind or None,
            "protocol_name": joined.protocol,
            "leader": joined.leader,
            "member_id": joined.member,
            "members": [{"member_id": name, "metadata": said} for name, said in joined.members],
        }

    async def sync(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer SyncGroup."""
        if (denied := _denied(broker, session)) is not None:
            return {**denied, "assignment": b""}
        led = self._coordinators.get(request.group_id)
        if led is None:
            return {"error_code": ErrorCode.not_coordinator, "assignment": b""}
        assert led.group is not None
        if not self._coordinators.has_space(
            sum(len(each.assignment) for each in request.assignments)
        ):
            return {"error_code": ErrorCode.group_max_size_reached, "assignment": b""}
        future: asyncio.Future[PartAnswer] = asyncio.get_running_loop().create_future()
        parts = {each.member_id: each.assignment for each in request.assignments}
        member, generation = request.member_id, request.generation_id
        led.group.sync(member, generation, parts, _now(), _setter(future))
        led.changed.set()
        code, part, kind, protocol = await future
        return {
            "error_code": code,
            "assignment": part,
            "protocol_type": kind or None,
            "protocol_name": protocol or None,
        }

    async def heartbeat(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer Heartbeat."""
        if (denied := _denied(broker, session)) is not None:
            return denied
        led = self._coordinators.get(request.group_id)
        if led is None:
            return {"error_code": ErrorCode.not_coordinator}
        assert led.group is not None
        code = led.group.heartbeat(request.member_id, request.generation_id, _now())
        return {"error_code": code}

    async def leave(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer LeaveGroup."""
        if (denied := _denied(broker, session)) is not None:
            return {**denied, "members": []}
        led = self._coordinators.get(request.group_id)
        if led is None:
            return {"error_code": ErrorCode.not_coordinator, "members": []}
        assert led.group is not None
        given = getattr(request, "members", None)
        names = [request.member_id] if given is None else [each.member_id for each in given]
        codes = [led.group.leave(name, _now()) for name in names]
        led.changed.set()
        members = [
            {"member_id": name, "group_instance_id": None, "error_code": code}
            for name, code in zip(names, codes, strict=True)
        ]
        code = codes[0] if given is None else ErrorCode.none
        return {"error_code": code, "members": members}

    async def commit(self, broker: Broker, session: KafkaSession, request: Any) -> Fields:
        """Answer OffsetCommit: move the cursors of the group."""
        led = self._coordinators.get(request.group_id)
        code = ErrorCode.not_coordinator
        if led is not None:
            assert led.group is not None
            generation = getattr(request, "generation_id_or_member_epoch", None)
            if generation is None:
                generation = request.generation_id
            code = led.group.may_commit(request.member_id, generation, _now())
            led.changed.set()  # a group without members is in use, too
        if led is None or code is not ErrorCode.none:
            return {"topics": await self._commit_all(broker, session, request, code)}
        with led.committing():
            return {"topics": await self._commit_all(broker, session, request, code, led)}

    async def _commit_all(
        self,
        broker: Broker,
        session: KafkaSession,
        request: Any,
        code: ErrorCode,
        led: LedGroup | None = None,
    ) -> list[Fields]:
        """Answer with a code, or commit each partition for a group that is led here. They begin
        together, in the order of requests: else a later commit of a topic would overtake this one,
        which waits for another topic.
        """

        async def commit(topic: str, each: Any) -> Fields:
            found = code
            if led is not None:
                found = await self._commit(broker, session, request.group_id, led, topic, each)
            return {"partition_index": each.partition_index, "error_code": found}

        asked = [(topic.name, each) for topic in request.topics for each in topic.partitions]
        partitions = iter(await asyncio.gather(*(commit(*each) for each in asked)))
        return [
            {"name": topic.name, "partitions": [next(partitions) for _ in topic.partitions]}
            for topic in request.topics
        ]

    async def _commit(
        self,
        broker: Broker,
        session: KafkaSession,
        group: str,
        led: LedGroup,
        topic: str,
        asked: Any,
    ) -> ErrorCode:
        try:
            broker.check(session, Action.READ, topic)
            if asked.partition_index != PARTITION:
                return ErrorCode.unknown_topic_or_partition
            write = partial(_move, broker, led, topic, group)
            await self._commits.commit(group, topic, asked.committed_offset, write)
        except (QuireError, GatewayError) as error:
            return group_code_of(error)
        return ErrorCode.none


def _denied(broker: Broker, session: KafkaSession) -> Fields | None:
    """Return the error of a caller that may have nothing to do with groups, None for others."""
    try:
        broker.check_grouped(session)
    except NotPermittedError as error:
        return {"error_code": ErrorCode.group_authorization_failed, "error_message": str(error)}
    return None


async def _move(broker: Broker, led: LedGroup, log: str, group: str, offset: int) -> None:
    """Move the cursor of a group, or make it. A consumer that went back resets it."""
    cursors = led.cursors(broker.client, log)
    try:
        cursor = await cursors.find(group)
    except NoSuchCursorError:
        cursor = await cursors.open(group, offset)  # another commit may have been first
    position = broker.served.position_of(cursor.log_id, offset)
    is_back = offset < await cursor.offset() if position is None else position < cursor.position
    if is_back:
        await cursors.reset(group, offset)
    else:
        await cursor.advance(offset if position is None else position)


def _setter(future: asyncio.Future[Any]) -> Callable[[Any], None]:
    def told(answer: Any) -> None:
        if not future.done():
            future.set_result(answer)

    return told
