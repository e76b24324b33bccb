"""The table's record, its limits, and what a change of it must not do by accident."""

from __future__ import annotations

import pytest
from hypothesis import given

from quire.errors import CorruptRecordError, InvalidRequestError
from quire.metastore.record import decode_record, encode_record
from quire.rights.lockout import administrators, obstacles, remarks
from quire.rights.roles import Role
from quire.rights.scopes import Reach
from quire.rights.table import RULES_MAX, AccessRule, Effect, RightsTable, identity_named
from quire.wire.identity import ANONYMOUS, IdentityKind
from tests.rights.strategies import rules, tables

ROOT = AccessRule("quire://client/root", Role.ADMIN, by="root@host", since_ms=5)
ORDERS = AccessRule("quire://client/orders", Role.WRITER, Reach(log="orders"))


@given(tables)
def test_a_table_survives_its_record(table: RightsTable) -> None:
    assert RightsTable.decode(table.encode()) == table


@given(tables, rules)
def test_a_rule_that_is_there_stays_as_it_is(table: RightsTable, rule: AccessRule) -> None:
    with_it = table.having([rule])
    assert rule in with_it.rules
    assert with_it.having([rule, rule]) == with_it
    assert table.rules == with_it.rules[: len(table.rules)]
    assert with_it.without(lambda each: each == rule) == table.without(lambda each: each == rule)


@pytest.mark.parametrize(
    "row",
    [
        "text",
        {},
        {"identity": "a", "role": "emperor", "effect": "allow"},
        {"identity": "a", "role": "reader", "effect": "perhaps"},
        {"identity": "a b", "role": "reader", "effect": "allow"},
        {"identity": "", "role": "reader", "effect": "allow"},
        {"identity": "a", "role": "reader", "effect": "allow", "ledger": "7"},
        {"identity": "a", "role": "reader", "effect": "allow", "ledger": True},
        {"identity": "a", "role": "reader", "effect": "allow", "ledger": -1},
        {"identity": "a", "role": "reader", "effect": "allow", "log": "a", "logs": "b"},
        {"identity": "a", "role": "reader", "effect": "allow", "log": ""},
        {"identity": "a", "role": "reader", "effect": "allow", "by": 1},
        {"identity": "a", "role": "reader", "effect": "allow", "since_ms": "1"},
    ],
)
def test_a_row_of_another_kind_is_not_believed(row: object) -> None:
    with pytest.raises(CorruptRecordError, match="/quire/rights"):
        RightsTable.decode(encode_record("rights", 1, {"rules": [row]}))


def test_a_record_without_rules_is_not_believed() -> None:
    bodies: list[dict[str, object]] = [{}, {"rules": {}}]
    for body in bodies:
        with pytest.raises(CorruptRecordError):
            RightsTable.decode(encode_record("rights", 1, body))


def test_a_record_with_two_spellings_of_one_name_is_believed() -> None:
    """Older programs told them apart: both may be there when a bookie is upgraded."""
    spelled = [{**ORDERS.row(), "identity": name} for name in ("Orders.example", "orders.example")]
    found = RightsTable.decode(encode_record("rights", 1, {"rules": [ROOT.row(), *spelled]}))
    rule = AccessRule("ORDERS.example", Role.WRITER, Reach(log="orders"))
    assert found.rules == (ROOT, rule)
    assert found.without(lambda each: each == rule).rules == (ROOT,)


def test_spellings_of_one_name_are_granted_once() -> None:
    both = [AccessRule(name, Role.READER) for name in ("Orders.example", "orders.example")]
    assert RightsTable((ROOT,)).having(both).rules == (ROOT, both[0])


def test_fields_of_a_later_program_stay() -> None:
    _, body = decode_record("/", "rights", RightsTable((ROOT, ORDERS)).encode())
    body["rules"][0]["later"] = [1]
    found = RightsTable.decode(encode_record("rights", 1, {**body, "newer": 2}))
    changed = found.without(lambda each: each == ORDERS).having([ORDERS])
    _, after = decode_record("/", "rights", changed.encode())
    assert after["newer"] == 2
    assert after["rules"][0]["later"] == [1]


def test_a_table_is_bounded() -> None:
    many = [AccessRule(f"quire://client/{n}", Role.READER) for n in range(RULES_MAX)]
    with pytest.raises(InvalidRequestError, match="exceed the limit"):
        RightsTable(tuple(many)).having([ROOT])


def test_a_name_is_of_one_kind() -> None:
    assert identity_named("anonymous") is ANONYMOUS
    assert identity_named("a.example").kind is IdentityKind.DNS
    assert identity_named("spiffe://a/b").kind is IdentityKind.URI
    for name in ("", "*", "quire://*", "a b", "a\n", "x" * 256):
        with pytest.raises(InvalidRequestError):
            identity_named(name)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([ROOT], ["quire://client/root"]),
        ([ORDERS], []),
        ([AccessRule("quire://client/root", Role.ADMIN, Reach(log="orders"))], []),
        ([ROOT, AccessRule("quire://client/root", Role.ADMIN, effect=Effect.DENY)], []),
        ([ROOT, AccessRule("quire://client/*", Role.ADMIN, effect=Effect.DENY)], []),
        ([ROOT, AccessRule("*", Role.ADMIN, effect=Effect.DENY)], []),
        ([ROOT, AccessRule("quire://client/x", Role.ADMIN, effect=Effect.DENY)], [ROOT.identity]),
        (
            [AccessRule("anonymous", Role.ADMIN), AccessRule("*", Role.ADMIN, effect=Effect.DENY)],
            ["anonymous"],
        ),
        (
            [
                AccessRule("a.Example", Role.ADMIN),
                AccessRule("A.example", Role.ADMIN, effect=Effect.DENY),
            ],
            [],
        ),
        (
            [
                AccessRule("quire*", Role.ADMIN),
                AccessRule("Quire*", Role.ADMIN, effect=Effect.DENY),
            ],
            ["quire*"],  # quire://client/a is one
        ),
    ],
)
def test_the_administrators_are_those_of_the_whole_cluster(
    rows: list[AccessRule], found: list[str]
) -> None:
    assert administrators(RightsTable(tuple(rows))) == found


def test_the_last_administrator_stays() -> None:
    good, bad = RightsTable((ROOT, ORDERS)), RightsTable((ORDERS,))
    assert obstacles(good, bad)
    assert obstacles(None, bad)
    assert not obstacles(good, good.having([AccessRule("a", Role.READER)]))
    assert not obstacles(bad, RightsTable())  # there is none to lose
    assert not obstacles(None, good)


def test_a_table_that_stops_the_cluster_is_remarked_on() -> None:
    assert len(remarks(None, RightsTable((ROOT,)))) == 2  # an administrator may write
    writer = AccessRule("quire://client/a", Role.WRITER, Reach(log="a"))
    reader = AccessRule("quire://client/a", Role.READER, Reach(log="a"))
    assert len(remarks(RightsTable(), RightsTable((reader,)))) == 2
    assert len(remarks(RightsTable(), RightsTable((writer,)))) == 1
    for name in ("quire://bookie/*", "quire://bookie/b1", "b1.bookie.quire", "*", "anonymous"):
        assert not remarks(RightsTable(), RightsTable((writer, AccessRule(name, Role.BOOKIE)))), (
            name
        )
    elsewhere = AccessRule("quire://bookie/*", Role.BOOKIE, Reach(log="a"))
    assert remarks(RightsTable(), RightsTable((writer, elsewhere)))
