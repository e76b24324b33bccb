"""Trying again where Spark would not.

An error in the planning of a streaming query ends the query. So planning first waits for transient
failures to pass, such as a bookie that restarts or a metadata store without a leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from quire.aio.retry import TRANSIENT
from quire.errors import ForgottenJobError, OvertakenError, TooManyJobsError

P = ParamSpec("P")
T = TypeVar("T")

PAUSE_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 30.0
"""Attempts begin for so long, whatever each of them takes until it gives up."""


def patiently(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the result of the work, trying again after transient failures.

    The work has to be harmless to repeat: an unknown outcome is tried again too. Raises its last
    transient error, and any other error at once.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return work(*args, **options)
        except (ForgottenJobError, OvertakenError, TooManyJobsError):
            raise  # another attempt would be refused as well
        except TRANSIENT:
            if time.monotonic() >= end:
                raise
        time.sleep(PAUSE_SECONDS)
