"""Members of one consumer group, and how they share topics out. Pure.

Kafka's classic protocol: members join, the first of them assigns, and each asks for its part. A
change of members begins a *generation*: everything that a member says names it.

    empty → joining → assigning → stable
               ↑__________|_________|      a member joins, leaves, or is silent

The group tells no member anything by itself: calls return what to answer, or register a callback
that is called once, when the answer is known. Time comes from outside: `expire` is called with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

FIRST_JOIN_SECONDS: Final = 0.3
"""How long a new group waits for further members."""

PROTOCOLS_MAX: Final = 20
"""Protocols that a member may know. Kafka's clients name two or three."""

PROTOCOL_COST: Final = 64
"""Bytes that a protocol counts for beside its own: it takes some also if it is empty."""

NAME_BYTES_MAX: Final = 1024
"""Names that a member gives: its own, and those of protocols. All members and operators are told
them, also in versions of answers that hold 32,767 bytes.
"""


class Stage(StrEnum):
    """Where a group is."""

    EMPTY = "empty"
    JOINING = "joining"
    ASSIGNING = "assigning"
    STABLE = "stable"


class JoinAnswer(NamedTuple):
    """The answer to a member that joined."""

    code: ErrorCode
    member: str = ""
    generation: int = -1
    protocol: str = ""
    kind: str = ""
    leader: str = ""
    members: Sequence[tuple[str, bytes]] = ()
    """All members with their metadata, for the leader alone."""


class MemberDescription(NamedTuple):
    """A member as operators see it."""

    name: str
    client: str
    """The name that the program gives itself."""
    host: str
    metadata: bytes
    """What the member said for the way of assigning in use."""
    part: bytes


class PartAnswer(NamedTuple):
    """The answer to a member that asks for its part."""

    code: ErrorCode
    part: bytes = b""
    kind: str = ""
    protocol: str = ""


OnJoined: TypeAlias = Callable[[JoinAnswer], None]
OnAssigned: TypeAlias = Callable[[PartAnswer], None]


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A member's wishes, as it joins."""

    kind: str
    protocols: Sequence[tuple[str, bytes]]
    """Ways of assigning that it knows, the best first, each with metadata for the leader."""
    session_seconds: float
    rebalance_seconds: float
    client: str = ""
    host: str = ""

    @property
    def is_long(self) -> bool:
        """Whether a name of a protocol is longer than `NAME_BYTES_MAX`."""
        return _is_long(self.kind) or any(_is_long(name) for name, _ in self.protocols)


@dataclass(eq=False, slots=True)
class _GroupMember:
    name: str
    application: JoinRequest
    silent_after: float
    on_joined: OnJoined | None = None
    on_assigned: OnAssigned | None = None
    part: bytes = b""

    @property
    def size(self) -> int:
        """The bytes that the member said, and its part."""
        said = sum(
            PROTOCOL_COST + len(name) + len(each) for name, each in self.application.protocols
        )
        return len(self.name) + len(self.application.client) + said + len(self.part)


