"""The subject of a call (`Scope`), and the reach of a rule (`Reach`). Pure.

    reach            covers
    the cluster      every call
    log NAME         calls about the log, and about the ledgers that were made for it
    logs PREFIX      the same for each log with a name that begins so
    ledger N         calls about one ledger, at a bookie

A bookie knows the ledger of a call and reads its log from the ledger's record. Until it has done
so the log is not known, and a rule on logs may or may not cover the call: `Covers.PERHAPS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from quire.entry import LedgerId
from quire.errors import InvalidRequestError


class Covers(Enum):
    """Whether a rule covers a call."""

    NO = 0
    PERHAPS = 1
    """It depends on the log of the ledger, and this log is not known yet."""
    YES = 2


@dataclass(frozen=True, slots=True)
class Scope:
    """The subject of a call: the cluster without log and ledger."""

    log: str | None = None
    ledger: LedgerId | None = None
    is_log_known: bool = True
    """False while the log of the ledger was not looked up."""

    def __post_init__(self) -> None:
        if not self.is_log_known and (self.ledger is None or self.log is not None):
            raise InvalidRequestError(f"the log of {self} is known: only a ledger's can be unknown")

    def __str__(self) -> str:
        log = None if self.log is None else f"log {self.log!r}"
        if self.ledger is None:
            return log or "the cluster"
        return f"ledger {self.ledger}" + (f" of {log}" if log else "")


CLUSTER: Final = Scope()
"""Calls about no log or ledger."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a rule reaches: everywhere, unless one field is given.

    Raises `InvalidRequestError` for more than one.
    """

    log: str | None = None
    prefix: str | None = None
    ledger: LedgerId | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.log, self.prefix, self.ledger) if each is not None]
        if len(given) > 1:
            raise InvalidRequestError(
                f"a rule reaches one log, one prefix or one ledger, not {len(given)} of them: make "
                "a rule for each"
            )
        if self.log == "" or self.prefix == "":
            raise InvalidRequestError(
                "the name of a log is empty: leave it out for the whole cluster"
            )
        if self.ledger is not None and self.ledger < 0:
            raise InvalidRequestError(f"ledger id {self.ledger} is negative")

    @property
    def is_cluster(self) -> bool:
        """Whether the rule reaches everything."""
        return self.log is None and self.prefix is None and self.ledger is None

    def covers(self, scope: Scope) -> Covers:
        """Return whether the rule covers a call about `scope`."""
        if self.is_cluster:
            return Covers.YES
        if self.ledger is not None:
            return _yes(scope.ledger == self.ledger)
        if not scope.is_log_known:
            return Covers.PERHAPS
        if scope.log is None:
            return Covers.NO
        if self.log is not None:
            return _yes(scope.log == self.log)
        assert self.prefix is not None
        return _yes(scope.log.startswith(self.prefix))

    def __str__(self) -> str:
        if self.log is not None:
            return f"log {self.log!r}"
        if self.prefix is not None:
            return f"logs {self.prefix!r}…"
        return "the cluster" if self.ledger is None else f"ledger {self.ledger}"


EVERYWHERE: Final = Reach()


def _yes(covered: bool) -> Covers:
    return Covers.YES if covered else Covers.NO
