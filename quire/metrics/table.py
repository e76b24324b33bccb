"""The table of all metrics: every figure that quire shows. docs/metrics.md is made from it.

A test compares the rows with what programs really show, in both directions. Alerts and dashboards
in `deploy/` are checked against the table, too.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a metric is to Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class Owner(StrEnum):
    """The program that shows a metric. Every bookie shows those of healing."""

    BOOKIE = "bookie"
    HEALING = "healing"
    CLIENT = "client"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Metric:
    """A row. `name` is as in queries: counters end in `_total`, information in `_info`."""

    name: str
    kind: Kind
    part: Owner
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The name without its suffix, as prometheus_client wants it."""
        return self.name.removesuffix(_SUFFIXES.get(self.kind, ""))

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of its samples, as they may stand in queries."""
        if self.kind is not Kind.HISTOGRAM:
            return (self.name,)
        return tuple(self.name + suffix for suffix in ("_bucket", "_count", "_sum"))


_SUFFIXES: Final = {Kind.COUNTER: "_total", Kind.INFO: "_info"}


def _rows(part: Owner, kind: Kind, rows: dict[str, str], *labels: str) -> tuple[Metric, ...]:
    return tuple(Metric(name, kind, part, meaning, labels) for name, meaning in rows.items())


def _bookie(kind: Kind, rows: dict[str, str], *labels: str) -> tuple[Metric, ...]:
    named = {f"quire_bookie_{name}": meaning for name, meaning in rows.items()}
    return _rows(Owner.BOOKIE, kind, named, *labels)


_STATE: Final = (
    Metric(
        *("quire_bookie_info", Kind.INFO, Owner.BOOKIE),
        "which bookie this is, and the version of its program",
        ("bookie", "version"),
    ),
    *_bookie(
        Kind.GAUGE,
        {
            "up": "1; 0 when the storage failed or gave no answer within 5 s, and then no other "
            "metric of the bookie is shown",
            "writable": "whether it takes new entries",
            "disk_free_bytes": "free space on the disk that is fullest",
            "disk_total_bytes": "the size of that disk",
            "ledgers": "ledgers with data on it",
            "ledgers_in_limbo": "ledgers that it may have lost data of",
            "loop_lag_seconds": "how much later than asked for the event loop ran a timer last",
            "certificate_end_seconds": "when its certificate ends, in seconds since 1970; only "
            "with TLS",
            "standing_away": "1 while an operator keeps it away",
            "standing_draining": "1 while it drains",
            "pace_percent": "the rate of copying, in percent of `upkeep-bytes-per-second`",
            "mending_ledgers_left": "ledgers that it has yet to make whole",
            "journal_waiting": "records that wait for a batch of the journal",
            "journal_p99_microseconds": "the time that 99 of 100 of the last 1,024 batches kept",
            "subscription_clients": "connections over which followers have entries pushed",
            "subscriptions_open": "subscriptions on them, one a ledger that a client follows",
            "subscriptions_without_credit": "subscriptions that wait until their follower takes "
            "the news",
        },
    ),
    *_bookie(
        Kind.GAUGE,
        {
            "directory_free_bytes": "free space of a directory; `holds` is `main`, `journal`, "
            "`entries`, joined by `+`",
            "directory_total_bytes": "the size of that directory's disk",
        },
        *("directory", "holds"),
    ),
)

_REQUESTS: Final = (
    *_bookie(
        Kind.HISTOGRAM,
        {
            "request_seconds": "from a request's arrival to its answer, an add's sync included; "
            "`outcome` is `ok` or the error's name",
        },
        *("request", "outcome"),
    ),
    *_bookie(Kind.COUNTER, {"request_bytes_total": "bytes of runs stored and read"}, "request"),
    *_bookie(
        Kind.COUNTER,
        {
            "refused_total": "[peers that were refused or dropped]"
            "(operations.md#peers-that-stall): `unfinished`, `unread`, `silent`, `connections`, "
            "`idle`, `calls`, `streams`, `busy`, `greeting`, `hello`, `tls`, `rights`",
        },
        "reason",
    ),
    *_bookie(
        Kind.HISTOGRAM,
        {
            "disk_write_seconds": "writes by directory (`journal`, `entries`, `main`); every add "
            'waits for `place="journal", synced="true"`',
        },
        *("place", "synced"),
    ),
    *_bookie(Kind.COUNTER, {"disk_written_bytes_total": "bytes written, by directory"}, "place"),
)

_COUNTERS: Final = _bookie(
    Kind.COUNTER,
    {
        "standing_adds_refused_total": "adds that it refused because it is away or drains",
        "collection_rounds_total": "looks for deleted ledgers",
        "collection_rounds_failed_total": "those that failed: the store could not say, or the "
        "disk had no space for the ids",
        "collection_rounds_without_space_total": "those without disk space for the ids",
        "collection_ledgers_dropped_total": "deleted ledgers that were dropped",
        "disowning_ledgers_total": "ledgers given up because other bookies hold all of them",
        "disowning_unproved_total": "proofs of that which failed: a named bookie was away, or "
        "lacked something",
        "disowning_failures_total": "rounds without an answer of the metadata store",
        "compaction_files_removed_total": "entry logs that were replaced or joined",
        "compaction_files_written_total": "entry logs that took their place",
        "compaction_bytes_copied_total": "bytes copied for that",
        "compaction_bytes_reclaimed_total": "bytes freed by that",
        "compaction_files_damaged_total": "entry logs left alone because of damage",
        "pace_halved_total": "times that copying was slowed down because appends waited longer "
        "than `slow-append-seconds`",
        "read_chunks_cached_total": "chunks of 64 KiB that readers found in memory",
        "read_chunks_fetched_total": "chunks that the disk was asked for",
        "read_bytes_ahead_total": "bytes that the disk was told to read ahead of readers",
        "journal_batches_total": "batches of the journal, each one write and sync",
        "journal_microseconds_total": "how long these took",
        "journal_entries_total": "entries in them, copies and repeated ones included",
        "journal_bytes_total": "their bytes, whole blocks",
        "replay_records_total": "records of the journal that the start replayed",
        "replay_bytes_total": "their bytes",
        "replay_milliseconds_total": "how long that took",
        "scrub_rounds_total": "complete rounds of scrubbing",
        "scrub_files_total": "entry logs that were verified",
        "scrub_chunks_total": "chunks that were verified",
        "scrub_bytes_total": "bytes that were verified",
        "scrub_damaged_total": "damaged pieces found",
        "scrub_repaired_total": "entries that were stored again",
        "mending_rounds_total": "rounds of fetching entries that are missing",
        "mending_ledgers_cleared_total": "ledgers that are whole again",
        "mending_ledgers_ordered_total": "ledgers that it was asked to take copies of",
        "mending_ledgers_owned_total": "ledgers that had been given up and are held again",
        "mending_places_taken_total": "places of other bookies that are its own now, in the "
        "records of ledgers",
        "mending_entries_total": "entries that were fetched",
        "mending_bytes_total": "their bytes",
        "mending_failures_total": "attempts at a ledger that failed",
        "subscription_messages_total": "news that were pushed to followers, empty ones included",
        "subscription_entries_total": "entries in them",
        "subscription_bytes_total": "the bytes of these entries, as they are stored",
        "subscription_credit_waits_total": "times that a subscription had to wait until its "
        "follower took the news",
    },
)

_CLIENT: Final = (
    Metric(
        *("quire_client_info", Kind.INFO, Owner.CLIENT),
        "the version of quire in this process",
        ("version",),
    ),
    *_rows(
        *(Owner.CLIENT, Kind.HISTOGRAM),
        {
            "quire_append_seconds": "from the append of an entry to a ledger to its answer; a log "
            "appends batches of records as entries. Entries that are answered together count "
            "with the time of the oldest",
        },
    ),
    *_rows(
        *(Owner.CLIENT, Kind.HISTOGRAM),
        {
            "quire_read_seconds": "one fetch of a run of entries from bookies",
            "quire_recovery_seconds": "one recovery of a ledger",
            "quire_takeover_seconds": "one takeover of a log, waiting included",
        },
        "outcome",
    ),
    *_rows(
        *(Owner.CLIENT, Kind.HISTOGRAM),
        {
            "quire_store_request_seconds": "one request to the metadata store: `get`, `create`, "
            "`put`, `delete`, `commit`, `children`, `open_session`",
        },
        *("op", "outcome"),
    ),
    *_rows(
        *(Owner.CLIENT, Kind.COUNTER),
        {
            "quire_append_total": "entries that were answered: `ok`; and appends that failed: "
            "`unknown` (`AppendOutcomeUnknownError`; an entry that is confirmed later counts as "
            "`ok`, too), `refused` (nothing was sent)",
        },
        "outcome",
    ),
    *_rows(
        *(Owner.CLIENT, Kind.COUNTER),
        {
            "quire_ensemble_changes_total": "places of an ensemble that were given to another "
            "bookie, by the error's name",
        },
        "reason",
    ),
    *_rows(
        *(Owner.CLIENT, Kind.COUNTER),
        {
            "quire_hedged_reads_total": "second bookies that were asked because the first was "
            "slow; `won` says whether the second answered first",
        },
        "won",
    ),
    *_rows(
        *(Owner.CLIENT, Kind.COUNTER),
        {
            "quire_elections_won_total": "terms that this client began, in each of the 1,000 "
            "elections that it won last",
            "quire_elections_lost_total": "terms that ended before this client resigned, in each "
            "of the 1,000 elections that it lost last",
        },
        "election",
    ),
    *_rows(
        *(Owner.CLIENT, Kind.GAUGE),
        {
            "quire_window_entries": "entries of this client's ledgers that are sent and not "
            "confirmed",
            "quire_position_down": "places of its ensembles without a bookie that takes entries",
            "quire_subscriptions": "bookies that push entries of ledgers that this client follows",
        },
    ),
    *_rows(
        *(Owner.CLIENT, Kind.COUNTER),
        {
            "quire_subscription_entries_total": "entries that bookies pushed, each counted once",
        },
    ),
    *_rows(
        *(Owner.CLIENT, Kind.COUNTER),
        {
            "quire_subscriptions_ended_total": "subscriptions that ended by an error, by its name; "
            "they are made anew",
        },
        "reason",
    ),
    *_rows(
        *(Owner.CLIENT, Kind.GAUGE),
        {
            "quire_log_epoch": "the leader's number, of a log that this client leads",
            "quire_log_segments": "its segments",
            "quire_log_records": "the offset of its next record",
            "quire_reader_records": "the offset of the next record of the slowest reader",
            "quire_reader_lag_seconds": "the age of the last record that the slowest reader "
            "returned; it grows while the program works on it",
        },
        "log",
    ),
    *_rows(
        *(Owner.CLIENT, Kind.GAUGE),
        {"quire_leader": "1 while this client leads, 0 while it is a candidate"},
        "election",
    ),
)

_GATEWAY: Final = (
    Metric(
        *("quire_gateway_info", Kind.INFO, Owner.GATEWAY),
        "which gateway this is, and the version of its program",
        ("address", "version"),
    ),
    *_rows(
        *(Owner.GATEWAY, Kind.HISTOGRAM),
        {"quire_gateway_request_seconds": "from a request's head to the head of its answer"},
        *("call", "status"),
    ),
    *_rows(
        *(Owner.GATEWAY, Kind.GAUGE),
        {
            "quire_gateway_requests_under_way": "requests that are being answered",
            "quire_gateway_bytes_under_way": "bytes of their bodies",
            "quire_gateway_logs": "logs that this gateway writes",
            "quire_gateway_clients_below_quota": "clients that have used some of their quota",
        },
    ),
    *_rows(
        *(Owner.GATEWAY, Kind.COUNTER),
        {"quire_gateway_throttled_total": "how often a client had used up its quota"},
        "direction",
    ),
)

_HEALING: Final = (
    *_rows(
        *(Owner.HEALING, Kind.GAUGE),
        {
            "quire_healing_summary_age_seconds": "the age of the auditor's last report; infinite "
            "before the first, and the auditor's other figures are missing then",
            "quire_healing_paused": "1 while an operator's pause holds",
            "quire_healing_requests_open": "ledgers that bookies are asked to copy now",
            "quire_healing_oldest_seconds": "for how long the auditor has seen the oldest of them",
            "quire_auditor_index_ready": "the share of all ledgers that the auditor knows; nothing "
            "moves below 1",
            "quire_auditor_round_seconds": "how long its last whole round took",
        },
    ),
    *_rows(
        *(Owner.HEALING, Kind.GAUGE),
        {
            "quire_healing_state": "1 for the present work of the auditor: `building`, `idle`, "
            "`moving`, `paused`, `mass-loss`, `stuck`; 0 for the others"
        },
        "state",
    ),
    *_rows(
        *(Owner.HEALING, Kind.GAUGE),
        {
            "quire_healing_ledgers": "ledgers to be healed: `no-copy`, `one-copy`, `short`, "
            "`drain`, `holes`; `unplaced` without a bookie for them; `waiting` for their writer; "
            "`unreadable` records; `few-domains` with copies in fewer domains than their placement "
            "requires; `spread` may be in more domains, and move last"
        },
        "reason",
    ),
    *_rows(
        *(Owner.HEALING, Kind.GAUGE),
        {
            "quire_bookies": "how many bookies the auditor counts: `up`, `read-only`, `away`, "
            "`draining`, `silent`, `lost`, `gone`"
        },
        "standing",
    ),
    *_rows(
        *(Owner.HEALING, Kind.COUNTER),
        {
            "quire_healing_rounds_total": "whole rounds of the auditor; it and the counters below "
            "begin at 0 with another auditor",
            "quire_healing_bookies_lost_total": "bookies that came to count as lost",
            "quire_healing_bookies_returned_total": "lost bookies that registered again",
            "quire_healing_ledgers_outlined_total": "ledgers that were compared with the outlines "
            "of their bookies, each time that they were",
            "quire_healing_ledgers_listed_total": "ledgers that were compared with the lists of "
            "their bookies, entry by entry",
            "quire_healing_requests_total": "ledgers that bookies were asked to copy",
            "quire_healing_requests_ended_total": "those that the bookie took away: copied, or not "
            "needed any more",
            "quire_healing_requests_withdrawn_total": "those taken back, because the bookie that "
            "was asked is lost",
        },
    ),
)

METRICS: Final = (*_STATE, *_REQUESTS, *_COUNTERS, *_HEALING, *_CLIENT, *_GATEWAY)
"""Every row, by part."""

BY_NAME: Final = {each.name: each for each in METRICS}

PROCESS: Final = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
)
"""What prometheus_client tells of a bookie's and a gateway's process."""

TITLES: Final = {
    Owner.BOOKIE: "A bookie",
    Owner.HEALING: "Healing",
    Owner.CLIENT: "A client",
    Owner.GATEWAY: "A gateway",
}


def markdown() -> str:
    """Return the rows as the tables of docs/metrics.md."""
    lines: list[str] = []
    for part in Owner:
        rows = [each for each in METRICS if each.part is part]
        if not rows:
            continue
        lines += [
            f"## {TITLES[part]}",
            "",
            "| metric | kind | labels | shows |",
            "|---|---|---|---|",
        ]
        for each in rows:
            labels = ", ".join(f"`{label}`" for label in each.labels) or "–"
            lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.meaning} |")
        lines.append("")
    return "\n".join(lines)
