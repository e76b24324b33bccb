"""Labels: where a bookie or a client is, by region, zone, rack and host.

    region=eu,zone=a,rack=r1,host=h7

A *domain* is a place that fails as a whole: everything with the same labels down to one level. Its
name is the path from the first level on, so rack `r1` of zone `a` is another rack than `r1` of zone
`b`. Without a label at a level a bookie is in the nameless domain there, which it shares with the
other bookies that lack the label under the same labels above.

Pure. Not here: which spread a ledger asks for (`quire/ledger/domains.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from quire.errors import ConfigurationError

LEVELS: Final = ("region", "zone", "rack", "host")
"""From the widest level to the narrowest."""

Domain: TypeAlias = tuple[str, ...]
"""The labels down to one level."""

_VALUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_STRANGE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Labels:
    """One place. A label that is not given is empty.

    Attributes:
        region: a part of the world; regions are tens of milliseconds apart.
        zone: a data center of the region.
        rack: machines that share power or a switch.
        host: the machine.

    Raises:
        ConfigurationError: a label is not up to 63 letters, digits, dots, dashes and underscores.
    """

    region: str = ""
    zone: str = ""
    rack: str = ""
    host: str = ""

    def __post_init__(self) -> None:
        for level in LEVELS:
            value = getattr(self, level)
            if value and not _VALUE.fullmatch(value):
                raise ConfigurationError(
                    f"label {level}={value!r} is not up to 63 letters, digits, dots, dashes and "
                    "underscores, the first a letter or digit"
                )

    @classmethod
    def parse(cls, text: str) -> Labels:
        """Return the labels that a text lists, as `str` writes them.

        Args:
            text: `level=value` pairs with commas between, as `region=eu,zone=a`; may be empty.

        Returns:
            The labels. Levels that the text omits are unset.

        Raises:
            ConfigurationError: the text has another form, an unknown level, or a level twice.
        """
        values: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            level, equals, value = part.partition("=")
            if level not in LEVELS or not equals or not value or level in values:
                raise ConfigurationError(
                    f"labels {text!r}: {part!r} is not one of {', '.join(LEVELS)}, each at most "
                    "once, with a value, as in rack=r1"
                )
            values[level] = value
        return cls(**values)

    def __str__(self) -> str:
        given = ((level, getattr(self, level)) for level in LEVELS)
        return ",".join(f"{level}={value}" for level, value in given if value)

    def at_host(self, machine: str) -> Labels:
        """Return the labels with a machine's name as host, unless the host is given.

        Args:
            machine: the name; other characters than a label has become dashes.

        Returns:
            These labels, with a host.
        """
        if self.host:
            return self
        name = _STRANGE.sub("-", machine).strip("._-")[:63]
        return replace(self, host=name or "localhost")

    @property
    def path(self) -> Domain:
        """The labels of all levels."""
        return self.region, self.zone, self.rack, self.host

    def domain(self, level: str) -> Domain:
        """Return the domain of this place at a level.

        Args:
            level: `region`, `zone`, `rack` or `host`.

        Returns:
            The labels from the region down to `level`.
        """
        return self.path[: LEVELS.index(level) + 1]

    def shared(self, other: Labels) -> int:
        """Return how many levels two places have alike, from the widest on: 4 on one host.

        Args:
            other: the other place.

        Returns:
            0 to 4 levels.
        """
        count = 0
        for mine, theirs in zip(self.path, other.path, strict=True):
            if mine != theirs:
                break
            count += 1
        return count

    def names(self, level: str) -> bool:
        """Return whether there is a label at a level.

        Args:
            level: `region`, `zone`, `rack` or `host`.

        Returns:
            True if the label is set.
        """
        return bool(getattr(self, level))


NOWHERE: Final = Labels()
"""No labels."""


def domain_name(domain: Domain) -> str:
    """Return a domain for messages: its labels with slashes between."""
    return "/".join(filter(None, domain)) or "(no label)"
