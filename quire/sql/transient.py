"""Which errors of a database another attempt may mend, by what drivers say. Pure.

SQLite names a code, PostgreSQL a state of five characters; a driver that lost its connection names
neither. No driver is imported here.
"""

from __future__ import annotations

from typing import Final

SQLITE_BUSY: Final = 5
SQLITE_LOCKED: Final = 6

STATES: Final = ("08", "40", "53", "55P03", "57P", "25P03")
"""How the states begin: connection lost, serialization or deadlock, resources, lock not available,
shutdown, and a transaction that idled too long.
"""


def is_transient(error: BaseException | None) -> bool:
    """Return whether an error of a driver, such as psycopg or sqlite3, may be gone next time."""
    if error is None:
        return False
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (SQLITE_BUSY, SQLITE_LOCKED)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if state is not None:
        return str(state).startswith(STATES)
    return any(kind.__name__ == "OperationalError" for kind in type(error).__mro__) and not any(
        kind.__module__ == "sqlite3" for kind in type(error).__mro__
    )
