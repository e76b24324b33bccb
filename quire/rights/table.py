"""The table of rights: rules, and the record that holds them.

    /quire/rights        kind `rights`, version 1

A rule names identities, a role, how far it reaches, and whether it allows or denies:

    anonymous            peers without a certificate, and they alone
    quire://client/a     the peer with this URI in its certificate; a name without a colon is a DNS
                         name, in any case
    quire://bookie/*     each known peer with a name that begins so
    *                    each known peer

Without the record each peer may do everything. With it, a call is denied unless a rule allows it. A
row that a later program extends with a field is kept; a new kind of role or effect needs a new
version of the record, because this program would misjudge it.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from quire.errors import CorruptRecordError, InvalidRequestError
from quire.fields import NOTHING, Unknown, joined, split
from quire.metastore.layout import RIGHTS
from quire.metastore.record import RecordFormat
from quire.rights.roles import Role
from quire.rights.scopes import EVERYWHERE, Reach
from quire.wire.identity import ANONYMOUS, Identity, IdentityKind, dns_identity

FORMAT: Final = RecordFormat("rights", frozenset({"rules"}))

RIGHTS_LEVEL: Final = 2
"""The lowest feature level at which the record may be written: older bookies would not obey it."""

RULES_MAX: Final = 2000
"""Each decision that is not remembered looks at all rules, and the record is one value."""

NAME_CHARACTERS_MAX: Final = 255

EVERY_PEER: Final = "*"
_ROW: Final = frozenset({"identity", "role", "effect", "log", "logs", "ledger", "by", "since_ms"})


class Effect(StrEnum):
    """The effect of a rule. A denial wins over every permission."""

    ALLOW = "allow"
    DENY = "deny"


def identity_named(name: str) -> Identity:
    """Return the identity that a name in a rule, a file or a command means.

    Raises `InvalidRequestError` for an empty or overlong name, and for a pattern.
    """
    check_name(name)
    if name.endswith(EVERY_PEER):
        raise InvalidRequestError(f"{name!r} names many peers: name one")
    if name == ANONYMOUS.name:
        return ANONYMOUS
    kind = _kind(name)
    return dns_identity(name) if kind is IdentityKind.DNS else Identity(name, kind)


def check_name(name: str) -> str:
    """Return the name of an identity, or the pattern of some. Raises `InvalidRequestError`."""
    if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable() or " " in name:
        raise InvalidRequestError(
            f"identity {name!r} is not 1 to {NAME_CHARACTERS_MAX} printable characters without "
            "spaces: give a URI such as quire://client/orders, a DNS name, or anonymous"
        )
    return name


def _kind(name: str) -> IdentityKind:
    return IdentityKind.URI if ":" in name else IdentityKind.DNS


def _folded(name: str) -> str:
    """Return a name as rules are compared by it. A pattern without a colon names URIs, too, so it
    keeps its case; and no spelling becomes the word for peers without a certificate.
    """
    if _kind(name) is IdentityKind.URI or name.endswith(EVERY_PEER):
        return name
    folded = dns_identity(name).name
    return name if folded == ANONYMOUS.name else folded


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One rule. Rules that say the same are equal, whatever their authors and times, and however
    they spell a DNS name.
    """

    identity: str
    role: Role
    reach: Reach = EVERYWHERE
    effect: Effect = Effect.ALLOW
    by: str = field(default="", compare=False)
    """The user and the host of the command that made it."""
    since_ms: int = field(default=0, compare=False)
    unknown: Unknown = field(default=NOTHING, compare=False)

    def __post_init__(self) -> None:
        check_name(self.identity)
        object.__setattr__(self, "identity", _folded(self.identity))

    def names(self, identity: Identity) -> bool:
        """Return whether the rule is about an identity."""
        if not identity.is_known:
            return self.identity == ANONYMOUS.name
        named, name = self.identity, identity.name
        if identity.kind is IdentityKind.DNS:
            # Authorities compare DNS names without case, and sign the spelling that was asked for.
            named, name = named.lower(), name.lower()
        if not named.endswith(EVERY_PEER):
            is_alike = identity.kind is _kind(named) and self.identity != ANONYMOUS.name
            return is_alike and name == named
        prefix = named[: -len(EVERY_PEER)]
        is_alike = ":" not in prefix or identity.kind is IdentityKind.URI
        return is_alike and name.startswith(prefix)

    def row(self) -> dict[str, Any]:
        """Return the rule as the record holds it."""
        reach = {"log": self.reach.log, "logs": self.reach.prefix, "ledger": self.reach.ledger}
        body = {
            "identity": self.identity,
            "role": str(self.role),
            "effect": str(self.effect),
            "by": self.by,
            "since_ms": self.since_ms,
            **{name: value for name, value in reach.items() if value is not None},
        }
        return joined(body, self.unknown)

    @classmethod
    def of(cls, row: Any) -> AccessRule:
        """Return the rule of a row. Raises `ValueError` and `InvalidRequestError`."""
        if not isinstance(row, dict):
            raise ValueError(f"a rule is an object, not {row!r}")
        body, unknown = split(row, _ROW)
        match body:
            case {"identity": str(identity), "role": str(role), "effect": str(effect)}:
                reach = Reach(
                    _optional(body, "log", str),
                    _optional(body, "logs", str),
                    _optional(body, "ledger", int),
                )
                by, since = body.get("by", ""), body.get("since_ms", 0)
                if isinstance(by, str) and type(since) is int:
                    return cls(identity, Role(role), reach, Effect(effect), by, since, unknown)
        raise ValueError(f"rule {row!r}")

    def __str__(self) -> str:
        verb = "may act as" if self.effect is Effect.ALLOW else "may never act as"
        return f"{self.identity} {verb} {self.role} on {self.reach}"


