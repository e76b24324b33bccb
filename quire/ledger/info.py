"""`LedgerInfo`: a ledger as it looks, for programs and people that look at it. Pure.

The metadata record is what writers and recoverers edit. Its fields may change with the protocol;
these values keep their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quire.entry import BookieId, DigestKind, EntryId, LedgerId
from quire.errors import InvalidRequestError
from quire.ledger.domains import ANYWHERE, Placement
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState
from quire.ledger.quorum import Replication


@dataclass(frozen=True, slots=True)
class FragmentInfo:
    """The entries from `first` to the next fragment or the end, and the ensemble that stores them.

    Each entry is on some of the `bookies`: `LedgerInfo.write_set` names them.
    """

    first: EntryId
    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """A ledger at one moment.

    `last_entry` and `length` (payload bytes) are None until the ledger is closed; a closed ledger
    without entries has the last entry −1. `created_ms` is in Unix milliseconds. `full_quorum` says
    that the ledger closes only when every entry is on its whole write set. `custom_metadata` is the
    text that the application stored.
    """

    ledger: LedgerId
    state: LedgerState
    replication: Replication
    digest: DigestKind
    fragments: tuple[FragmentInfo, ...]
    last_entry: EntryId | None
    length: int | None
    created_ms: int
    full_quorum: bool
    custom_metadata: Mapping[str, str]
    placement: Placement = ANYWHERE
    """The policy that its ensembles obey."""
    read_needs_password: bool = False
    """Whether bookies ask for the key of the password before each read."""

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is fixed: it has no writer."""
        return self.state is LedgerState.CLOSED

    def write_set(self, entry: EntryId) -> tuple[BookieId, ...]:
        """Return the bookies that store an entry, or would once it is written.

        Args:
            entry: the entry's id.

        Returns:
            The ids of `write_quorum` bookies, in the order in which they are asked.

        Raises:
            InvalidRequestError: the id is negative.
        """
        for fragment in reversed(self.fragments):
            if fragment.first <= entry:
                positions = self.replication.write_set(entry)
                return tuple(fragment.bookies[position] for position in positions)
        raise InvalidRequestError(f"ledger {self.ledger} has no entry {entry}: ids start at 0")


def info_of(metadata: LedgerMetadata) -> LedgerInfo:
    """Describe a ledger by its record, for users of the ledger."""
    return LedgerInfo(
        metadata.ledger,
        metadata.state,
        metadata.replication,
        metadata.digest,
        tuple(map(_fragment, metadata.fragments)),
        metadata.last_entry,
        metadata.length,
        metadata.created_ms,
        metadata.full_quorum,
        dict(metadata.custom_metadata),
        metadata.placement,
        metadata.read_needs_password,
    )


def _fragment(fragment: Fragment) -> FragmentInfo:
    return FragmentInfo(fragment.first, fragment.bookies)
