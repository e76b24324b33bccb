"""Rows of the Django model become records, in SQLite and in PostgreSQL.

Each program is a process of its own, as Django's settings are global.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends." + sys.argv[1], "NAME": sys.argv[2]}},
    INSTALLED_APPS=[], USE_TZ=True,
)
django.setup()
from django.db import connection, transaction
from quire.sql.django import OutboxRow
import quire.sync.sql
from quire.testing import MemoryCluster

class Outbox(OutboxRow):
    class Meta:
        app_label = "shop"
        db_table = "quire_outbox"

with connection.schema_editor() as editor:
    editor.create_model(Outbox)
with transaction.atomic():
    Outbox.objects.create(log="orders", payload=b"a", key=b"k", headers='{"h": "1"}')
try:
    with transaction.atomic():
        Outbox.objects.create(log="orders", payload=b"never")
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
if sys.argv[1] == "sqlite3":
    import sqlite3
    rows = sqlite3.connect(sys.argv[2], check_same_thread=False)
else:
    import psycopg
    rows = psycopg.connect()
with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
    print(quire.sync.sql.relay(client, "orders", rows, follow=False))
    Outbox.objects.create(log="orders", payload=b"b")
    print(quire.sync.sql.relay(client, "orders", rows, follow=False))
    print([(each.payload, each.key, each.headers) for each in client.read_log("orders")])
print(Outbox.objects.count())
rows.close()
"""


def run(engine: str, name: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine, name],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == "1\n1\n[(b'a', b'k', (('h', b'1'),)), (b'b', None, ())]\n0\n"


def test_rows_of_the_model_become_records(tmp_path: Path) -> None:
    run("sqlite3", str(tmp_path / "shop.db"), {})


def test_rows_of_the_model_in_postgresql_become_records(server: Postgres) -> None:
    variables = server.environment()
    run("postgresql", variables["PGDATABASE"], variables)
