"""The outbox as a table of SQLAlchemy, for `metadata.create_all`, migrations and mapped classes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from quire.sql.outbox import TABLE, UNSENT, index_of
from quire.sql.places import check_table

__all__ = ["outbox_table"]


def outbox_table(metadata: MetaData, name: str = TABLE) -> Table:
    """Return the table of an outbox. `quire.sql.relay` adds its trigger when it starts.

        class Outbox(Base):
            __table__ = outbox_table(Base.metadata)

    Args:
        metadata: the application's.
        name: the table's name, perhaps after a schema and a dot.

    Returns:
        The table. The application fills `log`, `payload`, `key`, `headers` (JSON text) and
        `event_time_ms`, and leaves the other columns to quire.

    Raises:
        ConfigurationError: the name is invalid.
    """
    schema, _, table = check_table(name).rpartition(".")
    number: Any = BigInteger().with_variant(Integer(), "sqlite")
    return Table(
        table,
        metadata,
        Column("id", number, Identity(), primary_key=True),
        Column("log", Text, nullable=False),
        Column("payload", LargeBinary, nullable=False),
        Column("key", LargeBinary),
        Column("headers", Text),
        Column("event_time_ms", BigInteger),
        Column("sequence", BigInteger, unique=True),
        Column("log_offset", BigInteger),
        Index(
            index_of(table),
            "log",
            "sequence",
            postgresql_where=text(UNSENT),
            sqlite_where=text(UNSENT),
        ),
        schema=schema or None,
        sqlite_autoincrement=True,
    )
