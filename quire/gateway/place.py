"""Where clients reach a gateway, as one text: its name as a candidate of elections. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

PREFIX: Final = "gateway "
GRPC: Final = "grpc="


class GatewayPlace(NamedTuple):
    """Where clients reach a gateway. Its text is the name of the gateway as a candidate."""

    url: str
    kafka: str | None = None
    grpc: str | None = None

    def __str__(self) -> str:
        kafka = f" {self.kafka}" if self.kafka else ""
        return f"{PREFIX}{self.url}{kafka}" + (f" {GRPC}{self.grpc}" if self.grpc else "")

    @classmethod
    def named(cls, candidate: str) -> GatewayPlace | None:
        """Return the place that a candidate's name has, None for another program."""
        if not candidate.startswith(PREFIX):
            return None
        url, *others = candidate.removeprefix(PREFIX).split(" ")
        kafka = next((each for each in others if not each.startswith(GRPC)), None)
        grpc = next((each for each in others if each.startswith(GRPC)), None)
        return cls(url, kafka or None, grpc and grpc.removeprefix(GRPC))
