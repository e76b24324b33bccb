"""The decision whether an upgrade may be finished, and which program may join a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import FormatLevelError, UpgradeRefusedError
from quire.metastore.levels import (
    OLDER_PROGRAM,
    SPEAKS,
    THIS_PROGRAM,
    Member,
    Program,
    Speaks,
    Upgrade,
    check_level,
    program_of,
)

OLD = Member("bookie", "b1", "host:1", OLDER_PROGRAM)
NEW = Member("client", "c1", "host, process 7", THIS_PROGRAM)
NEWER = Member("bookie", "b2", "host:2", Program("9.0", Speaks(2, 5)))
FAR = Member("bookie", "b3", "host:3", Program("99.0", Speaks(4, 5)))
DAMAGED = Member("bookie", "b4", "", None)


@pytest.mark.parametrize(
    ("level", "members", "expected"),
    [
        (1, [], 2),
        (1, [NEW], 2),
        (1, [NEW, NEWER], 2),
        (2, [NEW], 2),
        (2, [OLD], 2),  # it was raised before: a second call changes nothing
    ],
)
def test_the_level_that_an_upgrade_ends_at(
    level: int, members: list[Member], expected: int
) -> None:
    assert Upgrade(level, members).finished() == expected


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (OLD, r"bookie b1 at host:1 \(quire unknown, up to level 1\)"),
        (FAR, r"bookie b3 at host:3 \(quire 99.0, up to level 5\)"),
        (DAMAGED, r"bookie b4 \(its registration cannot be read\)"),
    ],
)
def test_a_member_that_does_not_speak_the_new_level_is_named(member: Member, words: str) -> None:
    with pytest.raises(UpgradeRefusedError, match=words) as refused:
        Upgrade(1, [NEW, member]).finished()
    assert refused.value.level == SPEAKS.highest
    assert len(refused.value.members) == 1


def test_a_program_older_than_the_cluster_finishes_nothing() -> None:
    with pytest.raises(FormatLevelError, match="upgrade quire here"):
        Upgrade(SPEAKS.highest + 1, []).finished()


def test_a_program_joins_only_at_a_level_that_it_speaks() -> None:
    check_level(2, Speaks(2, 3))
    check_level(3, Speaks(2, 3))
    with pytest.raises(FormatLevelError, match="level 4, and this program speaks 2 to 3: upgrade"):
        check_level(4, Speaks(2, 3))
    with pytest.raises(FormatLevelError, match=r"level 1.* speaks 2 to 3: finish the upgrade"):
        check_level(1, Speaks(2, 3))


def test_a_registration_without_levels_is_of_an_older_program() -> None:
    assert program_of({"address": "host:1"}) == OLDER_PROGRAM
    assert program_of(THIS_PROGRAM.fields()) == THIS_PROGRAM


@pytest.mark.parametrize(
    "speaks", [[], [1], [2, 1], [0, 1], ["1", "2"], 3, None, {}, [1, 2, 3], [1.0, 2.0]]
)
def test_levels_that_are_none_are_refused(speaks: object) -> None:
    with pytest.raises(ValueError, match="speaks"):
        program_of({"version": "1", "speaks": speaks})


PROGRAMS = st.builds(
    lambda version, low, more: Program(version, Speaks(low, low + more)),
    st.text(max_size=3),
    st.integers(1, 4),
    st.integers(0, 3),
)


@given(st.integers(1, SPEAKS.highest), st.lists(PROGRAMS))
def test_a_raised_level_is_spoken_by_all(level: int, programs: list[Program]) -> None:
    upgrade = Upgrade(level, [Member("client", "c", "", each) for each in programs])
    try:
        after = upgrade.finished()
    except UpgradeRefusedError:
        assert any(not each.speaks(SPEAKS.highest) for each in upgrade.members)
        return
    assert after >= level
    assert after == level or all(each.speaks(after) for each in upgrade.members)
