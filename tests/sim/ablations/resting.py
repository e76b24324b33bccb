"""Safeguards of logs at rest: when a handle may rest, and its memory."""

from __future__ import annotations

from typing import Any

from quire.ledger.append_steps import AppendSteps
from quire.ledger.ensemble import Ensemble
from quire.log.leader.patrol import Patrol
from quire.log.leader.pipeline import Pipeline
from quire.log.leader.resting import RestingParts
from quire.log.leader.segments import LiveSegment
from quire.log.records.producers import Producers
from tests.sim.ablations.patch import Patch


def rest_before_all_have_it() -> list[Patch]:
    """A ledger rests when an ack quorum has its entries: the next writer sends them nowhere."""

    def may_rest(self: Any) -> bool:
        window = self.window
        is_confirmed: bool = window.lac == window.pushed and not window.is_frozen
        return is_confirmed

    return [(Ensemble, "may_rest", property(may_rest))]


def rest_with_entries_under_way() -> list[Patch]:
    return [
        (AppendSteps, "may_rest", property(lambda self: not self._is_over)),
        (Pipeline, "may_rest", property(lambda self: True)),
        (LiveSegment, "is_decided", property(lambda self: True)),
    ]


def forget_producers_at_rest() -> list[Patch]:
    whole = RestingParts._rest

    def rest(self: Any) -> bool:
        rests = whole(self)
        if rests:
            self._producers = Producers()
        return rests

    return [(RestingParts, "_rest", rest)]


def look_after_no_sleeper() -> list[Patch]:
    """No task looks at the manifests of logs at rest."""

    def watch(self: Any, path: str, sleeper: Any) -> None:
        return

    return [(Patrol, "watch", watch)]
