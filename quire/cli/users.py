"""The processes that use a ledger, as `quire ledger show` prints them."""

from __future__ import annotations

from typing import Any

import click

from quire.bookie import UseKind
from quire.cli.output import cell, note, print_table
from quire.client import Client
from quire.ledger.info import LedgerInfo
from quire.view.gather import gather_users
from quire.view.shapes import shape
from quire.view.users import UsersView, UserView


async def users_of_ledger(client: Client, info: LedgerInfo) -> UsersView:
    """Ask the bookies of a ledger which connections use it."""
    bookies = {name for each in info.fragments for name in each.bookies}
    found = await gather_users(client, bookies)
    return found._replace(users=found.of(info.ledger))


def user_fields(view: UsersView) -> dict[str, Any]:
    """Return the users as JSON has them."""
    return {"users": shape(view.users), "bookies_silent": list(view.silent)}


def print_users(view: UsersView) -> None:
    """Print the users as a table, after an empty line."""
    click.echo()
    rows = [
        (each.kind, cell(each.user), "  ".join(map(cell, each.peers)), _last(each))
        for each in view.users
    ]
    empty = "Its bookies know no connection that uses it."
    print_table(("use", "user", "connections", "last call"), rows, empty=empty)
    if view.silent:
        note(f"without an answer from {', '.join(view.silent)}")
    if view.left_out:
        note(f"the bookies left out {view.left_out} connections that were silent for longer")


def _last(user: UserView) -> str:
    if user.kind is UseKind.FOLLOWS:
        return "waits for entries"
    return f"{user.idle_seconds:.0f} s ago"
