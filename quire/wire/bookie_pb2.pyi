from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS_UNSPECIFIED: _ClassVar[Status]
    INTERNAL: _ClassVar[Status]
    UNAVAILABLE: _ClassVar[Status]
    BUSY: _ClassVar[Status]
    READ_ONLY: _ClassVar[Status]
    FENCED: _ClassVar[Status]
    NO_SUCH_LEDGER: _ClassVar[Status]
    NO_SUCH_ENTRY: _ClassVar[Status]
    ENTRY_UNKNOWN: _ClassVar[Status]
    CORRUPT_ENTRY: _ClassVar[Status]
    CORRUPT_STORAGE: _ClassVar[Status]
    UNAUTHORIZED: _ClassVar[Status]
    INVALID_REQUEST: _ClassVar[Status]
    WRONG_BOOKIE: _ClassVar[Status]
STATUS_UNSPECIFIED: Status
INTERNAL: Status
UNAVAILABLE: Status
BUSY: Status
READ_ONLY: Status
FENCED: Status
NO_SUCH_LEDGER: Status
NO_SUCH_ENTRY: Status
ENTRY_UNKNOWN: Status
CORRUPT_ENTRY: Status
CORRUPT_STORAGE: Status
UNAUTHORIZED: Status
INVALID_REQUEST: Status
WRONG_BOOKIE: Status

class Failure(_message.Message):
    __slots__ = ("status", "ledger", "entry", "subject", "reason", "expected", "found", "through")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    status: Status
    ledger: int
    entry: int
    subject: str
    reason: str
    expected: str
    found: str
    through: int
    def __init__(self, status: _Optional[_Union[Status, str]] = ..., ledger: _Optional[int] = ..., entry: _Optional[int] = ..., subject: _Optional[str] = ..., reason: _Optional[str] = ..., expected: _Optional[str] = ..., found: _Optional[str] = ..., through: _Optional[int] = ...) -> None: ...

class AddRun(_message.Message):
    __slots__ = ("ledger", "key", "run", "recovery", "deferred", "lac_packet")
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    LAC_PACKET_FIELD_NUMBER: _ClassVar[int]
    ledger: int
    key: bytes
    run: bytes
    recovery: bool
    deferred: bool
    lac_packet: bytes
    def __init__(self, ledger: _Optional[int] = ..., key: _Optional[bytes] = ..., run: _Optional[bytes] = ..., recovery: bool = ..., deferred: bool = ..., lac_packet: _Optional[bytes] = ...) -> None: ...

class AddRequest(_message.Message):
    __slots__ = ("bookie", "first", "runs")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    first: int
    runs: _containers.RepeatedCompositeFieldContainer[AddRun]
    def __init__(self, bookie: _Optional[str] = ..., first: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[AddRun, _Mapping]]] = ...) -> None: ...

class AddFailure(_message.Message):
    __slots__ = ("number", "failure")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    number: int
    failure: Failure
    def __init__(self, number: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class AddReply(_message.Message):
    __slots__ = ("settled", "failures", "refusal")
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    settled: int
    failures: _containers.RepeatedCompositeFieldContainer[AddFailure]
    refusal: Failure
    def __init__(self, settled: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[AddFailure, _Mapping]]] = ..., refusal: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("bookie", "ledger", "first", "last", "fence_key", "bytes_max", "key")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FENCE_KEY_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    ledger: int
    first: int
    last: int
    fence_key: bytes
    bytes_max: int
    key: bytes
    def __init__(self, bookie: _Optional[str] = ..., ledger: _Optional[int] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., fence_key: _Optional[bytes] = ..., bytes_max: _Optional[int] = ..., key: _Optional[bytes] = ...) -> None: ...

