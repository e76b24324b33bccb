"""Placement policies: over which domains the copies of a ledger spread.

    require=rack:2,prefer=zone:3,durable=zone:2,within=region:eu

  require   each write set has bookies in so many domains of a level, or creation fails
  prefer    the same as far as bookies allow; levels that no term names are preferred at Qw
  durable   an append is acknowledged only with copies in so many domains; requires as many
  within    only bookies with one of these labels at a level: `region:eu|us`

A bookie that lacks the label of a required level is not a candidate: it may be anywhere.

Pure. The policy is stored with the ledger, because a recovery must obey it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quire.entry import BookieId
from quire.errors import ConfigurationError
from quire.labels import LEVELS, NOWHERE, Domain, Labels
from quire.ledger.quorum import Replication


class Candidate(NamedTuple):
    """A bookie that may be in an ensemble: where it is, and the bytes free on its disk."""

    bookie: BookieId
    labels: Labels = NOWHERE
    room: int = 0
    """0: not known."""


class Spread(NamedTuple):
    """So many different domains of a level."""

    level: str
    domains: int

    def __str__(self) -> str:
        return f"{self.level}:{self.domains}"


class Within(NamedTuple):
    """The labels of a level that are allowed."""

    level: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.level}:{'|'.join(self.values)}"

    @property
    def is_readable(self) -> bool:
        """Whether the text of these labels means the same labels when it is read again: a record of
        a ledger holds it. A single text is a sequence of texts too, and is refused.
        """
        if not isinstance(self.values, tuple) or not all(type(each) is str for each in self.values):
            return False
        is_given = bool("|".join(self.values))
        return is_given and not any("," in each or "|" in each for each in self.values)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the copies of a ledger may be. Without any term, copies spread as widely as they can.

    Attributes:
        require: the least spread of every write set; fewer is an error.
        prefer: the spread to aim at; a level without a term aims at Qw domains.
        durable: domains that must hold an entry before its append is acknowledged.
        within: labels that a bookie must have.

    Raises:
        ConfigurationError: a level is unknown or named twice in a term, or a number is not
            positive, or `within` has no labels.
    """

    require: tuple[Spread, ...] = ()
    prefer: tuple[Spread, ...] = ()
    durable: Spread | None = None
    within: tuple[Within, ...] = ()

    def __post_init__(self) -> None:
        spreads = [*self.require, *self.prefer, *filter(None, [self.durable])]
        for level in [*(each.level for each in spreads), *(each.level for each in self.within)]:
            if level not in LEVELS:
                raise ConfigurationError(
                    f"placement {self}: {level!r} is not one of {', '.join(LEVELS)}"
                )
        for each in spreads:
            if type(each.domains) is not int or each.domains < 1:
                raise ConfigurationError(
                    f"placement {self}: {each.level} needs a positive number of domains"
                )
        for term in self.within:
            if not term.is_readable:
                raise ConfigurationError(
                    f"placement within {term.level}: {term.values!r} are not labels: give a tuple "
                    "of texts without commas and bars, as in Within('zone', ('a', 'b'))"
                )
        for levels in (
            [each.level for each in self.require],
            [each.level for each in self.prefer],
            [each.level for each in self.within],
        ):
            if len(set(levels)) < len(levels):
                raise ConfigurationError(f"placement {self}: a term names a level twice")

    @classmethod
    def parse(cls, text: str) -> Placement:
        """Return the policy that a text describes, as `str` writes it.

        Args:
            text: terms with commas between, as `require=rack:2,durable=zone:2`; may be empty.

        Returns:
            The policy. The empty text means no policy.

        Raises:
            ConfigurationError: the text has another form.
        """
        spreads: dict[str, list[Spread]] = {"require": [], "prefer": [], "durable": []}
        within = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            kind, _, term = part.partition("=")
            level, _, value = term.partition(":")
            if kind == "within" and value:
                within.append(Within(level, tuple(value.split("|"))))
            elif kind in spreads and value.isascii() and value.isdecimal():
                spreads[kind].append(Spread(level, int(value)))
            else:
                raise ConfigurationError(
                    f"placement {text!r}: {part!r} is not require=LEVEL:N, prefer=LEVEL:N, "
                    "durable=LEVEL:N or within=LEVEL:VALUE|VALUE"
                )
        if len(spreads["durable"]) > 1:
            raise ConfigurationError(f"placement {text!r}: durable may be given once")
        return cls(
            tuple(spreads["require"]),
            tuple(spreads["prefer"]),
            next(iter(spreads["durable"]), None),
            tuple(within),
        )

    def __str__(self) -> str:
        terms = [f"require={each}" for each in self.require]
        terms += [f"prefer={each}" for each in self.prefer]
        terms += [f"durable={self.durable}"] if self.durable else []
        return ",".join([*terms, *(f"within={each}" for each in self.within)])

    def check(self, replication: Replication) -> None:
        """Raise when Qw bookies can never be in so many domains.

        Args:
            replication: the ledger's quorums.

        Raises:
            ConfigurationError: the policy needs more domains than there are copies.
        """
        for domains in self.needs().values():
            if domains > replication.write_quorum:
                raise ConfigurationError(
                    f"placement {self}: {domains} domains need as many copies, replication "
                    f"{replication} writes {replication.write_quorum}"
                )

    def needs(self) -> dict[str, int]:
        """Return the least spread of every write set, by level.

        Returns:
            The number of domains that a write set must span, by level.
        """
        needs = dict(self.require)
        if self.durable is not None:
            level, domains = self.durable
            needs[level] = max(domains, needs.get(level, 0))
        return needs

    def wishes(self, replication: Replication) -> dict[str, int]:
        """Return the spread to aim at, by level, the widest level first.

        Args:
            replication: the ledger's quorums.

        Returns:
            The number of domains to span if there are as many, by level.
        """
        wishes = dict.fromkeys(LEVELS, replication.write_quorum) | dict(self.prefer)
        return {level: max(wishes[level], self.needs().get(level, 0)) for level in LEVELS}

    def admits(self, labels: Labels) -> bool:
        """Return whether a bookie may hold copies.

        Args:
            labels: where the bookie is.

        Returns:
            False if the policy keeps copies away from the bookie.
        """
        return all(map(labels.names, self.needs())) and all(
            getattr(labels, each.level) in each.values for each in self.within
        )


ANYWHERE: Final = Placement()


def spread(places: Iterable[Labels], level: str) -> int:
    """Return how many domains of a level some places are in."""
    return len({each.domain(level) for each in places})


def least_spread(replication: Replication, places: Sequence[Labels], level: str) -> int:
    """Return the smallest spread of any write set of an ensemble, given its places by position."""
    return min(
        spread([places[position] for position in replication.write_set(start)], level)
        for start in range(replication.ensemble)
    )


def domains_of(places: Iterable[Labels], level: str) -> tuple[Domain, ...]:
    """Return the domain of each place."""
    return tuple(each.domain(level) for each in places)
