"""The action that each call asks for, by gRPC, frames, HTTP, Kafka, BookKeeper, commands. Pure.

One table for each door. A door looks its calls up here, and a call without a row is refused by the
door itself: nothing is permitted because it was forgotten. A test compares each table with the
calls that exist (tests/rights/test_calls.py), so a new call fails the tests until it has a row.

A command has no door of its own: bookies check its calls, and the metadata store its changes of
records. Its row tells which actions the identity of its user needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quire.rights.roles import Action

READ, APPEND, RECOVER = Action.READ, Action.APPEND, Action.RECOVER
OBSERVE, OPERATE, ADMINISTER = Action.OBSERVE, Action.OPERATE, Action.ADMINISTER


@dataclass(frozen=True, slots=True)
class Row:
    """A call with a message: its action, and the field that makes it a recovery."""

    action: Action
    plain: frozenset[str]
    """The fields that change nothing about the action."""
    recovers_with: str | None = None
    """A field that makes the call a recovery when it is there, whatever its value."""
    recovers_if: str | None = None
    """A field that makes the call a recovery when it is true."""

    def action_of(self, message: Any) -> Action:
        """Return the action that a message asks for."""
        if self.recovers_with is not None and message.HasField(self.recovers_with):
            return Action.RECOVER
        if self.recovers_if is not None and getattr(message, self.recovers_if):
            return Action.RECOVER
        return self.action

    @property
    def fields(self) -> frozenset[str]:
        """Every field that was thought of."""
        return self.plain | {each for each in (self.recovers_with, self.recovers_if) if each}


_PLACE: Final = frozenset({"bookie", "ledger"})

RUN: Final = Row(
    *(APPEND, frozenset({"ledger", "key", "run", "deferred", "lac_packet"})),
    recovers_if="recovery",
)
"""One run of a stream, over gRPC and in plain frames."""

STREAM: Final = frozenset({"bookie", "first", "runs"})
"""The fields of the messages that carry runs."""

SUBSCRIBE: Final = Row(
    READ, frozenset({"subscription", "ledger", "above", "first", "bytes", "quiet_ms", "key"})
)
"""One subscription, in plain frames. It is judged again before all news."""

SUBSCRIPTIONS: Final = frozenset({"bookie", "subscribe", "credit", "unsubscribe"})
"""The fields of the messages that carry subscriptions."""

RPCS: Final[Mapping[str, Row]] = {
    "Read": Row(READ, _PLACE | {"first", "last", "bytes_max", "key"}, recovers_with="fence_key"),
    "ReadTail": Row(READ, _PLACE | {"key"}, recovers_with="fence_key"),
    "WaitTail": Row(READ, _PLACE | {"above", "timeout_ms", "key"}),
    "Sync": Row(APPEND, _PLACE | {"key", "first", "last"}),
    "ListEntries": Row(OBSERVE, _PLACE | {"first"}),
    "ListLedgers": Row(OBSERVE, frozenset({"bookie", "first"})),
    "Outlines": Row(OBSERVE, frozenset({"bookie", "ledgers"})),
    "Info": Row(OBSERVE, frozenset({"bookie"})),
}
"""By method of `quire.v1.Bookie`. `Add` is a stream: `RUN` judges its runs."""

_LOG: Final = "/v1/logs/{name}"
_CURSOR: Final = f"{_LOG}/cursors/{{cursor}}"

_STREAM: Final = "/v1/stream/{name}"

HTTP: Final[Mapping[tuple[str, str], Action | None]] = {
    ("GET", "/v1/logs"): OBSERVE,
    ("GET", _LOG): OBSERVE,
    ("PUT", _LOG): APPEND,
    ("POST", f"{_LOG}/records"): APPEND,
    ("GET", f"{_LOG}/records"): READ,
    ("GET", f"{_LOG}/records/{{place}}"): READ,
    ("GET", f"{_LOG}/tail"): READ,
    ("GET", f"{_LOG}/end"): READ,
    ("POST", f"{_LOG}/trim"): OPERATE,
    ("GET", f"{_LOG}/cursors"): OBSERVE,
    ("GET", _CURSOR): READ,
    ("PUT", _CURSOR): READ,
    ("DELETE", _CURSOR): OPERATE,
    ("GET", "/v1/openapi.json"): None,
    ("GET", "/v1/logs.proto"): None,
    ("HEAD", _STREAM): READ,
    ("GET", _STREAM): READ,
    ("PUT", _STREAM): APPEND,
    ("POST", _STREAM): APPEND,
    ("DELETE", _STREAM): OPERATE,
    ("GET", "/v1/status"): OBSERVE,
    ("GET", "/metrics"): OBSERVE,
    ("GET", "/livez"): None,
    ("GET", "/readyz"): None,
}
"""By method and path of a gateway. None: answered to every peer, without a token. The list of logs
names the logs that its caller may observe."""

LOGS: Final[Mapping[str, Action]] = {
    "Append": APPEND,
    "Read": READ,
    "ListLogs": OBSERVE,
    "DescribeLog": OBSERVE,
    "CreateLog": APPEND,
    "DeleteLog": OPERATE,
    "TrimLog": OPERATE,
    "FindEnd": READ,
    "LastSequence": APPEND,
    "ListCursors": OBSERVE,
    "FindCursor": READ,
    "MoveCursor": READ,
    "DeleteCursor": OPERATE,
}
"""By method of a gateway's service over gRPC. The list of logs names the logs that its caller may
observe; the other calls name a log, each message of `Append` anew."""

GROUPED: Final = frozenset({READ, OBSERVE})
"""A group belongs to no log: its members and operators need one of these on any log. Each name of a
group keeps a record in the metadata store, and a caller without any right makes none.
"""

KAFKA: Final[Mapping[int, frozenset[Action]]] = {
    0: frozenset({APPEND}),  # Produce
    1: frozenset({READ}),  # Fetch
    2: frozenset({READ}),  # ListOffsets
    3: frozenset({OBSERVE, APPEND, READ}),  # Metadata: one of them; APPEND to create a topic
    8: frozenset({READ}),  # OffsetCommit
    9: frozenset({READ}),  # OffsetFetch
    10: GROUPED,  # FindCoordinator
    11: GROUPED,  # JoinGroup: members say which topics they want, and fetch by themselves
    12: GROUPED,  # Heartbeat
    13: GROUPED,  # LeaveGroup
    14: GROUPED,  # SyncGroup
    15: frozenset({OBSERVE}),  # DescribeGroups: on all logs, since a group belongs to none
    16: frozenset({OBSERVE}),  # ListGroups: likewise
    17: frozenset(),  # SaslHandshake
    18: frozenset(),  # ApiVersions
    19: frozenset({APPEND}),  # CreateTopics
    20: frozenset({OPERATE}),  # DeleteTopics
    21: frozenset({OPERATE}),  # DeleteRecords
    22: frozenset(),  # InitProducerId
    32: frozenset({OBSERVE}),  # DescribeConfigs
    33: frozenset({OPERATE}),  # AlterConfigs
    36: frozenset(),  # SaslAuthenticate
    37: frozenset({OPERATE}),  # CreatePartitions
    42: frozenset({OPERATE}),  # DeleteGroups: on each log with an offset of the group
    44: frozenset({OPERATE}),  # IncrementalAlterConfigs
    47: frozenset({OPERATE}),  # OffsetDelete
}
"""By key of a request of Kafka's protocol: what it needs on each topic that it names. A request
needs a token, where a gateway has tokens, unless it is one of 17, 18 and 36."""

BOOKKEEPER: Final[Mapping[str, Action | None]] = {
    "add": APPEND,  # RECOVER with its flag
    "read": READ,  # RECOVER where it fences
    "wait": READ,
    "batch read": READ,  # RECOVER where it fences
    "write LAC": APPEND,
    "read LAC": READ,
    "force": APPEND,
    "list entries": OBSERVE,
    "info": OBSERVE,
    "auth": None,
    "start TLS": None,
    "unknown": None,
}
"""By kind of a request in Apache BookKeeper's protocols. None: answered to every peer."""

