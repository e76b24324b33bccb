"""SQL databases beside a log: records into tables and rows into logs, each exactly once.

    await quire.sql.consume(client, "orders", connection, apply, consumer="billing")

`quire.sync.sql` has the blocking twins. Drivers are the application's: psycopg 3, SQLAlchemy 2,
sqlite3.

Read `places.py` (the row and its statements), `port.py`, `feed.py`, `job.py`, then `consuming.py`;
for outboxes `outbox.py` and `relaying.py`.
`database.py` is the access that `sqlite.py`, `psycopg.py` and `sqlalchemy.py` give, and
`adapters.py` chooses one.

May import: quire.client and below. Never: quire.sync, quire.cli.
"""

from quire.sql.consuming import consume
from quire.sql.job import Progress
from quire.sql.places import Move, Place
from quire.sql.port import AsyncTarget, Target
from quire.sql.relaying import relay

__all__ = ["AsyncTarget", "Move", "Place", "Progress", "Target", "consume", "relay"]
