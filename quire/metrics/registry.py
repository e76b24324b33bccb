"""The type of an application's registry, without the library at run time.

A client without figures imports no library for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry as CollectorRegistry
else:
    CollectorRegistry = "prometheus_client, which only figures need"
