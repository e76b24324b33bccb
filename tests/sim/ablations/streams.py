"""Safeguards of a stream of runs, at the client's end and at the bookie's."""

from __future__ import annotations

from typing import Any

from quire.ledger import run_account, run_stream
from quire.storage.serving import stream_account
from quire.wire import bookie_pb2 as pb
from tests.sim.ablations.patch import Patch


def acknowledge_what_is_under_way() -> list[Patch]:
    """The first run that is done takes all that came in after it along."""

    def collect(self: Any, settled: list[Any]) -> pb.AddReply:
        settled += self.slots
        self.slots.clear()
        self._bytes = 0
        return pb.AddReply(settled=self.received)

    return [(stream_account.StreamAccount, "collect", collect)]


def take_refusals_for_acks() -> list[Patch]:
    whole = run_account.RunAccount.settle

    def settle(self: Any, reply: pb.AddReply) -> None:
        whole(self, pb.AddReply(settled=reply.settled))

    return [(run_account.RunAccount, "settle", settle)]


def forget_what_waits() -> list[Patch]:
    """A stream that breaks leaves those without an answer waiting."""
    whole = run_stream.RunStream._break

    def break_off(self: Any, error: Any) -> None:
        self._account.waiting = {}
        whole(self, error)

    return [(run_stream.RunStream, "_break", break_off)]


def take_a_break_for_an_ack() -> list[Patch]:
    whole = run_stream.RunStream._break

    def break_off(self: Any, error: Any) -> None:
        for waiting in self._account.waiting.values():
            waiting.answered(None)
        whole(self, error)

    return [(run_stream.RunStream, "_break", break_off)]
