"""Trying again where Spark would not.

An error in the planning of a streaming query ends the query. So planning first waits for transient
failures to pass, such as a bookie that restarts or a metadata store without a leader.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

from quire.aio.backoff import Backoff
from quire.aio.retry import retry_blocking
from quire.errors import ForgottenJobError, OvertakenError, TooManyJobsError

P = ParamSpec("P")
T = TypeVar("T")

BACKOFF: Final = Backoff(first=0.5, last=0.5)
PATIENCE_SECONDS: Final = 30.0
"""Attempts begin for so long, whatever each of them takes until it gives up."""


def patiently(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the result of the work, trying again after transient failures.

    The work has to be harmless to repeat: an unknown outcome is tried again too. Raises its last
    transient error, and any other error at once.
    """
    return retry_blocking(
        partial(work, *args, **options),
        unless=_is_refusal,
        backoff=BACKOFF,
        timeout=PATIENCE_SECONDS,
    )


def _is_refusal(error: Exception) -> bool:
    """Whether another attempt would be refused as well."""
    return isinstance(error, ForgottenJobError | OvertakenError | TooManyJobsError)
