"""Golden metadata records: one for each kind, and one for each variant of its fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from quire.bookie import BookieAddress
from quire.election.ballot import (
    Term,
    decode_candidate,
    decode_term,
    encode_candidate,
    encode_term,
)
from quire.entry import DigestKind
from quire.healing.summary import State, Summary
from quire.healing.switch import Go, Pause, Switch
from quire.labels import Labels
from quire.ledger.domains import Placement
from quire.ledger.ids import Counter, decode_counter, encode_counter
from quire.ledger.metadata import Fragment, LedgerMetadata, LedgerState, Replica
from quire.ledger.quorum import Replication
from quire.ledger.stretch import KeyStretch
from quire.log.maintenance.cursor_record import CursorRecord
from quire.log.manifest.ages import AgeMark, Ages, Reading
from quire.log.manifest.cold_files import ColdFile
from quire.log.manifest.holder import Holder
from quire.log.manifest.jobs import Forgotten, Job
from quire.log.manifest.jobs_record import JobsRecord, decode_jobs
from quire.log.manifest.manifest import LogManifest, Segment, SegmentEnd
from quire.log.manifest.page import Page, decode_page, reference_to
from quire.log.manifest.page_tree import Border
from quire.log.manifest.page_tree import Place as PagePlace
from quire.log.records.position import Position
from quire.metastore.cluster import Cluster
from quire.metastore.heartbeat import Heartbeat, Place
from quire.metastore.levels import Member, Program, Speaks
from quire.metastore.members import decode_client, encode_client
from quire.metastore.record import decode_record, encode_record
from quire.metastore.registration import (
    decode_registration,
    encode_registration,
    registered_program,
)
from quire.metastore.standing import Standing, Wish
from quire.repair.assignments import Assignment, Assignments
from quire.rights.roles import Role as RightsRole
from quire.rights.scopes import Reach
from quire.rights.table import AccessRule, Effect, RightsTable
from quire.service.snapshots import Snapshot
from quire.storage.identity.cookie import BookieCookie, Part, Role
from tests.golden.golden import Golden

PATH = "/path"
Reader: TypeAlias = Callable[[bytes], Any]
BOOKIES = ("a" * 32, "b" * 32, "c" * 32)

LEDGER = LedgerMetadata(
    7,
    Replication(3, 3, 2),
    DigestKind.CRC32C,
    "0" * 64,
    (Fragment(0, BOOKIES), Fragment(9, ("a" * 32, "d" * 32, "c" * 32))),
    custom_metadata={"application": "quire", "owner": "büro"},
    created_ms=1_700_000_000_000,
    token="00ff",
)
RIGHTS = RightsTable(
    (
        AccessRule(
            "quire://client/root", RightsRole.ADMIN, by="root@büro", since_ms=1_700_000_000_000
        ),
        AccessRule("quire://bookie/*", RightsRole.BOOKIE),
        AccessRule("quire://client/orders", RightsRole.WRITER, Reach(log="orders")),
        AccessRule("app.example", RightsRole.READER, Reach(prefix="orders-")),
        AccessRule("anonymous", RightsRole.AUDITOR, Reach(ledger=7)),
        AccessRule("*", RightsRole.OPERATOR, effect=Effect.DENY),
    )
)
CLOSED = LedgerMetadata(
    8,
    Replication(3, 2, 2),
    DigestKind.HMAC_SHA256,
    "f" * 64,
    (Fragment(0, BOOKIES),),
    LedgerState.CLOSED,
    12,
    4096,
    created_ms=1_700_000_000_000,
    token="00ff",
    full_quorum=True,
    incarnation=2,
)
IN_RECOVERY = LedgerMetadata(
    9,
    Replication(3, 3, 2),
    DigestKind.CRC32,
    "0" * 64,
    (Fragment(0, BOOKIES),),
    LedgerState.IN_RECOVERY,
)

PLACES = tuple(Labels("eu", zone, "", f"h-{zone}") for zone in "abc")
PLACED_LEDGER = LedgerMetadata(
    10,
    Replication(3, 3, 2),
    DigestKind.CRC32C,
    "0" * 64,
    (Fragment(0, BOOKIES, PLACES),),
    placement=Placement.parse("require=host:3,durable=zone:2,within=region:eu|us"),
)
STRETCHED_LEDGER = LedgerMetadata(
    11,
    Replication(3, 3, 2),
    DigestKind.HMAC_SHA256,
    "52" + "0" * 64,
    (Fragment(0, BOOKIES),),
    stretch=KeyStretch(b"1" * 32),
)

NEW_LOG = LogManifest("orders", "1" * 32, 1_700_000_000_000)
LOG = LogManifest(
    "orders",
    "1" * 32,
    1_700_000_000_000,
    3,
    (
        Segment(2, 5, 1, 1_700_000_000_100, 40, SegmentEnd(11, 2, 60, 4000, 1_700_000_000_200)),
        Segment(
            3, 6, 2, 1_700_000_000_300, 100, SegmentEnd(0, 5, 5, 50, 1_700_000_000_300, 7), True
        ),
        Segment(4, 7, 3, 1_700_000_000_400, 105),
    ),
    5,
    40,
    Position(2, 3, 1),
    -1,
    1_700_000_000_050,
    doomed=(3, 4),
    settings={"roll_bytes": "1000", "replication": "3/3/2"},
    jobs=(Job("load", 3), Job("stream", 9, "query", "0123456789abcdef")),
    forgotten_jobs=(Forgotten(470_000, "AAAAAAAABBBBBBBB"),),
    ages=Ages(
        900, Reading(1_700_000_000_400, "machine", 77), 88, (AgeMark(3, 100), AgeMark(4, 800))
    ),
)
TIER = "file:///tiers/" + "1" * 32
COLD_LOG = LogManifest(
    "orders",
    "1" * 32,
    1_700_000_000_000,
    1,
    (
        Segment(
            *(1, 5, 1, 1_700_000_000_100, 0),
            SegmentEnd(11, 2, 60, 4000, 1_700_000_000_200),
            cold=ColdFile(TIER, "00000001-5-0000abcd.parquet", 900, 0xFEEDBEEF, True),
        ),
        Segment(
            *(2, 6, 1, 1_700_000_000_300, 60),
            SegmentEnd(0, 5, 5, 50, 1_700_000_000_300, 7),
            True,
            ColdFile(TIER, "00000002-6-0000abcd.parquet", 901, 1),
        ),
    ),
    3,
    sealed=True,
    tiers=(TIER, "s3://bucket/" + "1" * 32),
    doomed_files=(TIER + "/00000000-4-0000abcd.parquet",),
)
RETIRED_LOG = LogManifest(
    *("gone", "2" * 32, 1_700_000_000_000), 4, next_segment=3, sealed=True, retired=True
)

HELD_LOG = replace(NEW_LOG, epoch=4, holder=Holder(4, "host1", 4711, 1_700_000_000_000))
PAGE = Page(0, LOG.rows[:2])
INDEX = Page(1, (), (reference_to(PAGE, "0" * 16, PAGE.encode("1" * 32, ())),))
COLD_PAGE = Page(0, COLD_LOG.rows)
HEAD = LogManifest(
    "orders",
    "1" * 32,
    1_700_000_000_000,
    3,
    (
        Segment(4, 7, 3, 1_700_000_000_400, 105, SegmentEnd(0, 1, 1, 9, 1_700_000_000_400, 7)),
        Segment(5, 8, 3, 1_700_000_000_500, 106),
    ),
    6,
    100,
    Position(2, 11, 2),
    -1,
    1_700_000_000_200,
    doomed=(5,),
    settings={"roll_bytes": "1000"},
    ages=LOG.ages,
    is_paged=True,
    levels=(INDEX.references,),
    border=Border(3, 4000, 1),
    doomed_pages=(PagePlace(0, INDEX.references[0]._replace(name="f" * 16)),),
    has_jobs=False,
)
JOBS = JobsRecord(LOG.jobs, LOG.forgotten_jobs, version=7)

COOKIE = BookieCookie("b" * 32, "c" * 32)
SPREAD = BookieCookie(
    "b" * 32,
    "c" * 32,
    2,
    (Part("d" * 32, Role.JOURNAL, "/fast"), Part("e" * 32, Role.ENTRIES, "")),
)
PART = BookieCookie("b" * 32, "c" * 32, 2, part="d" * 32)
BOOKIE = BookieAddress("b" * 32, "host:3181", True, "host:3182")
FOREIGN = BookieAddress("b" * 32, "10.0.0.1:3181", protocol="bookkeeper")
READ_ONLY = BookieAddress("b" * 32, "host:3181", False)
PROGRAM = Program("0.1.0", Speaks(1, 2))
SERVED = (replace(BOOKIE, says_hello=True), PROGRAM)
PLACED = replace(SERVED[0], labels=Labels("eu", "a", "r7", "h1"), room=1 << 38)
AWAY = Standing(Wish.AWAY, "new fan", "anna@desk", 1_700_000_000_000, 1_700_000_600_000)
DRAINING = Standing(Wish.DRAIN, "", "anna@desk", 1_700_000_000_000)
RELABELLED = replace(DRAINING, labels=Labels(zone="a", rack="r9"))
HEARTBEAT = Heartbeat(
    *(1_700_000_000_000, "host:3181", Labels(rack="r7", host="h1"), "0.1.0"),
    *(Wish.AWAY, False, 12, 1),
    (Place("/fast", "journal", 7, 9), Place("/big", "main+entries", 70, 90)),
)
CLIENT = Member("client", "1", "host, process 7", PROGRAM)
AT_LEVEL = Cluster("c" * 32, counted=True, level=2)
RULED = replace(AT_LEVEL, ruled=True)
TERM = Term(3, "anna", "c-0000000001", "00ff")
NAMED = Term(4, "anna", "c-0000000002", "00ff", "c-0000000003")


def _bookie(data: bytes) -> BookieAddress:
    return decode_registration("b" * 32, data)


def _served(data: bytes) -> tuple[BookieAddress, Program]:
    return _bookie(data), registered_program("b" * 32, data)


def _standing(data: bytes) -> Standing:
    return Standing.decode("b" * 32, data)


def _heartbeat(data: bytes) -> Heartbeat:
    return Heartbeat.decode("b" * 32, data)


def _client(data: bytes) -> Member:
    return decode_client("/quire/clients/1", data)


def _twin(data: bytes) -> BookieCookie:
    return BookieCookie.of(PATH, decode_record(PATH, "cookie", data)[1])


def _body(kind: str) -> Golden:
    """A kind without a type of its own: its body is the value."""
    body = {} if kind == "part" else {"cluster": "c", "following": 9, "records": 3, "made_ms": 5}
    return Golden(
        f"{kind}.record",
        body,
        lambda: encode_record(kind, 1, body),
        lambda data: decode_record(PATH, kind, data)[1],
        (f"`{kind}`",),
    )


def _of(
    kind: str, value: Any, write: Callable[[], bytes], read: Reader, variant: str = ""
) -> Golden:
    return Golden(f"{kind}{variant}.record", value, write, read, (f"`{kind}`",))


def _record(kind: str, value: Any, variant: str = "") -> Golden:
    return _of(kind, value, value.encode, lambda data: type(value).decode(PATH, data), variant)


def _page(page: Page, tiers: Sequence[str] = ()) -> tuple[Callable[[], bytes], Reader]:
    record = page.encode("1" * 32, tiers)
    reference = reference_to(page, "0" * 16, record)

    def read(data: bytes) -> Page:
        return decode_page(PATH, data, "1" * 32, page.level, reference, tiers)

    return lambda: page.encode("1" * 32, tiers), read


def _jobs(data: bytes) -> JobsRecord:
    return decode_jobs(PATH, data, "1" * 32, 7)


def _term(data: bytes) -> Term:
    return decode_term(PATH, data)


RESTORED = Cluster("c" * 32, 3, False, counted=True)
ASKED = Assignments(
    "b" * 32,
    (
        Assignment(7, (Replica(0, 1, "a" * 32, "b" * 32, Labels.parse("zone=a,host=h")),)),
        Assignment(9),
    ),
)
SWITCH = Switch(
    Pause("new switch", "anna@desk", 1_700_000_000_000, 1_700_000_060_000),
    Go("bert@desk", 1_700_000_000_000, ("a" * 32, "b" * 32)),
)
HEALING = Summary(
    at_ms=1_700_000_000_000,
    by="b" * 32,
    epoch=3,
    state=State.MOVING,
    why="no room for ledger 9: 3 bookies needed",
    ledgers=40,
    indexed=39,
    lost=("a" * 32,),
    counts={"asked": 4, "short": 7},
    worst=(7, 9),
)
COUNTING = replace(
    HEALING,
    totals={"requests": 9, "requests_ended": 5},
    bookies={"lost": 1, "up": 4},
    oldest_ms=1_699_999_990_000,
)
CURSOR = CursorRecord("spark", "1" * 32, Position(3, 1, 4), 1_700_000_000_000)

METADATA = (
    _of("cluster", Cluster("c" * 32), Cluster("c" * 32).encode, Cluster.decode),
    _of("cluster", RESTORED, RESTORED.encode, Cluster.decode, "-restored"),
    _of("ledger-ids", Counter(4711), lambda: encode_counter(4711), decode_counter),
    _of(
        "ledger-ids",
        Counter(4711, True),
        lambda: encode_counter(4711, is_withheld=True),
        decode_counter,
        "-withheld",
    ),
    _record("ledger", LEDGER),
    _record("ledger", CLOSED, "-closed"),
    _record("ledger", IN_RECOVERY, "-in-recovery"),
    _record("ledger", PLACED_LEDGER, "-placed"),
    _record("ledger", STRETCHED_LEDGER, "-stretched"),
    _of("bookie", BOOKIE, lambda: encode_registration(BOOKIE), _bookie),
    _of("bookie", READ_ONLY, lambda: encode_registration(READ_ONLY), _bookie, "-read-only"),
    _of("bookie", PLACED, lambda: encode_registration(PLACED, program=PROGRAM), _bookie, "-labels"),
    _of("bookie", FOREIGN, lambda: encode_registration(FOREIGN), _bookie, "-protocol"),
    _of("bookie", SERVED, lambda: encode_registration(BOOKIE, program=PROGRAM), _served, "-level"),
    _of("client", CLIENT, lambda: encode_client("host, process 7", PROGRAM), _client),
    _of("standing", AWAY, AWAY.encode, _standing),
    _of("standing", DRAINING, DRAINING.encode, _standing, "-drain"),
    _of("standing", RELABELLED, RELABELLED.encode, _standing, "-labels"),
    _of("heartbeat", HEARTBEAT, HEARTBEAT.encode, _heartbeat),
    _of("cluster", AT_LEVEL, AT_LEVEL.encode, Cluster.decode, "-level"),
    _of("cluster", RULED, RULED.encode, Cluster.decode, "-ruled"),
    _of("cookie", SPREAD, lambda: encode_record("cookie", 1, SPREAD.body()), _twin),
    _record("moves", ASKED),
    _record("healing-switch", SWITCH),
    _of("rights", RIGHTS, RIGHTS.encode, RightsTable.decode),
    _record("healing-summary", HEALING),
    _record("healing-summary", COUNTING, "-totals"),
    _record("log", NEW_LOG, "-new"),
    _record("log", LOG),
    _record("log", COLD_LOG, "-cold"),
    _record("log", RETIRED_LOG, "-retired"),
    _record("log", HEAD, "-paged"),
    _record("log", HELD_LOG, "-held"),
    _of("log-page", PAGE, *_page(PAGE)),
    _of("log-page", INDEX, *_page(INDEX), "-index"),
    _of("log-page", COLD_PAGE, *_page(COLD_PAGE, COLD_LOG.tiers), "-cold"),
    _of("log-jobs", JOBS, lambda: JOBS.encode("1" * 32), _jobs),
    _record("cursor", CURSOR),
    _record("snapshot", Snapshot("1" * 32, 9, Position(3, 1, 4), 103)),
    _body("part"),
    _body("restoring"),
    _of("epoch", TERM, lambda: encode_term(TERM), _term),
    _of("epoch", NAMED, lambda: encode_term(NAMED), _term, "-successor"),
    _of(
        "candidate",
        "anna",
        lambda: encode_candidate("anna", "00ff"),
        lambda data: decode_candidate(PATH, data),
    ),
)
