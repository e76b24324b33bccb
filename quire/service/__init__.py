"""A replicated service: a deterministic state machine on several processes, led by one of them.

Read `application.py` (what an application provides), `service.py` (a replica's life), `office.py`
(commands while it leads), `snapshots.py`.

May import: quire.log, quire.election, quire.ledger, quire.metastore, quire.aio, values.
"""

from quire.service.application import Application, Applied, Role, ServiceOptions
from quire.service.service import Service

__all__ = ["Application", "Applied", "Role", "Service", "ServiceOptions"]
