"""The paths of all records in the metadata store, and the rules for a path.

    /quire/cluster                      the cluster's identity
    /quire/ledgers/<shard>/<ledger>     ledger metadata; a shard holds 1,000 consecutive ids
    /quire/ledger-ids                   the next ledger id
    /quire/bookies/<bookie>             ephemeral: a bookie that is up
    /quire/clients/<client>             ephemeral: a client that is connected
    /quire/cookies/<bookie>             the identity of a bookie's disk
    /quire/standings/<bookie>           what an operator wishes of a bookie
    /quire/heartbeats/<bookie>          the last account that a bookie gave of itself
    /quire/moves/<bookie>               copies that a bookie is asked to make
    /quire/healing/switch               an operator's pause and go
    /quire/healing/summary              the findings of the auditor
    /quire/rights                       which identity may do what
    /quire/logs/<log>                   manifest
    /quire/pages/<log id>/<2 digits>/<14 digits>   a page of a manifest
    /quire/log-jobs/<log id>            the jobs whose work a log ingested
    /quire/cursors/<log>/<cursor>       how far a consumer of a log has come
    /quire/parts/<log>/<job>/<ledger>   a ledger written for a log that is to adopt it
    /quire/services/<service>           the newest snapshot of a service
    /quire/elections/<election>/epoch
    /quire/elections/<election>/candidates/c-<ten digits>

Numbers are zero-padded, so names sort as numbers do. Names that users choose are percent-encoded;
no two names share a path. The module is pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from quire.entry import BookieId, LedgerId
from quire.errors import InvalidRequestError

CLUSTER: Final = "/quire/cluster"
LEDGERS: Final = "/quire/ledgers"
RESTORING: Final = "/quire/restoring"
"""There while a backup is put back."""

LEDGER_IDS: Final = "/quire/ledger-ids"
BOOKIES: Final = "/quire/bookies"
CLIENTS: Final = "/quire/clients"
COOKIES: Final = "/quire/cookies"
STANDINGS: Final = "/quire/standings"
HEARTBEATS: Final = "/quire/heartbeats"
MOVES: Final = "/quire/moves"
HEALING_SWITCH: Final = "/quire/healing/switch"
HEALING_SUMMARY: Final = "/quire/healing/summary"
RIGHTS: Final = "/quire/rights"
LOGS: Final = "/quire/logs"
PAGES: Final = "/quire/pages"
LOG_JOBS: Final = "/quire/log-jobs"
CURSORS: Final = "/quire/cursors"
SERVICES: Final = "/quire/services"
PARTS: Final = "/quire/parts"
ELECTIONS: Final = "/quire/elections"

LEDGERS_PER_SHARD: Final = 1000
LEDGER_ID_MAX: Final = 2**63 - 1
"""Ids are signed 64-bit numbers in every frame; this one has 19 digits."""

NAME_BYTES_MAX: Final = 255
"""Longest segment of a path, after encoding."""

VALUE_BYTES_MAX: Final = 1_000_000
"""Largest value: ZooKeeper drops the connection at 1,048,575 bytes, path and framing included."""

SEQUENCE_DIGITS: Final = 10

_SEGMENT: Final = re.compile(r"[!-.0-~]+")
_BOOKIE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DIGITS: Final = re.compile(r"[0-9]{19}")


def ledger_path(ledger: LedgerId) -> str:
    """Return the path of a ledger's metadata. Raises `InvalidRequestError` for an impossible id."""
    if type(ledger) is not int or not 0 <= ledger <= LEDGER_ID_MAX:
        raise InvalidRequestError(f"ledger id {ledger!r} is not a number in 0..{LEDGER_ID_MAX}")
    return f"{LEDGERS}/{ledger // LEDGERS_PER_SHARD:016d}/{ledger:019d}"


def parse_ledger(name: str) -> LedgerId:
    """Return the ledger that the last segment of a ledger's path names.

    Raises `InvalidRequestError` when it names none.
    """
    if not _DIGITS.fullmatch(name):
        raise InvalidRequestError(f"{name!r} is not the 19 digits of a ledger id")
    return int(name)


def bookie_path(bookie: BookieId) -> str:
    """Return the path of a bookie's registration."""
    return f"{BOOKIES}/{check_bookie(bookie)}"


def cookie_path(bookie: BookieId) -> str:
    """Return the path of a bookie's cookie."""
    return f"{COOKIES}/{check_bookie(bookie)}"


def standing_path(bookie: BookieId) -> str:
    """Return the path of a bookie's standing."""
    return f"{STANDINGS}/{check_bookie(bookie)}"


def heartbeat_path(bookie: BookieId) -> str:
    """Return the path of a bookie's heartbeat."""
    return f"{HEARTBEATS}/{check_bookie(bookie)}"


def moves_path(bookie: BookieId) -> str:
    """Return the path of the copies that a bookie is asked to make."""
    return f"{MOVES}/{check_bookie(bookie)}"


