"""A replicated service: a deterministic state machine on several processes, led by one of them."""

from quire.service.service import Application, Applied, Role, Service, ServiceOptions

__all__ = ["Application", "Applied", "Role", "Service", "ServiceOptions"]
