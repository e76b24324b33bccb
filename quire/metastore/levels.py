"""The feature level of a cluster: which formats its programs may write into shared records.

A program speaks a range of levels: it reads every format of the range. A new format is read by the
first program that knows it, and written only once the cluster's level allows. The level is in the
cluster's record, and only `quire cluster upgrade --finish` raises it, as soon as every registered
program speaks the new level. So programs of two neighbouring releases work together in any order.

    level  formats that may be written
    1      those of quire 0.1.0
    2      records and rows with fields that are new since then: programs that speak this level keep
           fields that they do not know (quire/fields.py); programs of level 1 refuse such records.
           Manifests in pages, and with the process that leads. Keys, headers and event times of
           records (quire/log/records/attributes.py): programs of level 1 pass them over

A program without a word about its levels speaks level 1 alone. A new cluster starts at the highest
level of the program that creates it.

Pure. Reasons: docs/decisions/0027-feature-levels.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from quire.errors import FormatLevelError, UpgradeRefusedError
from quire.version import SPEAKS as SPEAKS
from quire.version import Speaks as Speaks
from quire.version import __version__

PAGES_LEVEL: Final = 2
"""From this level on manifests are written in pages."""

HOLDER_LEVEL: Final = 2
"""From this level on manifests name the process that leads (quire/log/manifest/holder.py)."""

ATTRIBUTES_LEVEL: Final = 2
"""From this level on records have keys, headers and event times."""

READ_PASSWORD_LEVEL: Final = 2
"""From this level on reads of a ledger can need its password: bookies of level 1 would answer
them without it."""

STRETCH_LEVEL: Final = 2
"""From this level on passwords are stretched: programs of level 1 compute other keys."""


class Program(NamedTuple):
    """A program, as a registration describes it."""

    version: str
    speaks: Speaks

    def fields(self) -> dict[str, object]:
        """Return the fields of a registration that describe the program."""
        return {"version": self.version, "speaks": list(self.speaks)}


FIRST_LEVEL: Final = 1
THIS_PROGRAM: Final = Program(__version__, SPEAKS)
OLDER_PROGRAM: Final = Program("unknown", Speaks(FIRST_LEVEL, FIRST_LEVEL))
"""A program of a time before levels: its registration does not name any."""

PROGRAM_FIELDS: Final = frozenset({"version", "speaks"})


def program_of(body: dict[str, Any]) -> Program:
    """Return the program that a registration's fields describe. Raises `ValueError`."""
    if "speaks" not in body:
        return OLDER_PROGRAM
    match body.get("version"), body["speaks"]:
        case str(version), [int(lowest), int(highest)] if 0 < lowest <= highest:
            return Program(version, Speaks(lowest, highest))
    raise ValueError(f"version {body.get('version')!r}, speaks {body['speaks']!r}")


def check_level(level: int, speaks: Speaks = SPEAKS) -> None:
    """Raise `FormatLevelError` unless a program that speaks these levels may join a cluster."""
    if not speaks.lowest <= level <= speaks.highest:
        raise FormatLevelError(level, *speaks)


class Member(NamedTuple):
    """A registered program."""

    kind: str
    """`bookie` or `client`."""
    name: str
    where: str
    """The address of a bookie, or host and process of a client."""
    program: Program | None
    """None: its registration cannot be read."""

    def speaks(self, level: int) -> bool:
        """Whether it speaks a level."""
        if self.program is None:
            return False
        return self.program.speaks.lowest <= level <= self.program.speaks.highest


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Where a cluster is in its upgrade to this program's formats."""

    level: int
    members: Sequence[Member]
    newest: int = SPEAKS.highest

    @property
    def is_finished(self) -> bool:
        """Whether the cluster is at the newest level of this program, or above."""
        return self.level >= self.newest

    @property
    def obstacles(self) -> Sequence[Member]:
        """The members that do not speak the newest level."""
        return [each for each in self.members if not each.speaks(self.newest)]

    def finished(self) -> int:
        """Return the level that the cluster is to have.

        Raises `UpgradeRefusedError`, naming the members that speak less, and `FormatLevelError`
        when this program is older than the cluster.
        """
        check_level(self.level)
        if self.is_finished:
            return self.level
        if self.obstacles:
            raise UpgradeRefusedError(self.newest, [describe(each) for each in self.obstacles])
        return self.newest


def describe(member: Member) -> str:
    """Return a member in words."""
    if member.program is None:
        return f"{member.kind} {member.name} (its registration cannot be read)"
    version, speaks = member.program
    where = f" at {member.where}" if member.where else ""
    return f"{member.kind} {member.name}{where} (quire {version}, up to level {speaks.highest})"