class ReadReply(_message.Message):
    __slots__ = ("size", "part", "failure")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    size: int
    part: bytes
    failure: Failure
    def __init__(self, size: _Optional[int] = ..., part: _Optional[bytes] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class ReadTailRequest(_message.Message):
    __slots__ = ("bookie", "ledger", "fence_key", "key")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    FENCE_KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    ledger: int
    fence_key: bytes
    key: bytes
    def __init__(self, bookie: _Optional[str] = ..., ledger: _Optional[int] = ..., fence_key: _Optional[bytes] = ..., key: _Optional[bytes] = ...) -> None: ...

class WaitTailRequest(_message.Message):
    __slots__ = ("bookie", "ledger", "above", "timeout_ms", "key")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    ledger: int
    above: int
    timeout_ms: int
    key: bytes
    def __init__(self, bookie: _Optional[str] = ..., ledger: _Optional[int] = ..., above: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., key: _Optional[bytes] = ...) -> None: ...

class TailReply(_message.Message):
    __slots__ = ("frame", "lac_packet", "hint", "fenced", "failure")
    FRAME_FIELD_NUMBER: _ClassVar[int]
    LAC_PACKET_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    frame: bytes
    lac_packet: bytes
    hint: int
    fenced: bool
    failure: Failure
    def __init__(self, frame: _Optional[bytes] = ..., lac_packet: _Optional[bytes] = ..., hint: _Optional[int] = ..., fenced: bool = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class SyncRequest(_message.Message):
    __slots__ = ("bookie", "ledger", "key", "first", "last")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    ledger: int
    key: bytes
    first: int
    last: int
    def __init__(self, bookie: _Optional[str] = ..., ledger: _Optional[int] = ..., key: _Optional[bytes] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class ListEntriesRequest(_message.Message):
    __slots__ = ("bookie", "ledger", "first")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    ledger: int
    first: int
    def __init__(self, bookie: _Optional[str] = ..., ledger: _Optional[int] = ..., first: _Optional[int] = ...) -> None: ...

class ListLedgersRequest(_message.Message):
    __slots__ = ("bookie", "first")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    first: int
    def __init__(self, bookie: _Optional[str] = ..., first: _Optional[int] = ...) -> None: ...

class ListEntriesReply(_message.Message):
    __slots__ = ("bounds", "failure")
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    bounds: _containers.RepeatedScalarFieldContainer[int]
    failure: Failure
    def __init__(self, bounds: _Optional[_Iterable[int]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class OutlinesRequest(_message.Message):
    __slots__ = ("bookie", "ledgers")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    ledgers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bookie: _Optional[str] = ..., ledgers: _Optional[_Iterable[int]] = ...) -> None: ...

class OutlinesReply(_message.Message):
    __slots__ = ("firsts", "lasts", "counts", "failure")
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    LASTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    firsts: _containers.RepeatedScalarFieldContainer[int]
    lasts: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    failure: Failure
    def __init__(self, firsts: _Optional[_Iterable[int]] = ..., lasts: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class InfoRequest(_message.Message):
    __slots__ = ("bookie",)
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    def __init__(self, bookie: _Optional[str] = ...) -> None: ...

class InfoReply(_message.Message):
    __slots__ = ("bookie", "writable", "disk_free_bytes", "disk_total_bytes", "ledgers", "failure", "in_limbo", "counters", "highest", "uses", "uses_left_out")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    WRITABLE_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    IN_LIMBO_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    USES_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    writable: bool
    disk_free_bytes: int
    disk_total_bytes: int
    ledgers: int
    failure: Failure
    in_limbo: int
    counters: _containers.ScalarMap[str, int]
    highest: int
    uses: _containers.RepeatedCompositeFieldContainer[LedgerUse]
    uses_left_out: int
    def __init__(self, bookie: _Optional[str] = ..., writable: bool = ..., disk_free_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ..., ledgers: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., in_limbo: _Optional[int] = ..., counters: _Optional[_Mapping[str, int]] = ..., highest: _Optional[int] = ..., uses: _Optional[_Iterable[_Union[LedgerUse, _Mapping]]] = ..., uses_left_out: _Optional[int] = ...) -> None: ...

class LedgerUse(_message.Message):
    __slots__ = ("ledger", "kind", "peer", "idle_ms")
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    ledger: int
    kind: str
    peer: str
    idle_ms: int
    def __init__(self, ledger: _Optional[int] = ..., kind: _Optional[str] = ..., peer: _Optional[str] = ..., idle_ms: _Optional[int] = ...) -> None: ...

class NewsRequest(_message.Message):
    __slots__ = ("bookie", "subscribe", "credit", "unsubscribe")
    BOOKIE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    bookie: str
    subscribe: _containers.RepeatedCompositeFieldContainer[Subscribe]
    credit: _containers.RepeatedCompositeFieldContainer[Credit]
    unsubscribe: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bookie: _Optional[str] = ..., subscribe: _Optional[_Iterable[_Union[Subscribe, _Mapping]]] = ..., credit: _Optional[_Iterable[_Union[Credit, _Mapping]]] = ..., unsubscribe: _Optional[_Iterable[int]] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("subscription", "ledger", "above", "first", "bytes", "quiet_ms", "key")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    QUIET_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    ledger: int
    above: int
    first: int
    bytes: int
    quiet_ms: int
    key: bytes
    def __init__(self, subscription: _Optional[int] = ..., ledger: _Optional[int] = ..., above: _Optional[int] = ..., first: _Optional[int] = ..., bytes: _Optional[int] = ..., quiet_ms: _Optional[int] = ..., key: _Optional[bytes] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("subscription", "bytes", "first")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    bytes: int
    first: int
    def __init__(self, subscription: _Optional[int] = ..., bytes: _Optional[int] = ..., first: _Optional[int] = ...) -> None: ...

class NewsReply(_message.Message):
    __slots__ = ("news", "refusal")
    NEWS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    news: _containers.RepeatedCompositeFieldContainer[News]
    refusal: Failure
    def __init__(self, news: _Optional[_Iterable[_Union[News, _Mapping]]] = ..., refusal: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class News(_message.Message):
    __slots__ = ("subscription", "run", "lac_packet", "hint", "fenced", "failure")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    LAC_PACKET_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    run: bytes
    lac_packet: bytes
    hint: int
    fenced: bool
    failure: Failure
    def __init__(self, subscription: _Optional[int] = ..., run: _Optional[bytes] = ..., lac_packet: _Optional[bytes] = ..., hint: _Optional[int] = ..., fenced: bool = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...
