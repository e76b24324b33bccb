"""Fields of a later program: read without harm, and still there after this program wrote a record.

Each kind of record and each state file gets random fields that no program of today knows, at every
place where a later program may put them: beside the known fields, in the objects below, and in an
object at the end of a row. Then this program reads it, changes it as it does in life, and writes
it. All the unknown fields of what it kept must be in the result.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.election.ballot import decode_term, encode_term, next_term
from quire.entry import Entry
from quire.errors import CorruptRecordError
from quire.fields import joined, joined_row, split, split_row
from quire.healing.switch import Switch
from quire.ledger.ids import decode_counter, encode_counter
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.recovery_plan import closing_change
from quire.log.maintenance.cursor_record import CursorRecord
from quire.log.manifest.ages import Reading
from quire.log.manifest.jobs import Job
from quire.log.manifest.jobs_record import decode_jobs
from quire.log.manifest.manifest import LogManifest, SegmentEnd
from quire.log.manifest.page import FORMAT as PAGE_FORMAT
from quire.log.manifest.page import decode_page
from quire.log.records.position import Position
from quire.metastore.cluster import Cluster
from quire.metastore.record import decode_record, encode_record
from quire.metastore.registration import decode_registration, encode_registration, unknown_of
from quire.metastore.standing import Standing, Wish
from quire.repair.assignments import Assignment, Assignments
from quire.rights.roles import Role
from quire.rights.table import AccessRule, RightsTable
from quire.service.snapshots import Snapshot
from quire.storage.disk.state_file import decode_state, encode_state
from quire.storage.entries.checkpoint import decode_checkpoint, encode_checkpoint
from quire.storage.identity.cookie import decode_cookie, encode_cookie
from quire.storage.identity.identity import _decode_twin, _encode_twin
from quire.storage.journal.replay import JournalPosition
from tests.golden import metadata as golden
from tests.golden.storage import CHECKPOINT

PATH = "/path"
PACKAGE = Path(__file__).resolve().parent.parent / "quire"
Rows = dict[str, Callable[[Any], bool]]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.text(min_size=1, max_size=6).map("later-{}".format)
UNKNOWN = st.dictionaries(NAMES, VALUES)
GIVEN = st.dictionaries(NAMES, VALUES, min_size=1)


class Case(NamedTuple):
    """A kind: an example, what this program does to it, and the lists of rows that it keeps.

    `rows` maps a list in the body to the column that identifies a row in it, or the name of its
    identifying field if it is a list of objects.
    """

    name: str
    data: bytes
    change: Callable[[bytes], bytes]
    rows: Mapping[str, int | str] = MappingProxyType({})
    is_state: bool = False


def ledger(change: Callable[[LedgerMetadata], LedgerMetadata]) -> Callable[[bytes], bytes]:
    return lambda data: change(LedgerMetadata.decode(PATH, data)).encode()


def log(change: Callable[[LogManifest], LogManifest]) -> Callable[[bytes], bytes]:
    return lambda data: change(LogManifest.decode(PATH, data)).encode()


def move(current: LedgerMetadata) -> LedgerMetadata:
    """The writer replaces bookies at the beginning of a fragment, begins another, and closes."""
    current = current.with_fragment(Fragment(9, ("a", "b", "e")))
    current = current.with_fragment(Fragment(20, ("a", "b", "e")))
    current = current.with_fragment(Fragment(20, ("a", "f", "e")))
    current = current.closed(25, 9)
    return current.with_replicas([Replica(0, 1, golden.BOOKIES[1], "z")])


def recover(current: LedgerMetadata) -> LedgerMetadata:
    """A recovery freezes the record, mends it in memory, and closes the value that it reads."""
    frozen = current.with_state(LedgerState.IN_RECOVERY)
    mended = replace(
        frozen, fragments=tuple(Fragment(*each.row()[:2]) for each in frozen.fragments)
    )
    mended = mended.with_fragment(Fragment(9, ("x", "y", "z")))
    closed = closing_change(frozen, frozen, mended, Entry(7, 12, 11, 90, b""))
    assert closed is not None
    return closed


def lead(manifest: LogManifest) -> LogManifest:
    """A leader takes over, rolls, trims, repeats a job and counts time."""
    ends = {4: SegmentEnd(3, 1, 4, 40, 1_700_000_000_500, 9)}
    manifest = manifest.take_over(ends, 11, 1_700_000_000_600)
    manifest = manifest.append_segment(12, 1_700_000_000_700)
    manifest = manifest.note_job(Job("load", 4)).set_options({"roll_bytes": "7"})
    return manifest.aged(Reading(1_700_000_000_900, "machine", 500)).forget([3])


def roll(manifest: LogManifest) -> LogManifest:
    """The leader begins another segment: its row stays as the takeover wrote it."""
    return manifest.append_segment(12, 1_700_000_000_700)


def registration(data: bytes) -> bytes:
    """The bookie becomes read-only."""
    address = replace(decode_registration("b" * 32, data), writable=False)
    return encode_registration(address, unknown_of("b" * 32, data))


def cursor(data: bytes) -> bytes:
    return replace(CursorRecord.decode(PATH, data), position=Position(9, 0, 0)).encode()


def counter(data: bytes) -> bytes:
    found = decode_counter(data)
    return encode_counter(found.following + 64, unknown=found.unknown)


def checkpoint(data: bytes) -> bytes:
    found = decode_checkpoint(PATH, data)
    return encode_checkpoint(found.next(JournalPosition(9, 0, 99), (7,), 3))


def twin(data: bytes) -> bytes:
    return _encode_twin(replace(_decode_twin(PATH, data), cluster="other"))


def page(data: bytes) -> bytes:
    """An offload copies a page."""
    known = golden.INDEX.references[0]._replace(checksum=PAGE_FORMAT.checksum(data))
    found = decode_page(PATH, data, "1" * 32, 0, known, ())
    return found.encode("1" * 32, ())


def jobs(data: bytes) -> bytes:
    """A job comes one step further."""
    found = decode_jobs(PATH, data, "1" * 32, 7)
    manifest = replace(golden.LOG, jobs=found.jobs).note_job(Job("load", 4))
    return found._replace(jobs=manifest.jobs).encode("1" * 32)


CASES = (
    Case("page", golden.PAGE.encode("1" * 32, ()), page, {"rows": 0}),
    Case("head", golden.HEAD.encode(), log(lambda each: each.forget([], [])), {"segments": 0}),
    Case("jobs", golden.JOBS.encode("1" * 32), jobs, {"jobs": 0}),
    Case("writer", golden.LEDGER.encode(), ledger(move), {"fragments": 0}),
    Case("recovery", golden.LEDGER.encode(), ledger(recover), {"fragments": 0}),
    Case("held", golden.HELD_LOG.encode(), log(roll)),
    Case("leader", golden.LOG.encode(), log(lead), {"segments": 0, "jobs": 0}),
    Case(
        "offload", golden.COLD_LOG.encode(), log(lambda each: each.forget([], [])), {"segments": 0}
    ),
    Case("cursor", golden.CURSOR.encode(), cursor),
    Case(
        "cluster",
        golden.RESTORED.encode(),
        lambda data: replace(Cluster.decode(data), adopted=True).encode(),
    ),
    Case(
        "assignments",
        golden.ASKED.encode(),
        lambda data: Assignments.decode(PATH, data).with_more([Assignment(10)]).encode(),
        {"assignments": 0},
    ),
    Case("counter", encode_counter(7), counter),
    Case(
        "standing",
        golden.AWAY.encode(),
        lambda data: replace(
            Standing.decode("b" * 32, data), wish=Wish.DRAIN, until_ms=None
        ).encode(),
    ),
    Case("bookie", encode_registration(golden.BOOKIE), registration),
    Case(
        "epoch",
        encode_term(golden.NAMED),
        lambda data: encode_term(next_term(decode_term(PATH, data), "bob", "c-0000000009", "1")),
    ),
    Case(
        "snapshot",
        Snapshot("1" * 32, 9, Position(3, 1, 4), 103).encode(),
        lambda data: replace(Snapshot.decode(PATH, data), ledger=10).encode(),
    ),
    Case("twin", _encode_twin(golden.SPREAD), twin, {"parts": "id"}),
    Case(
        "healing-switch",
        golden.SWITCH.encode(),
        lambda data: Switch.decode(PATH, data).paused(None).encode(),
    ),
    Case(
        "rights",
        golden.RIGHTS.encode(),
        lambda data: RightsTable.decode(data).having([AccessRule("new", Role.READER)]).encode(),
        {"rules": "identity"},
    ),
    Case(
        "cookie",
        encode_cookie(golden.SPREAD),
        lambda data: encode_cookie(replace(decode_cookie(PATH, data), cluster="other")),
        {"parts": "id"},
        True,
    ),
    Case("checkpoint", encode_checkpoint(CHECKPOINT), checkpoint, {}, True),
)


def body_of(case: Case, data: bytes) -> tuple[int, dict[str, Any]]:
    kind = data.split(b" ", 2)[1].decode()
    if case.is_state:
        return 1, decode_state(PATH, kind, 1, data)
    return decode_record(PATH, kind, data)


def sealed(case: Case, version: int, body: dict[str, Any]) -> bytes:
    kind = case.data.split(b" ", 2)[1].decode()
    return (
        encode_state(kind, version, body) if case.is_state else encode_record(kind, version, body)
    )


def extended(row: Any, fields: dict[str, Any]) -> Any:
    return {**row, **fields} if isinstance(row, dict) else [*row, fields]


def fields_of(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = row if isinstance(row, dict) else row[-1]
    return {name: value for name, value in found.items() if name.startswith("later-")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(st.data())
def test_unknown_fields_survive_a_rewrite(case: Case, data: st.DataObject) -> None:
    version, body = body_of(case, case.data)
    added: dict[tuple[str, Any], dict[str, Any]] = {}
    for name, key in case.rows.items():
        for at, row in enumerate(body[name]):
            added[name, row[key]] = fields = data.draw(GIVEN)
            body[name][at] = extended(row, fields)
    beside = data.draw(GIVEN)
    _, after = body_of(case, case.change(sealed(case, version, {**body, **beside})))
    assert {name: after[name] for name in beside} == beside
    for (name, identity), fields in added.items():
        kept = [row for row in after[name] if row[case.rows[name]] == identity]
        assert [fields_of(row) for row in kept] == [fields], (name, identity)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_unknown_fields_none_are_written(case: Case) -> None:
    _, before = body_of(case, case.data)
    _, after = body_of(case, case.change(case.data))
    assert "later" not in json.dumps(after)
    ended = {"successor", "clean", "trimmed_timestamp_ms", "until_ms", "pause"}
    assert set(before) - ended <= set(after)


@given(st.dictionaries(st.text(max_size=4), VALUES), st.sets(st.text(max_size=4)))
def test_splitting_and_joining_are_inverse(body: dict[str, Any], known: set[str]) -> None:
    mine, unknown = split(body, known)
    assert set(mine) <= known
    assert joined(mine, unknown) == body


@given(st.lists(VALUES))
def test_rows_split_and_join(row: list[Any]) -> None:
    known, unknown = split_row(copy.deepcopy(row))
    ends_in_nothing = bool(row) and row[-1] == {}
    assert joined_row(known, unknown) == (row[:-1] if ends_in_nothing else row)


def test_a_known_field_wins() -> None:
    assert joined({"a": 1}, '{"a":2,"b":3}') == {"a": 1, "b": 3}


@pytest.mark.parametrize("value", ['"\\ud800"', "NaN", "Infinity"])
def test_fields_that_cannot_be_written_back_are_refused_on_reading(value: str) -> None:
    with pytest.raises(ValueError, match=r"surrogates|JSON"):
        split(json.loads(f'{{"later":{value}}}'), ())


def test_a_version_that_is_not_known_is_refused_by_name() -> None:
    body = json.loads(golden.CURSOR.encode().partition(b"\n")[2])
    with pytest.raises(CorruptRecordError, match="cursor version 2 is not known here, only 1: upg"):
        CursorRecord.decode(PATH, encode_record("cursor", 2, body))


def test_every_kind_has_a_format_that_keeps_fields() -> None:
    """No module takes a metadata record apart without `RecordFormat`."""
    raw = {"quire/metastore/record.py"}
    looking = {
        "quire/cli/dump.py",
        "quire/metadata/backup.py",
        "quire/repair/census.py",
        "quire/storage/maintenance/deletions.py",
    }
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE.parent).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "quire.metastore.record":
                names = {alias.name for alias in node.names}
                allowed = {"Encoded", "RecordFormat", "encode_value"} | (
                    {"decode_record"} if name in looking else set()
                )
                assert name in raw or names <= allowed, f"{name} imports {names - allowed}"


def test_the_cases_are_all_that_is_rewritten() -> None:
    """A kind that is never rewritten is named here; all others have a case."""
    never = {"candidate", "client", "healing-summary", "heartbeat", "part", "restoring"}
    kinds = {case.data.split(b" ", 2)[1].decode() for case in CASES}
    assert kinds | never == {
        each.covers[0].strip("`") for each in golden.METADATA if each.name.endswith(".record")
    } | {"checkpoint"}
