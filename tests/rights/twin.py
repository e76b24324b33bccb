"""A second decision, written from R1 to R4 by brute force: sets of triples, no order, no look at
`decide`. Small worlds only.
"""

from __future__ import annotations

from collections.abc import Iterable

from quire.rights.decide import Verdict
from quire.rights.roles import ROLES, Action
from quire.rights.scopes import Scope
from quire.rights.table import AccessRule, Effect, RightsTable
from quire.wire.identity import Identity


def judge(
    identity: Identity,
    action: Action,
    scope: Scope,
    table: RightsTable | None,
    logs: Iterable[str | None],
) -> Verdict:
    """The verdict, with `logs` as all the logs that a ledger may be of."""
    if table is None:
        return Verdict.ALLOWED
    if scope.is_log_known:
        worlds = {_in_one_world(identity, action, scope.log, scope.ledger, table)}
    else:
        worlds = {_in_one_world(identity, action, log, scope.ledger, table) for log in logs}
    if worlds == {True}:
        return Verdict.ALLOWED
    return Verdict.DENIED if worlds == {False} else Verdict.DEPENDS


def _in_one_world(
    identity: Identity, action: Action, log: str | None, ledger: int | None, table: RightsTable
) -> bool:
    effects = {
        rule.effect
        for rule in table.rules
        if _is_about(rule, identity, log, ledger) and action in ROLES[rule.role]
    }
    return effects == {Effect.ALLOW}


def _is_about(rule: AccessRule, identity: Identity, log: str | None, ledger: int | None) -> bool:
    named = {identity.name}
    if identity.is_known:
        named |= {identity.name[:end] + "*" for end in range(len(identity.name) + 1)}
    reach = rule.reach
    return rule.identity in named and (
        (reach.log, reach.prefix, reach.ledger) == (None, None, None)
        or (reach.ledger is not None and reach.ledger == ledger)
        or (reach.log is not None and reach.log == log)
        or (reach.prefix is not None and log is not None and log.find(reach.prefix) == 0)
    )
