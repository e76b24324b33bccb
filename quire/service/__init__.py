"""A replicated service: a deterministic state machine on several processes, led by one of them."""

from quire.service.application import Application, Applied, Role, ServiceOptions
from quire.service.service import Service

__all__ = ["Application", "Applied", "Role", "Service", "ServiceOptions"]
