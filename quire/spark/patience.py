"""Trying again where Spark would not.

An error in the planning of a streaming query ends the query. So planning first waits for transient
failures to pass, such as a bookie that restarts or a metadata store without a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from quire.aio.backoff import Backoff
from quire.aio.retry import retry_blocking
from quire.errors import ForgottenJobError, OvertakenError, TooManyJobsError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

BACKOFF: Final = Backoff(first=0.5, last=0.5)
AT_ONCE_MAX: Final = 16
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


def patiently_each(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results of `patiently` for each item, in order: some at a time, in threads.

    Raises as `patiently`, for the first item that failed.
    """
    if len(items) < 2:
        return [patiently(work, item) for item in items]
    with ThreadPoolExecutor(AT_ONCE_MAX, "quire-spark") as threads:
        begun = [threads.submit(patiently, work, item) for item in items]
        try:
            return [each.result() for each in begun]
        finally:
            threads.shutdown(cancel_futures=True)


def _is_refusal(error: Exception) -> bool:
    """Whether another attempt would be refused as well."""
    return isinstance(error, ForgottenJobError | OvertakenError | TooManyJobsError)
