"""Errors of placement: bookies are there, and not where the ledger's policy wants copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quire.errors.base import NotEnoughBookiesError


class NotEnoughDomainsError(NotEnoughBookiesError):
    """The writable bookies are in too few domains for a placement policy."""

    def __init__(
        self,
        placement: str,
        level: str,
        needed: int,
        found: Mapping[str, int],
        missing: Sequence[str] = (),
        unlabelled: int = 0,
        outside: int = 0,
    ) -> None:
        """`found` counts the bookies that can be used by domain of the level, `missing` names
        domains without any, `unlabelled` and `outside` count bookies that the policy rejects.
        """
        super().__init__(needed, len(found))
        there = ", ".join(f"{name} ({count})" for name, count in found.items()) or "none"
        text = (
            f"placement {placement} needs bookies in {needed} domains of level {level} for every "
            f"write set; the writable bookies are in {there}"
        )
        if missing:
            text += f"; none in {', '.join(missing)}"
        if unlabelled:
            text += f"; {unlabelled} lack a label that the placement requires"
        if outside:
            text += f"; {outside} are outside of it"
        self.args = (f"{text}: start bookies elsewhere, label them, or require less",)
        self.placement = placement
        self.level = level
        self.found = dict(found)
        self.missing = tuple(missing)
