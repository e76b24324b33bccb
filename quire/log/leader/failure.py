"""Whether the program knows that its handle on a log has failed.

Pure: no clock and no I/O.
"""

from __future__ import annotations

from types import TracebackType

from quire.errors import QuireError


class Failure:
    """The reason why a handle failed, if it did. A context manager around calls.

    A call that raises an error of quire informs the program. Not here: futures of submitted
    records, because the program may never look at them.
    """

    __slots__ = ("_is_told", "reason")

    def __init__(self) -> None:
        self.reason: str | None = None
        self._is_told = False

    @property
    def _untold(self) -> str | None:
        """The reason, if no call has raised it yet."""
        return None if self._is_told else self.reason

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.reason is not None and isinstance(error, QuireError):
            self._is_told = True