FILES_ONLY: Final[frozenset[Action]] = frozenset()
"""The needs of a command that uses files of its machine alone."""

_READS: Final = frozenset({READ})
_WRITES: Final = frozenset({APPEND, READ, RECOVER})
_LOOKS: Final = frozenset({OBSERVE})
_OPERATES: Final = frozenset({OPERATE, OBSERVE})

COMMANDS: Final[Mapping[str, frozenset[Action]]] = {
    "autorecovery": _LOOKS,
    "bench": FILES_ONLY,
    "bookie away": _OPERATES,
    "bookie back": _OPERATES,
    "bookie check": FILES_ONLY,
    "bookie drain": _OPERATES,
    "bookie expand": FILES_ONLY,
    "bookie forget": _OPERATES,
    "bookie format": frozenset({ADMINISTER}),
    "bookie list": _LOOKS,
    "bookie recommission": _OPERATES,
    "bookie relabel": _OPERATES,
    "bookie repair": frozenset({READ, OBSERVE}),
    "bookie serve": frozenset({READ, OBSERVE}),
    "certificates issue bookie": FILES_ONLY,
    "certificates issue ca": FILES_ONLY,
    "certificates issue client": FILES_ONLY,
    "certificates show": FILES_ONLY,
    "cluster health": _LOOKS,
    "cluster roll-check": _LOOKS,
    "cluster status": _LOOKS,
    "cluster up": FILES_ONLY,
    "cluster upgrade": frozenset({ADMINISTER}),
    "config check": FILES_ONLY,
    "config show": FILES_ONLY,
    "console": frozenset({READ, OBSERVE}),
    "context add": FILES_ONLY,
    "context list": FILES_ONLY,
    "context remove": FILES_ONLY,
    "context use": FILES_ONLY,
    "dlog cat": _READS,
    "dump": frozenset({ADMINISTER}),
    "election lead": frozenset({APPEND}),
    "election watch": _LOOKS,
    "gateway serve": _WRITES | _OPERATES,
    "healing cancel": _OPERATES,
    "healing go": _OPERATES,
    "healing list": _LOOKS,
    "healing pause": _OPERATES,
    "healing resume": _OPERATES,
    "healing run": _OPERATES,
    "healing status": _LOOKS,
    "ledger append": _WRITES,
    "ledger close": _WRITES,
    "ledger create": _WRITES,
    "ledger delete": frozenset({OPERATE}),
    "ledger inventory": _LOOKS,
    "ledger list": _LOOKS,
    "ledger read": _READS,
    "ledger show": _LOOKS,
    "ledger tail": _READS,
    "log append": _WRITES,
    "log copy": _WRITES,
    "log create": frozenset({APPEND}),
    "log cursor advance": _READS,
    "log cursor reset": _READS,
    "log cursor delete": frozenset({OPERATE}),
    "log cursor list": _LOOKS,
    "log delete": frozenset({OPERATE}),
    "log end": _READS,
    "log gc": _OPERATES,
    "log jobs": _LOOKS,
    "log list": _LOOKS,
    "log read": _READS,
    "log rebuild": frozenset({READ, OBSERVE, OPERATE}),
    "log set": frozenset({OPERATE}),
    "log show": _LOOKS,
    "log table": _READS,
    "log tail": _READS,
    "log trim": frozenset({OPERATE}),
    "log watch": _LOOKS,
    "metadata adopt": frozenset({ADMINISTER}),
    "metadata backup": frozenset({ADMINISTER}),
    "metadata check": _LOOKS,
    "metadata protect": frozenset({ADMINISTER}),
    "metadata restore": frozenset({ADMINISTER}),
    "pulsar cat": _READS,
    "rights apply": frozenset({ADMINISTER}),
    "rights check": _LOOKS,
    "rights grant": frozenset({ADMINISTER}),
    "rights revoke": frozenset({ADMINISTER}),
    "rights show": _LOOKS,
    "spark audit": _READS,
    "spark compact": _WRITES,
    "spark offload": _READS | _OPERATES,
    "spark replay": _WRITES,
    "top": frozenset({READ, OBSERVE}),
}
"""By command, without `quire`: the actions that its user needs. A hidden command has a row, too."""
