"""Actions, and the roles that permit them. Pure.

A call asks for one action, whatever door it comes through. A role is a name for a set of
actions; rules give roles, never single actions, so a table stays short and readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Action(StrEnum):
    """The kind of work that a call asks for."""

    READ = "read"
    """Entries and records, their ends, and cursors."""
    APPEND = "append"
    """New entries and records, and the ledgers and logs that take them."""
    RECOVER = "recover"
    """A fence, which ends another writer, and the entries of a recovery."""
    OBSERVE = "observe"
    """Names, numbers and states: no payload."""
    OPERATE = "operate"
    """A wish for bookies or healing, the options of a log, trimming and deletion."""
    ADMINISTER = "administer"
    """The table of rights itself, and the metadata store as a whole."""


class Role(StrEnum):
    """A set of actions, as a rule gives or denies it."""

    READER = "reader"
    WRITER = "writer"
    BOOKIE = "bookie"
    AUDITOR = "auditor"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def actions(self) -> frozenset[Action]:
        """The actions that the role permits."""
        return ROLES[self]


ROLES: Final[Mapping[Role, frozenset[Action]]] = MappingProxyType(
    {
        Role.READER: frozenset({Action.READ, Action.OBSERVE}),
        Role.WRITER: frozenset({Action.APPEND, Action.READ, Action.RECOVER}),
        Role.BOOKIE: frozenset({Action.READ, Action.OBSERVE}),
        Role.AUDITOR: frozenset({Action.OBSERVE}),
        Role.OPERATOR: frozenset({Action.OPERATE, Action.OBSERVE}),
        Role.ADMIN: frozenset(Action),
    }
)


def roles_for(action: Action) -> list[Role]:
    """Return the roles that permit an action, in their order, the narrowest kinds first."""
    return [role for role in Role if action in role.actions]
