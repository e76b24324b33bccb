"""`quire cluster upgrade`: which programs a cluster has, and finishing an upgrade."""

from __future__ import annotations

import click

from quire.cli.metadata import opened
from quire.cli.output import Value, note, print_json, print_table
from quire.cli.settings import Settings, run, with_settings
from quire.metadata.upgrade import finish_upgrade, upgrade_status
from quire.metastore.levels import Upgrade, describe


@click.command(short_help="Show the versions of a cluster; finish an upgrade.")
@click.option("--finish", is_flag=True, help="Allow the formats of the new release.")
@with_settings
def upgrade(settings: Settings, finish: bool) -> None:
    """Show which programs are registered and which formats they speak, or finish an upgrade.

    After a rolling upgrade the cluster goes on writing the formats that the release before reads,
    and you can go back to it. --finish raises the feature level: from then on the new formats are
    written, and programs of the release before can no longer take part. It refuses as long as a
    registered bookie or client speaks less, and names it.

    \b
    Example:
      quire cluster upgrade
      quire cluster upgrade --finish
    """
    run(lambda: _upgrade(settings, finish))


async def _upgrade(settings: Settings, finish: bool) -> None:
    async with opened(settings) as store:
        found = await (finish_upgrade(store) if finish else upgrade_status(store))
    if settings.json:
        print_json(_fields(found))
        return
    rows = [
        (each.kind, each.name, *_program(found, number), each.where)
        for number, each in enumerate(found.members)
    ]
    print_table(("", "id", "version", "levels", "where"), rows, empty="No program is registered.")
    note(_verdict(found))


def _program(found: Upgrade, number: int) -> tuple[str, str]:
    program = found.members[number].program
    if program is None:
        return "unreadable", "unknown"
    return program.version, f"{program.speaks.lowest} to {program.speaks.highest}"


def _verdict(found: Upgrade) -> str:
    if found.is_finished:
        return f"The cluster is at feature level {found.level}: nothing is left to finish."
    at = f"The cluster is at feature level {found.level} of {found.newest}."
    if found.obstacles:
        return f"{at} Upgrade or stop first: {', '.join(map(describe, found.obstacles))}."
    return f"{at} All registered programs are new enough: quire cluster upgrade --finish"


def _fields(found: Upgrade) -> dict[str, Value]:
    members: list[Value] = [
        {
            "kind": each.kind,
            "id": each.name,
            "where": each.where,
            "version": each.program.version if each.program else None,
            "speaks": list(each.program.speaks) if each.program else None,
            "is_obstacle": each in found.obstacles,
        }
        for each in found.members
    ]
    return {
        "level": found.level,
        "newest": found.newest,
        "is_finished": found.is_finished,
        "members": members,
    }
