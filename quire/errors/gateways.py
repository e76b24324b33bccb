"""The errors of programs that write through a gateway. Their tree is in `quire.errors`."""

from __future__ import annotations

from quire.errors.base import OutcomeUnknownError, RetryError
from quire.errors.logs import JobReusedError
from quire.errors.peers import RefusedError


class GatewayUnavailableError(RetryError):
    """No gateway took a request in time; nothing was written by it."""

    def __init__(self, log: str, gateway: str, seconds: float, reason: str) -> None:
        super().__init__(
            f"no gateway took records of log {log!r} in {seconds:g} s, the last one was {gateway}: "
            f"{reason}. Start a gateway, or allow more time (option timeoutSeconds)"
        )
        self.log = log
        self.gateway = gateway
        self.seconds = seconds
        self.reason = reason


class GatewayOutcomeUnknownError(OutcomeUnknownError):
    """A request was repeated until its time was over, and may have been carried out."""

    def __init__(self, log: str, gateway: str, seconds: float, reason: str) -> None:
        super().__init__(
            f"the last records may or may not be in log {log!r}: the gateway {gateway} gave no "
            f"certain answer in {seconds:g} s: {reason}. The same work, repeated under the same "
            "job, writes them once"
        )
        self.log = log
        self.gateway = gateway
        self.seconds = seconds
        self.reason = reason


class GatewayRefusedError(RefusedError):
    """A gateway refuses a request, and would refuse its repetition; nothing was written by it."""

    def __init__(self, log: str, gateway: str, status: int, code: str, reason: str) -> None:
        super().__init__(
            f"the gateway {gateway} refuses a request for log {log!r} ({status} {code}): {reason}"
        )
        self.log = log
        self.gateway = gateway
        self.status = status
        self.code = code
        self.reason = reason


class RowsChangedError(JobReusedError):
    """A task that is repeated has other rows than before; its first rows are in the log."""

    def __init__(self, log: str, job: str, reason: str) -> None:
        super().__init__(log, job, reason)
        self.args = (
            f"job {job!r} has other rows than those that it wrote to log {log!r} before: {reason}. "
            "These records stay. A repetition needs the same rows in the same partitions and "
            "order (sortWithinPartitions); other rows need another job, or a higher sequence",
        )
