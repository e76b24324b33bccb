"""Rows of the Django model become records: in a process of its own, as settings are global."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sqlite3, sys
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
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
rows = sqlite3.connect(sys.argv[1], check_same_thread=False)
with MemoryCluster() as cluster, quire.sync.connect(cluster.store_uri) as client:
    print(quire.sync.sql.relay(client, "orders", rows, follow=False))
    Outbox.objects.create(log="orders", payload=b"b")
    print(quire.sync.sql.relay(client, "orders", rows, follow=False))
    print([(each.payload, each.key, each.headers) for each in client.read_log("orders")])
print(Outbox.objects.count())
rows.close()
"""


def test_rows_of_the_model_become_records(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "shop.db")],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == "1\n1\n[(b'a', b'k', (('h', b'1'),)), (b'b', None, ())]\n0\n"
