"""Where Apache BookKeeper keeps the records of its ledgers: four layouts of paths.

`LAYOUT` below the root names the layout by the class that made it:

    flat             /L<10 digits>
    legacy           /dd/dddd/Ldddd                       10 digits
    hierarchical     the same for ids below 2³¹ − 1, the long form for others
    long             /ddd/dddd/dddd/dddd/Ldddd            19 digits

Other records stand beside them, under names without digits. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from quire.entry import LedgerId
from quire.errors import CorruptRecordError, InvalidRequestError, UnsupportedError

LAYOUT: Final = "LAYOUT"
INSTANCE: Final = "INSTANCEID"
AVAILABLE: Final = "available"
READ_ONLY: Final = "readonly"
COOKIES: Final = "cookies"
IDS: Final = "idgen"
LONG_IDS: Final = "idgen-long"

SHORT_MAX: Final = 2**31 - 1
"""Ids from here on have the long form, and another supply."""

LONG_MAX: Final = 2**63 - 1

_SHORT: Final = (2, 4, 4)
_LONG: Final = (3, 4, 4, 4, 4)
_FORMAT: Final = 2
_VERSION: Final = re.compile(r"(?P<format>[0-9]+)\n(?P<class>[\w.$]+):(?P<version>[0-9]+)\s*")


class Form(Enum):
    """A layout, by the last part of its class's name."""

    FLAT = "FlatLedgerManagerFactory"
    LEGACY = "LegacyHierarchicalLedgerManagerFactory"
    HIERARCHICAL = "HierarchicalLedgerManagerFactory"
    LONG = "LongHierarchicalLedgerManagerFactory"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below a root."""

    root: str
    form: Form = Form.HIERARCHICAL

    def path(self, ledger: LedgerId) -> str:
        """Return the path of a ledger's record. Raises `InvalidRequestError` for an id that the
        layout has no path for.
        """
        highest = SHORT_MAX - 1 if self.form in (Form.FLAT, Form.LEGACY) else LONG_MAX
        if type(ledger) is not int or not 0 <= ledger <= highest:
            raise InvalidRequestError(f"ledger id {ledger!r} is not a number in 0..{highest}")
        if self.form is Form.FLAT:
            return f"{self.root}/L{ledger:010d}"
        is_short = ledger < SHORT_MAX and self.form is not Form.LONG
        widths = _SHORT if is_short else _LONG
        return "/".join((self.root, *_cut(f"{ledger:0{sum(widths)}d}", widths)))

    @property
    def depths(self) -> Sequence[tuple[int, ...]]:
        """The widths of the directories on the way to a record, for each kind of path. Short ids
        come first, and are below all others.
        """
        match self.form:
            case Form.FLAT:
                return ((),)
            case Form.LEGACY:
                return (_SHORT[:-1],)
            case Form.LONG:
                return (_LONG[:-1],)
        return (_SHORT[:-1], _LONG[:-1])

    def id_prefixes(self) -> tuple[str, str]:
        """Return the paths below which short and long ids are drawn."""
        if self.form is Form.FLAT:
            return self.root, f"{self.root}/{LONG_IDS}"
        return f"{self.root}/{IDS}", f"{self.root}/{LONG_IDS}"


def _cut(digits: str, widths: Sequence[int]) -> list[str]:
    parts, at = [], 0
    for width in widths:
        parts.append(digits[at : at + width])
        at += width
    parts[-1] = f"L{parts[-1]}"
    return parts


def is_directory(name: str, width: int) -> bool:
    """Whether a name is so many digits: a directory on the way to records."""
    return len(name) == width and name.isascii() and name.isdecimal()


def last_digits(name: str) -> str | None:
    """Return the digits of a record's own name, None for another record."""
    digits = name[1:]
    return digits if name[:1] == "L" and digits.isascii() and digits.isdecimal() else None


def read_layout(path: str, data: bytes) -> Form:
    """Return the layout that a record names.

    Raises:
        CorruptRecordError: the record has another form.
        UnsupportedError: the layout is a fifth.
    """
    found = _VERSION.fullmatch(data.decode(errors="replace"))
    if found is None or int(found["format"]) > _FORMAT:
        raise CorruptRecordError(path, f"{data[:80]!r} names no layout of ledgers")
    name = found["class"].rpartition(".")[2]
    for form in Form:
        if name == form.value:
            return form
    raise UnsupportedError("quire", f"the layout {name} of {path}")
