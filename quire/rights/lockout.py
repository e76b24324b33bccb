"""Accidents of a change of the table: the last administrator, the copies, the writers. Pure.

The table is enforced from the moment it exists. So a change that leaves no administrator is refused
unless its author insists. Nothing here is a safeguard against an attacker: a peer that may write
the metadata store may write the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quire.rights.roles import Action, Role
from quire.rights.table import EVERY_PEER, AccessRule, Effect, RightsTable
from quire.wire.identity import ANONYMOUS, BOOKIE_DOMAIN, BOOKIE_URI

NO_ADMINISTRATOR: Final = (
    "no identity would be an administrator of the cluster: `quire rights grant admin IDENTITY`"
)


def administrators(table: RightsTable) -> list[str]:
    """Return the identities, and patterns of them, that are administrators of the whole cluster."""
    rules = [each for each in table.rules if each.role is Role.ADMIN and each.reach.is_cluster]
    denied = [each.identity for each in rules if each.effect is Effect.DENY]
    return [
        each.identity
        for each in rules
        if each.effect is Effect.ALLOW and not any(_includes(one, each.identity) for one in denied)
    ]


def _includes(pattern: str, other: str) -> bool:
    """Return whether `pattern` names each peer that `other` names."""
    if ANONYMOUS.name in (pattern, other):
        return pattern == other
    if ":" not in other and not other.endswith(EVERY_PEER):  # a DNS name, in any case
        pattern, other = pattern.lower(), other.lower()
    if not pattern.endswith(EVERY_PEER):
        return pattern == other
    return other.startswith(pattern[: -len(EVERY_PEER)])


def obstacles(before: RightsTable | None, after: RightsTable) -> list[str]:
    """Return the reasons to refuse a change unless its author insists."""
    if (before is None or administrators(before)) and not administrators(after):
        return [NO_ADMINISTRATOR]
    return []


def remarks(before: RightsTable | None, after: RightsTable) -> Sequence[str]:
    """Return remarks for the author of a change, about the table that it makes."""
    found = []
    if before is None:
        found.append("From now on each call is denied that no rule allows.")
    allowed = [each for each in after.rules if each.effect is Effect.ALLOW]
    if not any(map(_lets_bookies_read, allowed)):
        found.append(
            "No rule lets bookies read from each other, so nothing heals: `quire rights grant "
            "bookie 'quire://bookie/*'`."
        )
    if not any(Action.APPEND in each.role.actions for each in allowed):
        found.append("No rule lets any client write: `quire rights grant writer IDENTITY`.")
    return found


def _lets_bookies_read(rule: AccessRule) -> bool:
    """Whether a rule gives some peer that can be a bookie the rights of one."""
    name = rule.identity
    prefix = name[: -len(EVERY_PEER)] if name.endswith(EVERY_PEER) else name
    can_be_a_bookie = (
        name == ANONYMOUS.name
        or prefix.startswith(BOOKIE_URI)
        or name.endswith(BOOKIE_DOMAIN)
        or (name != prefix and BOOKIE_URI.startswith(prefix))
    )
    return can_be_a_bookie and rule.reach.is_cluster and Action.READ in rule.role.actions
