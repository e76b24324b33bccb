"""The decision: may an identity carry out an action, by a table. Pure.

R1  Without a table everything is permitted.
R2  With a table, what no rule allows is denied.
R3  A rule that denies wins over every rule that allows.
R4  While the log of a ledger is not known, nothing is permitted that could be denied with it,
    and nothing denied that could be permitted: the decision depends on the log.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from quire.rights.roles import Action
from quire.rights.scopes import Covers, Scope
from quire.rights.table import AccessRule, Effect, RightsTable
from quire.wire.identity import Identity


class Verdict(StrEnum):
    """The decision in a word."""

    ALLOWED = "allowed"
    DENIED = "denied"
    DEPENDS = "depends"
    """On the log of the ledger: look it up, and decide again."""


class Decision(NamedTuple):
    """A verdict, and the rule that made it."""

    verdict: Verdict
    rule: AccessRule | None = None
    """None without a table, and if no rule allows it."""

    @property
    def is_allowed(self) -> bool:
        """Whether the action is permitted."""
        return self.verdict is Verdict.ALLOWED


def decide(identity: Identity, action: Action, scope: Scope, table: RightsTable | None) -> Decision:
    """Return whether an identity may carry out an action.

    Args:
        identity: the peer, as its certificate or token proves it.
        action: the action that the call asks for.
        scope: the subject of the call.
        table: the rules; None before there is a table.
    """
    if table is None:
        return Decision(Verdict.ALLOWED)
    allowing: AccessRule | None = None
    perhaps: set[Effect] = set()
    for rule in table.rules:
        if action not in rule.role.actions or not rule.names(identity):
            continue
        covers = rule.reach.covers(scope)
        if covers is Covers.PERHAPS:
            perhaps.add(rule.effect)
        elif covers is Covers.YES and rule.effect is Effect.DENY:
            return Decision(Verdict.DENIED, rule)
        elif covers is Covers.YES and allowing is None:
            allowing = rule
    opposite = Effect.ALLOW if allowing is None else Effect.DENY
    if opposite in perhaps:
        return Decision(Verdict.DEPENDS)
    return Decision(Verdict.DENIED if allowing is None else Verdict.ALLOWED, allowing)


def may_somewhere(identity: Identity, action: Action, table: RightsTable | None) -> bool:
    """Return whether an identity may carry out an action on the cluster, or on some logs.

    Args:
        identity: the peer, as its certificate or token proves it.
        action: the action.
        table: the rules; None before there is a table.
    """
    if table is None:
        return True
    rules = [
        rule
        for rule in table.rules
        if action in rule.role.actions and rule.names(identity) and rule.reach.ledger is None
    ]
    if any(rule.effect is Effect.DENY and rule.reach.is_cluster for rule in rules):
        return False
    return any(rule.effect is Effect.ALLOW for rule in rules)