def _optional(body: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = body.get(name)
    if value is not None and type(value) is not kind:
        raise ValueError(f"{name} {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class RightsTable:
    """All rules, each once, the oldest first.

    Raises `InvalidRequestError` for more than `RULES_MAX`, and for a rule that is there twice.
    """

    rules: tuple[AccessRule, ...] = ()
    unknown: Unknown = field(default=NOTHING, compare=False)

    def __post_init__(self) -> None:
        if len(self.rules) > RULES_MAX:
            raise InvalidRequestError(
                f"{len(self.rules)} rules exceed the limit of {RULES_MAX}: name many peers or logs "
                "in one rule, as quire://client/* or a prefix"
            )
        if len(set(self.rules)) < len(self.rules):
            raise InvalidRequestError("a rule is there twice: leave one out")

    def having(self, rules: Iterable[AccessRule]) -> RightsTable:
        """Return the table with some rules. A rule that is there stays as it is."""
        return replace(self, rules=tuple(dict.fromkeys((*self.rules, *rules))))

    def without(self, is_unwanted: Callable[[AccessRule], bool]) -> RightsTable:
        """Return the table without some rules."""
        return replace(self, rules=tuple(each for each in self.rules if not is_unwanted(each)))

    def encode(self) -> bytes:
        """Return the record."""
        return FORMAT.encode({"rules": [each.row() for each in self.rules]}, self.unknown)

    @classmethod
    def decode(cls, data: bytes) -> RightsTable:
        """Return the contents of a record. Raises `CorruptRecordError`.

        Older programs told the spellings of a DNS name apart. Of their rules that say the same, the
        first is kept: a record that is not believed would have each call denied.
        """
        _, body, unknown = FORMAT.decode(RIGHTS, data)
        rows = body.get("rules")
        if not isinstance(rows, list):
            raise CorruptRecordError(RIGHTS, f"rules {rows!r}")
        try:
            return cls(tuple(dict.fromkeys(map(AccessRule.of, rows))), unknown)
        except (ValueError, InvalidRequestError) as error:
            raise CorruptRecordError(RIGHTS, str(error)) from error
