"""The outbox as a model of Django. Import it from the `models.py` of an application.

from quire.sql.django import OutboxRow

class Outbox(OutboxRow):
    class Meta:
        db_table = "quire_outbox"
"""

from __future__ import annotations

from django.db import models

__all__ = ["OutboxRow"]


class OutboxRow(models.Model):
    """A row of an outbox. `quire.sql.relay` adds the table's trigger when it starts.

    The application fills `log`, `payload`, `key`, `headers` (JSON text) and `event_time_ms`, and
    leaves the other columns to quire.
    """

    id = models.BigAutoField(primary_key=True)
    log = models.TextField()
    payload = models.BinaryField()
    key = models.BinaryField(null=True)
    headers = models.TextField(null=True)
    event_time_ms = models.BigIntegerField(null=True)
    sequence = models.BigIntegerField(null=True, unique=True, editable=False)
    log_offset = models.BigIntegerField(null=True, editable=False)

    class Meta:
        abstract = True
