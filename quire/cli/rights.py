"""`quire rights`: the table of rights, and its decisions."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from quire.cli.metadata import opened
from quire.cli.output import Value, note, print_json, print_table
from quire.cli.settings import Settings, run, with_settings
from quire.cli.wishes import anyway_option, dry_run_option, operator
from quire.entry import LedgerId
from quire.errors import (
    ConfigurationError,
    InvalidRequestError,
    NoSuchLedgerError,
    NoSuchNodeError,
    RightsRefusedError,
)
from quire.metastore.layout import LEDGER_ID_MAX
from quire.metastore.store import MetadataStore
from quire.rights.decide import Decision, decide
from quire.rights.ledger_logs import LedgerLogs
from quire.rights.lockout import obstacles, remarks
from quire.rights.roles import Action, Role, roles_for
from quire.rights.scopes import Reach, Scope
from quire.rights.stored import (
    change_rights,
    read_rights,
    read_rights_left,
    replace_rights,
)
from quire.rights.table import AccessRule, Effect, RightsTable, identity_named
from quire.wire.identity import Identity

EXIT_DENIED: Final = 12
"""Exit code of `check` for a denial; no error has it."""

NO_TABLE: Final = "There is no table of rights: each peer may do everything."

LEDGER: Final = click.IntRange(max=LEDGER_ID_MAX)

Change = Callable[[RightsTable | None], RightsTable]


class _Way(NamedTuple):
    """How a command reads the table, and writes it."""

    read: Callable[[MetadataStore], Awaitable[RightsTable | None]]
    write: Callable[[MetadataStore, Change], Awaitable[RightsTable]]


_BY_RULE: Final = _Way(read_rights, change_rights)
_AS_A_WHOLE: Final = _Way(read_rights_left, replace_rights)
"""Also where the table was lost."""


@click.group(short_help="Say which identity may do what.")
def rights() -> None:
    """Say which identity may do what, everywhere or to some logs and ledgers.

    Without rules each peer may do everything. From the first rule on, a call is denied unless a
    rule allows it, and a rule that denies wins. Certificates prove identities.
    """


def reach_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of how far a rule reaches; it takes them as `reach`."""

    @click.option("--log", metavar="NAME", help="Only this log, and its ledgers.")
    @click.option("--logs", metavar="PREFIX", help="Only logs with names that begin so.")
    @click.option("--ledger", type=LEDGER, metavar="ID", help="Only this ledger.")
    @wraps(command)
    def wrapped(
        *args: Any, log: str | None, logs: str | None, ledger: LedgerId | None, **kwargs: Any
    ) -> Any:
        return command(*args, reach=Reach(log, logs, ledger), **kwargs)

    return wrapped


_role = click.argument("role", type=click.Choice([str(each) for each in Role]))
_identities = click.argument("identities", nargs=-1, required=True, metavar="IDENTITY...")
_deny = click.option("--deny", is_flag=True, help="A rule that denies, and wins over all others.")


def _rule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that changes rules its arguments; it takes the rules that they name."""

    @_role
    @_identities
    @reach_options
    @_deny
    @dry_run_option
    @anyway_option
    @wraps(command)
    def wrapped(
        *args: Any, role: str, identities: tuple[str, ...], reach: Reach, deny: bool, **kwargs: Any
    ) -> Any:
        return command(*args, rules=_rules(role, identities, reach, deny=deny), **kwargs)

    return wrapped


@rights.command(short_help="Print the rules.")
@with_settings
def show(settings: Settings) -> None:
    """Print the rules, the oldest first.

    \b
    Examples:
      quire rights show
      quire rights show --json > rights.json
    """
    run(lambda: _show(settings))


async def _show(settings: Settings) -> None:
    async with opened(settings) as store:
        table = await read_rights(store)
    if settings.json:
        print_json(_fields(table))
    elif table is None:
        click.echo(NO_TABLE)
    else:
        rows = [
            (each.effect, each.role, each.identity, each.reach, each.by) for each in table.rules
        ]
        columns = ("effect", "role", "identity", "reach", "by")
        print_table(columns, rows, empty="There are no rules: each call is denied.")


def _fields(table: RightsTable | None) -> dict[str, Value]:
    return {"rules": None if table is None else [each.row() for each in table.rules]}


@rights.command(short_help="Add rules.")
@_rule_options
@with_settings
def grant(settings: Settings, rules: list[AccessRule], dry_run: bool, anyway: bool) -> None:
    """Let identities act in a role, everywhere or on some logs. With --deny, never let them.

    An identity is the URI of a certificate, a DNS name, a pattern with * at its end, or 'anonymous'
    for peers without a certificate. The first rules must make an administrator: use `quire rights
    apply` to begin with a whole table.

    \b
    Examples:
      quire rights grant writer quire://client/orders --log orders
      quire rights grant bookie 'quire://bookie/*'
      quire rights grant reader quire://client/guest --logs private- --deny
    """
    work = partial(_change, settings, lambda table: (table or RightsTable()).having(rules))
    run(lambda: work(_BY_RULE, dry_run=dry_run, anyway=anyway))


@rights.command(short_help="Take rules away.")
@_rule_options
@with_settings
def revoke(settings: Settings, rules: list[AccessRule], dry_run: bool, anyway: bool) -> None:
    """Take rules away, as `quire rights grant` makes them with the same arguments.

    Bookies obey within ten seconds, also for connections that are open.

    \b
    Example:
      quire rights revoke writer quire://client/orders --log orders
    """

    def decide_change(table: RightsTable | None) -> RightsTable:
        missing = [each for each in rules if table is None or each not in table.rules]
        if missing:
            raise InvalidRequestError(
                f"no rule says that {missing[0]}: `quire rights show` lists them"
            )
        assert table is not None
        return table.without(lambda each: each in rules)

    run(lambda: _change(settings, decide_change, _BY_RULE, dry_run=dry_run, anyway=anyway))


@rights.command(short_help="Replace all rules by the rules of a file.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@dry_run_option
@anyway_option
@with_settings
def apply(settings: Settings, file: Path, dry_run: bool, anyway: bool) -> None:
    """Replace all rules by the rules of a file, in one step. The file has the form of `quire rights
    show --json`; `effect` may be left out. A table that was lost is put back so.

    \b
    Example:
      quire rights apply rights.json --dry-run
    """
    rules = read_rules(file)

    def decide_change(table: RightsTable | None) -> RightsTable:
        known = {each: each for each in (table or RightsTable()).rules}
        kept = tuple(known.get(each, each) for each in rules)
        return replace(table or RightsTable(), rules=kept)

    run(lambda: _change(settings, decide_change, _AS_A_WHOLE, dry_run=dry_run, anyway=anyway))


def read_rules(file: Path) -> list[AccessRule]:
    """Return the rules of a file. Raises `ConfigurationError` that names the file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
        rows = found["rules"] if isinstance(found, dict) else found
        stamped = [{"effect": "allow", **each, "by": operator()} for each in rows]
        return [AccessRule.of({**each, "since_ms": _now_ms()}) for each in stamped]
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigurationError(
            f'{file} has no rules: expected {{"rules": [{{"identity": …, "role": …}}, …]}} as '
            f"`quire rights show --json` prints them; {type(error).__name__}: {error}"
        ) from None


