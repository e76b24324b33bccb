"""The decision: by examples, and against a twin that is written by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidRequestError
from quire.rights.decide import Verdict, decide, may_somewhere
from quire.rights.roles import ROLES, Action, Role, roles_for
from quire.rights.scopes import CLUSTER, Reach, Scope
from quire.rights.table import AccessRule, Effect, RightsTable, identity_named
from quire.wire.identity import ANONYMOUS, Identity, IdentityKind
from tests.rights.strategies import (
    LOGS,
    actions,
    identities,
    known_scopes,
    rules,
    scopes,
    tables,
    unknown_scopes,
)
from tests.rights.twin import judge

APP = identity_named("quire://client/app")
ORDERS = Scope(log="orders", ledger=7)


def table(*rows: AccessRule) -> RightsTable:
    return RightsTable(rows)


def may(identity: Identity, action: Action, scope: Scope, *rows: AccessRule) -> bool:
    return decide(identity, action, scope, table(*rows)).is_allowed


@given(identities, actions, scopes, st.none() | tables)
def test_the_twin_decides_alike(
    identity: Identity, action: Action, scope: Scope, rows: RightsTable | None
) -> None:
    found = decide(identity, action, scope, rows).verdict
    expected = judge(identity, action, scope, rows, (*LOGS, "z", None))
    # A denial of some logs and a permission of the same ones: a look at the log is wasted, not
    # unsafe.
    assert found is expected or (found is Verdict.DEPENDS and not scope.is_log_known)


@given(identities, actions, tables, known_scopes, rules)
def test_a_denial_takes_and_a_permission_gives(
    identity: Identity, action: Action, rows: RightsTable, scope: Scope, rule: AccessRule
) -> None:
    before = decide(identity, action, scope, rows).is_allowed
    after = decide(identity, action, scope, rows.having([rule])).is_allowed
    assert before >= after if rule.effect is Effect.DENY else before <= after


@given(identities, actions, tables, known_scopes, st.randoms(use_true_random=False))
def test_the_order_of_rules_decides_nothing(
    identity: Identity, action: Action, rows: RightsTable, scope: Scope, random: object
) -> None:
    mixed = list(rows.rules)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    one = decide(identity, action, scope, rows).verdict
    assert decide(identity, action, scope, table(*mixed)).verdict is one


@given(identities, actions, tables, unknown_scopes, st.sampled_from((*LOGS, None)))
def test_a_look_at_the_log_never_changes_a_verdict(
    identity: Identity, action: Action, rows: RightsTable, scope: Scope, log: str | None
) -> None:
    found = decide(identity, action, scope, rows).verdict
    if found is not Verdict.DEPENDS:
        assert decide(identity, action, Scope(log, scope.ledger), rows).verdict is found


def test_without_a_table_everything_is_permitted() -> None:
    assert all(decide(ANONYMOUS, action, CLUSTER, None).is_allowed for action in Action)
    assert not any(decide(APP, action, CLUSTER, table()).is_allowed for action in Action)


@pytest.mark.parametrize("role", Role)
def test_a_role_permits_its_actions_and_no_other(role: Role) -> None:
    given_role = AccessRule("quire://client/app", role)
    assert {a for a in Action if may(APP, a, CLUSTER, given_role)} == ROLES[role]


def test_the_roles_are_those_of_the_page() -> None:
    read, append, recover = Action.READ, Action.APPEND, Action.RECOVER
    assert {
        Role.READER: {read, Action.OBSERVE},
        Role.WRITER: {append, read, recover},
        Role.BOOKIE: {read, Action.OBSERVE},
        Role.AUDITOR: {Action.OBSERVE},
        Role.OPERATOR: {Action.OPERATE, Action.OBSERVE},
        Role.ADMIN: set(Action),
    } == ROLES
    assert roles_for(append) == [Role.WRITER, Role.ADMIN]


@pytest.mark.parametrize(
    ("reach", "covered"),
    [
        (Reach(), [CLUSTER, ORDERS, Scope(log="orders"), Scope(ledger=7)]),
        (Reach(log="orders"), [ORDERS, Scope(log="orders")]),
        (Reach(prefix="ord"), [ORDERS, Scope(log="orders")]),
        (Reach(ledger=7), [ORDERS, Scope(ledger=7)]),
        (Reach(log="order"), []),
        (Reach(prefix="orders-"), []),
        (Reach(ledger=8), []),
    ],
)
def test_a_rule_reaches_so_far(reach: Reach, covered: list[Scope]) -> None:
    everything = [CLUSTER, ORDERS, Scope(log="orders"), Scope(ledger=7)]
    rule = AccessRule("quire://client/app", Role.READER, reach)
    assert [each for each in everything if may(APP, Action.READ, each, rule)] == covered


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("*", {"quire://client/app", "app.example", "quire://bookie/b1"}),
        ("anonymous", {"anonymous"}),
        ("quire://client/*", {"quire://client/app"}),
        ("app.*", {"app.example"}),
        ("quire*", {"quire://client/app", "quire://bookie/b1"}),
        ("quire://client/ap", set()),
        ("quire://client/app", {"quire://client/app"}),
    ],
)
def test_a_rule_names_these_peers(pattern: str, named: set[str]) -> None:
    peers = [
        ANONYMOUS,
        APP,
        Identity("app.example", IdentityKind.DNS),
        identity_named("quire://bookie/b1"),
    ]
    rule = AccessRule(pattern, Role.READER)
    assert {str(each) for each in peers if rule.names(each)} == named


@pytest.mark.parametrize(
    "disguised",
    [
        Identity("quire://client/app", IdentityKind.DNS),
        Identity("app.example", IdentityKind.URI),
        Identity("anonymous", IdentityKind.DNS),
        Identity("anonymous", IdentityKind.URI),
    ],
)
def test_a_name_of_another_kind_is_another_peer(disguised: Identity) -> None:
    rows = [
        AccessRule(name, Role.ADMIN) for name in ("quire://client/app", "app.example", "anonymous")
    ]
    assert not may(disguised, Action.READ, CLUSTER, *rows)


@pytest.mark.parametrize("denied", ["app.example", "App.Example", "app.*", "APP.*"])
@pytest.mark.parametrize("shown", ["app.example", "APP.example"])
def test_a_denial_of_a_dns_name_is_not_escaped_by_its_case(denied: str, shown: str) -> None:
    """Authorities compare DNS names without case, and sign the spelling that was asked for."""
    rows = [AccessRule("*", Role.ADMIN), AccessRule(denied, Role.READER, effect=Effect.DENY)]
    assert not may(Identity(shown, IdentityKind.DNS), Action.READ, CLUSTER, *rows)


def test_rules_that_differ_in_the_case_of_a_dns_name_are_one() -> None:
    """Else one of them could be revoked, and the other still allow the peer."""
    rules = [AccessRule(name, Role.READER) for name in ("Host.example", "host.EXAMPLE")]
    assert rules[0] == rules[1]
    table = RightsTable().having(rules[:1]).having(rules[1:])
    assert RightsTable.decode(table.encode()).rules == (AccessRule("host.example", Role.READER),)
    assert table.without(lambda each: each == rules[1]).rules == ()


def test_no_spelling_becomes_the_peers_without_a_certificate() -> None:
    rule = AccessRule("Anonymous", Role.READER)
    assert not may(ANONYMOUS, Action.READ, CLUSTER, rule)
    assert may(Identity("ANONYMOUS", IdentityKind.DNS), Action.READ, CLUSTER, rule)


@pytest.mark.parametrize("name", ["quire://client/App", "QUIRE://client/app"])
def test_a_uri_in_another_case_is_another_peer(name: str) -> None:
    assert not may(identity_named(name), Action.READ, CLUSTER, AccessRule(APP.name, Role.READER))


def test_only_the_log_of_a_ledger_can_be_unknown() -> None:
    for scope in ({"log": "a", "is_log_known": False}, {"is_log_known": False}):
        with pytest.raises(InvalidRequestError):
            Scope(**scope)


@given(identities, actions, st.none() | tables)
def test_a_peer_that_may_do_nothing_anywhere_may_do_it_on_no_log(
    identity: Identity, action: Action, rows: RightsTable | None
) -> None:
    allowed = [decide(identity, action, Scope(log=each), rows).is_allowed for each in (*LOGS, None)]
    assert may_somewhere(identity, action, rows) or not any(allowed)


def test_a_right_to_one_log_is_a_right_somewhere() -> None:
    one = AccessRule(APP.name, Role.READER, Reach(log="orders"))
    never = AccessRule(APP.name, Role.READER, effect=Effect.DENY)
    ledger = AccessRule(APP.name, Role.READER, Reach(ledger=7))
    assert may_somewhere(APP, Action.READ, table(one))
    assert not may_somewhere(APP, Action.READ, table())
    assert not may_somewhere(APP, Action.READ, table(ledger))
    assert not may_somewhere(APP, Action.READ, table(one, never))
    assert not may_somewhere(ANONYMOUS, Action.READ, table(one))