def log_path(log: str) -> str:
    """Return the path of a log's manifest. Raises `InvalidRequestError` as `quote_name`."""
    return f"{LOGS}/{quote_name(log)}"


def pages_path(log_id: str) -> str:
    """Return the path below which the pages of the log with this identity are."""
    return f"{PAGES}/{quote_name(log_id)}"


def page_path(log_id: str, page: str) -> str:
    """Return the path of a page, which has 16 digits. They are parted, because ZooKeeper lists no
    more than some 40,000 records.
    """
    return f"{pages_path(log_id)}/{page[:2]}/{page[2:]}"


def log_jobs_path(log_id: str) -> str:
    """Return the path of the record of the jobs of the log with this identity."""
    return f"{LOG_JOBS}/{quote_name(log_id)}"


def cursors_path(log: str) -> str:
    """Return the path below which a log's cursors are."""
    return f"{CURSORS}/{quote_name(log)}"


def cursor_path(log: str, cursor: str) -> str:
    """Return the path of one cursor of a log."""
    return f"{cursors_path(log)}/{quote_name(cursor)}"


def service_path(service: str) -> str:
    """Return the path of the record that names a service's newest snapshot."""
    return f"{SERVICES}/{quote_name(service)}"


def election_epoch_path(election: str) -> str:
    """Return the path of an election's epoch record."""
    return f"{ELECTIONS}/{quote_name(election)}/epoch"


def election_candidates_path(election: str) -> str:
    """Return the path below which an election's candidates queue."""
    return f"{ELECTIONS}/{quote_name(election)}/candidates"


def election_candidate_prefix(election: str) -> str:
    """Return the prefix of the sequential records of an election's candidates."""
    return f"{election_candidates_path(election)}/c-"


def jobs_path(log: str) -> str:
    """Return the path below which the jobs are that have parts for a log."""
    return f"{PARTS}/{quote_name(log)}"


def parts_path(log: str, job: str) -> str:
    """Return the path below which the parts of a job are, which a log is to adopt."""
    return f"{jobs_path(log)}/{quote_name(job)}"


def part_path(log: str, job: str, ledger: LedgerId) -> str:
    """Return the path of one part."""
    return f"{parts_path(log, job)}/{ledger:019d}"


def check_bookie(bookie: BookieId) -> BookieId:
    """Return a bookie id that can be used as it is. Raises `InvalidRequestError`."""
    if not isinstance(bookie, str) or not _BOOKIE.fullmatch(bookie):
        raise InvalidRequestError(
            f"bookie id {bookie!r} is not up to 128 letters, digits, dots, dashes and underscores"
        )
    return bookie


def quote_name(name: str) -> str:
    """Return a user's name as one segment of a path; `unquote_name` is its inverse.

    Raises `InvalidRequestError` when the name is not text, is empty, cannot be encoded, or is too
    long.
    """
    try:
        quoted = quote(name, safe="", errors="strict")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"name {name!r} is not Unicode text: {error}") from error
    except TypeError as error:
        raise InvalidRequestError(f"name {name!r} is not text: give a str") from error
    if not quoted:
        raise InvalidRequestError("a name is needed: '' is empty")
    if not quoted.strip("."):
        quoted = quoted.replace(".", "%2E")
    if len(quoted) > NAME_BYTES_MAX:
        raise InvalidRequestError(
            f"name {name!r} is {len(quoted)} bytes when encoded, {NAME_BYTES_MAX} are allowed"
        )
    return quoted


def unquote_name(segment: str) -> str:
    """Return the name that a segment stands for. Raises `InvalidRequestError` when it is not one
    that `quote_name` makes.
    """
    name = unquote(segment, errors="replace")
    if quote_name(name) != segment:
        raise InvalidRequestError(f"{segment!r} is not the encoding of a name")
    return name


@lru_cache(maxsize=4096)
def check_path(path: str) -> str:
    """Return a path that every store can hold. Raises `InvalidRequestError` naming it."""
    root, *segments = path.split("/")
    if root or not segments:
        raise InvalidRequestError(f"path {path!r} does not start with a slash")
    for segment in segments:
        if not _SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise InvalidRequestError(f"path {path!r} has the unusable segment {segment!r}")
    return path


def check_parent(path: str) -> str:
    """Return a path that something can lie below: as `check_path`, or the root."""
    return path if path == "/" else check_path(path)


def check_value(path: str, value: bytes) -> bytes:
    """Return a value that every store can hold. Raises `InvalidRequestError` when too large."""
    if len(value) > VALUE_BYTES_MAX:
        raise InvalidRequestError(
            f"value of {len(value)} bytes for {path} exceeds the limit of {VALUE_BYTES_MAX}"
        )
    return value


def parent_of(path: str) -> str:
    """Return the path above; `/` for `/a`."""
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """Return the last segment."""
    return path.rpartition("/")[2]


def ancestors(path: str) -> list[str]:
    """Return the paths strictly between the root and a path, outermost first."""
    segments = path.split("/")[1:-1]
    return ["/" + "/".join(segments[: end + 1]) for end in range(len(segments))]