@dataclass(eq=False)
class ConsumerGroup:
    """See the module."""

    members_max: int = 1000
    stage: Stage = Stage.EMPTY
    generation: int = 0
    protocol: str = ""
    leader: str = ""
    join_until: float = 0.0
    """When the present round of joining ends, at the latest."""
    _members: dict[str, _GroupMember] = field(default_factory=dict)

    @property
    def members(self) -> Sequence[str]:
        """The names of the members, in the order of their coming."""
        return tuple(self._members)

    @property
    def kind(self) -> str:
        """The kind of protocol that the members speak; empty without members."""
        return next((each.application.kind for each in self._members.values()), "")

    def described(self) -> Sequence[MemberDescription]:
        """Return a description of each member."""
        return [
            MemberDescription(
                *(each.name, each.application.client, each.application.host),
                *(dict(each.application.protocols).get(self.protocol, b""), each.part),
            )
            for each in self._members.values()
        ]

    @property
    def size(self) -> int:
        """The bytes that the members said, and their parts."""
        return sum(each.size for each in self._members.values())

    @property
    def next_event(self) -> float | None:
        """When `expire` should be called at the latest; None: never."""
        times = [each.silent_after for each in self._members.values() if each.on_joined is None]
        if self.stage is Stage.JOINING:
            times.append(self.join_until)
        return min(times, default=None)

    def join(self, member: str, given: JoinRequest, now: float, on_joined: OnJoined) -> None:
        """Take a member in, or back. `on_joined` is called when the round of joining ends."""
        if _is_long(member):
            on_joined(JoinAnswer(ErrorCode.unknown_member_id))
            return
        if not given.protocols or given.is_long or not self._fits(member, given):
            on_joined(JoinAnswer(ErrorCode.inconsistent_group_protocol, member))
            return
        if member not in self._members and len(self._members) >= self.members_max:
            on_joined(JoinAnswer(ErrorCode.group_max_size_reached, member))
            return
        was_empty = not self._members
        known = self._members.get(member)
        if known is None:
            known = self._members[member] = _GroupMember(member, given, now + given.session_seconds)
        elif known.on_joined is not None:
            known.on_joined(JoinAnswer(ErrorCode.rebalance_in_progress, member))
        known.application, known.on_joined = given, on_joined
        known.silent_after = now + given.session_seconds
        self._begin_joining(now, FIRST_JOIN_SECONDS if was_empty else None)
        self._end_joining_if_whole(now)

    def _fits(self, member: str, given: JoinRequest) -> bool:
        """Whether all members would have a way of assigning in common."""
        others = [each for name, each in self._members.items() if name != member]
        if any(each.application.kind != given.kind for each in others):
            return False
        return bool(_common([given, *(each.application for each in others)]))

    def _begin_joining(self, now: float, seconds: float | None) -> None:
        if self.stage is Stage.JOINING:
            return
        self.stage = Stage.JOINING
        slowest = max(each.application.rebalance_seconds for each in self._members.values())
        self.join_until = now + (slowest if seconds is None else min(seconds, slowest))
        self._is_first = seconds is not None
        for each in self._members.values():
            _tell_assigned(each, PartAnswer(ErrorCode.rebalance_in_progress))

    def _end_joining_if_whole(self, now: float) -> None:
        if self._is_first:
            return  # further members may come
        if all(each.on_joined is not None for each in self._members.values()):
            self._end_joining(now)

    def _end_joining(self, now: float) -> None:
        """Begin a generation with the members that joined."""
        joined = {name: each for name, each in self._members.items() if each.on_joined is not None}
        self._members = joined
        self._is_first = False
        if not joined:
            self.stage = Stage.EMPTY
            return
        self.generation += 1
        self.stage = Stage.ASSIGNING
        self.protocol = _common([each.application for each in joined.values()])[0]
        if self.leader not in joined:
            self.leader = next(iter(joined))
        said = [(name, dict(each.application.protocols)[self.protocol])
                for name, each in joined.items()]  # fmt: skip
        for name, each in joined.items():
            each.part = b""
            each.silent_after = now + each.application.session_seconds
            on_joined, each.on_joined = each.on_joined, None
            assert on_joined is not None
            members = said if name == self.leader else ()
            kind = each.application.kind
            on_joined(
                JoinAnswer(
                    *(ErrorCode.none, name, self.generation, self.protocol, kind),
                    *(self.leader, members),
                )
            )

    def sync(
        self,
        member: str,
        generation: int,
        parts: Mapping[str, bytes],
        now: float,
        on_assigned: OnAssigned,
    ) -> None:
        """Answer a member with its part, once the leader has given the parts."""
        code = self.check(member, generation, now)
        if code is not ErrorCode.none or self.stage is Stage.JOINING:
            joining = code is ErrorCode.none
            on_assigned(PartAnswer(ErrorCode.rebalance_in_progress if joining else code))
            return
        known = self._members[member]
        if self.stage is Stage.ASSIGNING and member == self.leader:
            for name, each in self._members.items():
                each.part = parts.get(name, b"")
            self.stage = Stage.STABLE
            for each in self._members.values():
                _tell_assigned(each, self._part_of(each))
        if self.stage is Stage.STABLE:
            on_assigned(self._part_of(known))
            return
        _tell_assigned(known, PartAnswer(ErrorCode.rebalance_in_progress))
        known.on_assigned = on_assigned

    def _part_of(self, member: _GroupMember) -> PartAnswer:
        kind = member.application.kind
        return PartAnswer(ErrorCode.none, member.part, kind, self.protocol)

    def check(self, member: str, generation: int, now: float) -> ErrorCode:
        """Return whether a member of a generation is one now; it was heard."""
        known = self._members.get(member)
        if known is None:
            return ErrorCode.unknown_member_id
        if generation != self.generation:
            return ErrorCode.illegal_generation
        known.silent_after = now + known.application.session_seconds
        return ErrorCode.none

    def heartbeat(self, member: str, generation: int, now: float) -> ErrorCode:
        """Return whether the member's generation goes on."""
        code = self.check(member, generation, now)
        if code is ErrorCode.none and self.stage is Stage.JOINING:
            return ErrorCode.rebalance_in_progress
        return code

    def may_commit(self, member: str, generation: int, now: float) -> ErrorCode:
        """Return whether offsets may be committed; without a member only in an empty group."""
        if generation < 0 and not self._members:
            return ErrorCode.none
        return self.check(member, generation, now)

    def leave(self, member: str, now: float) -> ErrorCode:
        """Take a member out."""
        if member not in self._members:
            return ErrorCode.unknown_member_id
        self._drop([member], now)
        return ErrorCode.none

    def expire(self, now: float) -> None:
        """Take out members that were silent for too long; end a round of joining that is over."""
        silent = [
            each.name
            for each in self._members.values()
            if each.on_joined is None and each.silent_after <= now
        ]
        if silent:
            self._drop(silent, now)
        if self.stage is Stage.JOINING and self.join_until <= now:
            self._end_joining(now)

    def _drop(self, names: Sequence[str], now: float) -> None:
        for name in names:
            gone = self._members.pop(name)
            if gone.on_joined is not None:
                gone.on_joined(JoinAnswer(ErrorCode.unknown_member_id, name))
            _tell_assigned(gone, PartAnswer(ErrorCode.unknown_member_id))
        if not self._members:
            self.stage = Stage.EMPTY
            return
        self._begin_joining(now, None)
        self._end_joining_if_whole(now)

    _is_first: bool = False
    """Whether the round of joining is the first of a new group."""


def _is_long(name: str) -> bool:
    return len(name.encode()) > NAME_BYTES_MAX


def _common(applications: Sequence[JoinRequest]) -> list[str]:
    """Return the ways of assigning that all know, in the order of the first one."""
    known = [{name for name, _ in each.protocols} for each in applications]
    shared = set.intersection(*known)
    return [name for name, _ in applications[0].protocols if name in shared]


def _tell_assigned(member: _GroupMember, answer: PartAnswer) -> None:
    on_assigned, member.on_assigned = member.on_assigned, None
    if on_assigned is not None:
        on_assigned(answer)