@rights.command(short_help="Say whether an identity may do something, and why.")
@click.argument("identity")
@click.argument("action", type=click.Choice([str(each) for each in Action]))
@click.option("--log", metavar="NAME", help="The log that it is done to.")
@click.option("--ledger", type=LEDGER, metavar="ID", help="The ledger that it is done to.")
@with_settings
def check(
    settings: Settings, identity: str, action: str, log: str | None, ledger: LedgerId | None
) -> None:
    """Say whether an identity may do something, and which rule says so. The exit code is 0 if it
    may, and 12 if it is denied.

    \b
    Example:
      quire rights check quire://client/orders append --log orders
    """
    if log is not None and ledger is not None:
        raise ConfigurationError("name a log, or a ledger alone: its record has the log")
    peer = identity_named(identity)
    decision = run(lambda: _check(settings, peer, Action(action), log, ledger))
    click.get_current_context().exit(0 if decision.is_allowed else EXIT_DENIED)


async def _check(
    settings: Settings, peer: Identity, action: Action, log: str | None, ledger: LedgerId | None
) -> Decision:
    async with opened(settings) as store:
        table = await read_rights(store)
        scope = Scope(log=log) if ledger is None else await _of_ledger(store, ledger)
    decision = decide(peer, action, scope, table)
    rule = decision.rule
    if settings.json:
        fields: dict[str, Value] = {
            "identity": str(peer),
            "action": str(action),
            "scope": str(scope),
            "allowed": decision.is_allowed,
            "rule": None if rule is None else rule.row(),
        }
        print_json(fields)
        return decision
    verb = "may" if decision.is_allowed else "may not"
    click.echo(f"{peer} {verb} {action} on {scope}")
    if rule is not None:
        note(f"By the rule: {rule}.")
    elif table is None:
        note(NO_TABLE)
    else:
        note(f"No rule allows it: it needs the role {' or '.join(map(str, roles_for(action)))}.")
    return decision


async def _of_ledger(store: MetadataStore, ledger: LedgerId) -> Scope:
    try:
        return Scope(await LedgerLogs(store).log_of(ledger), ledger)
    except NoSuchNodeError:
        raise NoSuchLedgerError(ledger) from None


def _rules(role: str, identities: Sequence[str], reach: Reach, *, deny: bool) -> list[AccessRule]:
    effect = Effect.DENY if deny else Effect.ALLOW
    now, by = _now_ms(), operator()
    return [
        AccessRule(each, Role(role), reach, effect, by, now) for each in dict.fromkeys(identities)
    ]


async def _change(
    settings: Settings, change: Change, way: _Way, *, dry_run: bool, anyway: bool
) -> None:
    before: RightsTable | None = None

    def decide_change(table: RightsTable | None) -> RightsTable:
        nonlocal before
        before, wanted = table, change(table)
        found = obstacles(table, wanted)
        if found and not anyway:
            raise RightsRefusedError(found)
        return wanted

    async with opened(settings) as store:
        if dry_run:
            after = decide_change(await way.read(store))
        else:
            after = await way.write(store, decide_change)
    _print_change(settings, before, after, is_dry=dry_run)


def _print_change(
    settings: Settings, before: RightsTable | None, after: RightsTable, *, is_dry: bool
) -> None:
    old = () if before is None else before.rules
    added = [each for each in after.rules if each not in old]
    removed = [each for each in old if each not in after.rules]
    if settings.json:
        print_json(
            {
                "added": [each.row() for each in added],
                "removed": [each.row() for each in removed],
                **_fields(after),
                "dry_run": is_dry,
            }
        )
    for each in () if settings.json else (*added, *removed):
        sign = "-" if each in removed else "+"
        click.echo(f"{sign} {each}")
    if not added and not removed:
        note("Nothing changes: the rules are so already.")
    elif is_dry:
        note("Nothing was changed: --dry-run.")
    for remark in remarks(before, after):
        note(remark)


def _now_ms() -> int:
    return round(time.time() * 1000)
