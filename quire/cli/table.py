"""`quire log table`: a log as an Apache Iceberg table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from quire import admin
from quire.cli.output import note, print_json, progress_of
from quire.cli.replication import key_file_option, password_option
from quire.cli.settings import Settings, run, with_settings
from quire.log.records.keyring import Keyring

if TYPE_CHECKING:
    PropertyType: TypeAlias = click.ParamType[tuple[str, str]]
else:
    PropertyType = click.ParamType  # generic since click 8.2


class Property(PropertyType):
    """A property of a catalog: `warehouse=s3://lake/quire`."""

    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return name and value."""
        if isinstance(value, tuple):
            return value
        name, equals, content = str(value).partition("=")
        if not equals or not name.strip():
            # The value may be a password: it is not repeated.
            self.fail("expected NAME=VALUE, as in warehouse=s3://lake/quire", param, ctx)
        return name.strip(), content


@click.command(short_help="Bring an Apache Iceberg table up to date with a log.")
@click.argument("name")
@click.option("--to", "target", required=True, metavar="TABLE", help="As in sales.orders.")
@click.option("--catalog", metavar="NAME", help="In pyiceberg's configuration; else its default.")
@click.option(
    "--property",
    "properties",
    type=Property(),
    multiple=True,
    help="Property of the catalog, as pyiceberg names it; may be repeated. Other users of the "
    "machine see it: passwords belong into .pyiceberg.yaml.",
)
@password_option
@key_file_option
@with_settings
def table(
    settings: Settings,
    name: str,
    target: str,
    catalog: str | None,
    properties: tuple[tuple[str, str], ...],
    password: bytes,
    keyring: Keyring | None,
) -> None:
    """Bring an Apache Iceberg table up to date with a log.

    Adds every confirmed record that the table lacks, and removes those that were trimmed. Creates a
    table that does not exist. May be killed and repeated at any time, and run twice at once: the
    table has each record once. Needs `pip install 'quire[iceberg]'`, and for a catalog in SQL, Hive
    or Glue that extra of pyiceberg.

    \b
    Examples:
      quire log table orders --to sales.orders --catalog prod
      quire log table orders --to sales.orders \\
        --property type=rest --property uri=https://catalog.example/
    """
    run(lambda: _table(settings, name, target, catalog, dict(properties), password, keyring))


async def _table(
    settings: Settings,
    name: str,
    target: str,
    catalog: str | None,
    properties: dict[str, str],
    password: bytes,
    keyring: Keyring | None,
) -> None:
    with progress_of(f"Adding {name}") as on_progress:
        async with settings.connect() as client:
            done = await admin.update_table(
                client,
                name,
                target,
                catalog=catalog,
                properties=properties,
                password=password,
                keyring=keyring,
                on_progress=on_progress,
            )
    if settings.json:
        print_json(asdict(done))
    elif done.end == done.first:
        note(f"Table {done.table} has no record: log {name} has none.")
    else:
        note(
            f"Table {done.table} has the records {done.first} to {done.end - 1} of log {name}; "
            f"{done.appended} were added now."
        )
