"""Groups of consumers: rounds of joining, parts, silence, and who may commit."""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from quire.gateway.kafka.groups import (
    FIRST_JOIN_SECONDS,
    NAME_BYTES_MAX,
    ConsumerGroup,
    JoinAnswer,
    JoinRequest,
    PartAnswer,
    Stage,
)

RANGE = (("range", b"topics"),)


class Members:
    """A group, and what its members were told."""

    def __init__(self) -> None:
        self.group = ConsumerGroup()
        self.now = 0.0
        self.joined: dict[str, list[JoinAnswer]] = {}
        self.assigned: dict[str, list[PartAnswer]] = {}

    def join(
        self, name: str, protocols: Sequence[tuple[str, bytes]] = RANGE, kind: str = "consumer"
    ) -> None:
        told = self.joined.setdefault(name, [])
        given = JoinRequest(kind, protocols, 10.0, 30.0)
        self.group.join(name, given, self.now, told.append)

    def sync(self, name: str, **parts: bytes) -> None:
        told = self.assigned.setdefault(name, [])
        self.group.sync(name, self.group.generation, parts, self.now, told.append)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.group.expire(self.now)


def stable(*names: str) -> Members:
    members = Members()
    for name in names:
        members.join(name)
    members.later(FIRST_JOIN_SECONDS)
    for name in names:
        members.sync(name, **{each: each.encode() for each in names})
    assert members.group.stage is Stage.STABLE
    return members


def test_a_new_group_waits_for_further_members_and_names_one_leader() -> None:
    members = Members()
    members.join("a")
    members.join("b")
    assert members.joined == {"a": [], "b": []}
    members.later(FIRST_JOIN_SECONDS)
    (first,), (second,) = members.joined["a"], members.joined["b"]
    assert (first.code, first.generation, first.leader) == (ErrorCode.none, 1, "a")
    assert first.members == [("a", b"topics"), ("b", b"topics")]
    assert (second.generation, second.leader, second.members) == (1, "a", ())


def test_a_name_that_fits_no_older_answer_is_refused() -> None:
    members = Members()
    long = "é" * (NAME_BYTES_MAX // 2 + 1)
    members.join(long)
    members.join("a", kind=long)
    members.join("b", [(long, b"")])
    wrong = ErrorCode.inconsistent_group_protocol
    assert {name: told[0].code for name, told in members.joined.items()} == {
        long: ErrorCode.unknown_member_id,
        "a": wrong,
        "b": wrong,
    }
    assert not members.group.members
    members.join(long[:-1])
    assert members.group.members == (long[:-1],)


def test_members_get_their_parts_when_the_leader_has_given_them() -> None:
    members = Members()
    members.join("a")
    members.join("b")
    members.later(FIRST_JOIN_SECONDS)
    members.sync("b")
    assert members.assigned["b"] == []
    members.sync("a", a=b"1", b=b"2")
    assert [each.part for each in members.assigned["a"]] == [b"1"]
    assert [each.part for each in members.assigned["b"]] == [b"2"]
    members.sync("b")
    assert members.assigned["b"][-1].part == b"2"


def test_a_further_member_begins_a_generation() -> None:
    members = stable("a")
    members.join("b")
    assert members.group.heartbeat("a", 1, members.now) is ErrorCode.rebalance_in_progress
    members.join("a")
    assert [each.generation for each in members.joined["b"]] == [2]
    assert members.joined["a"][-1].leader == "a"
    assert members.group.heartbeat("a", 1, members.now) is ErrorCode.illegal_generation


def test_a_silent_member_is_taken_out() -> None:
    members = stable("a", "b")
    members.later(6)
    assert members.group.heartbeat("a", 1, members.now) is ErrorCode.none
    members.later(6)
    assert members.group.members == ("a",)
    assert members.group.heartbeat("a", 1, members.now) is ErrorCode.rebalance_in_progress
    assert members.group.heartbeat("b", 1, members.now) is ErrorCode.unknown_member_id


def test_a_member_that_does_not_join_again_holds_the_others_up_for_a_while_only() -> None:
    members = stable("a", "b")
    members.join("c")
    members.join("a")
    for _ in range(5):
        members.later(6)
        members.group.heartbeat("b", 1, members.now)
    assert members.joined["c"][-1].generation == 2
    assert members.group.members == ("a", "c")


def test_the_last_member_that_leaves_empties_the_group() -> None:
    members = stable("a")
    assert members.group.leave("a", members.now) is ErrorCode.none
    assert (members.group.stage, members.group.next_event) == (Stage.EMPTY, None)
    assert members.group.leave("a", members.now) is ErrorCode.unknown_member_id
    assert members.group.may_commit("", -1, members.now) is ErrorCode.none
    members.join("b")
    members.later(FIRST_JOIN_SECONDS)
    assert members.joined["b"][-1].generation == 2


def test_members_have_a_way_of_assigning_in_common() -> None:
    members = Members()
    members.join("a", (("sticky", b"1"), ("range", b"2")))
    members.join("b", (("range", b"3"), ("other", b"4")))
    members.join("c", (("other", b"5"),))
    members.join("d", RANGE, kind="connect")
    for name in ("c", "d"):
        assert [each.code for each in members.joined[name]] == [
            ErrorCode.inconsistent_group_protocol
        ]
    members.later(FIRST_JOIN_SECONDS)
    assert members.joined["a"][0].protocol == "range"
    assert members.joined["a"][0].members == [("a", b"2"), ("b", b"3")]


def test_only_members_of_the_generation_commit() -> None:
    members = stable("a")
    assert members.group.may_commit("a", 1, members.now) is ErrorCode.none
    assert members.group.may_commit("a", 0, members.now) is ErrorCode.illegal_generation
    assert members.group.may_commit("x", 1, members.now) is ErrorCode.unknown_member_id
    assert members.group.may_commit("", -1, members.now) is ErrorCode.unknown_member_id


def test_a_member_that_syncs_while_others_join_joins_again() -> None:
    members = Members()
    members.join("a")
    members.later(FIRST_JOIN_SECONDS)
    members.join("b")
    members.sync("a", a=b"1")
    assert members.assigned["a"][-1].code is ErrorCode.rebalance_in_progress


def test_a_group_has_so_many_members() -> None:
    members = Members()
    members.group.members_max = 2
    for name in "abc":
        members.join(name)
    assert members.joined["c"] == [JoinAnswer(ErrorCode.group_max_size_reached, "c")]
    members.join("a")  # a member may join again
    members.later(FIRST_JOIN_SECONDS)
    assert [each.code for each in members.joined["b"]] == [ErrorCode.none]
