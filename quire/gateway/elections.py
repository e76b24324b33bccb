"""The elections that gateways hold among themselves. Pure.

An election is known by its name alone, and a log is led through the election of its own name
(owners.py). So gateways write no log with a name of these: its election would never be free.
"""

from __future__ import annotations

from typing import Final

from quire.errors import InvalidRequestError

GATEWAYS: Final = "kafka-gateways"
"""All gateways stand in it while they serve. The name is older than gateways without Kafka's port.
"""

_GROUP: Final = "kafka-group/"


def election_of_group(group: str) -> str:
    """Return the name of the election of a group's coordinator."""
    return f"{_GROUP}{group}"


def check_log(name: str) -> None:
    """Return for the name of a log that gateways may write. Raises `InvalidRequestError`."""
    if name == GATEWAYS or name.startswith(_GROUP):
        raise InvalidRequestError(
            f"log {name!r} has the name of an election that gateways hold among themselves, so no "
            "gateway writes it: give the log another name"
        )
