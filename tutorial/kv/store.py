"""The state machine: a dictionary that remembers whose request it answered last.

A client that got no answer asks again under the same request id. The answer is part of the state,
so it is the same on whichever replica the second attempt arrives, and nothing is done twice.
"""

from __future__ import annotations

import json
from typing import Any, Final

from quire.service import Applied

ANSWERS_MAX: Final = 10_000
"""Requests remembered: far more than clients have under way."""


class Store:
    """Implements `quire.Application`: commands and answers are JSON objects."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.answers: dict[str, dict[str, Any]] = {}

    def apply(self, command: bytes, at: Applied) -> dict[str, Any]:
        request = json.loads(command)
        if request["id"] in self.answers:
            return self.answers[request["id"]]
        answer = {**self._carry_out(request), "epoch": at.epoch}
        self.answers[request["id"]] = answer
        if len(self.answers) > ANSWERS_MAX:
            del self.answers[next(iter(self.answers))]
        return answer

    def _carry_out(self, request: dict[str, Any]) -> dict[str, Any]:
        key, value = request["key"], request["value"]
        if "expected" in request and self.values.get(key) != request["expected"]:
            return {"ok": False, "value": self.values.get(key)}
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value
        return {"ok": True, "value": value}

    def snapshot(self) -> bytes:
        return json.dumps([self.values, self.answers]).encode()

    def restore(self, state: bytes) -> None:
        self.values, self.answers = json.loads(state)
