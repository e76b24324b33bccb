from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class NewRecord(_message.Message):
    __slots__ = ("payload", "key", "headers", "event_time_ms")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    event_time_ms: int
    def __init__(self, payload: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., event_time_ms: _Optional[int] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("id", "sequence")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    sequence: int
    def __init__(self, id: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("log", "records", "producer", "expected_offset", "txid")
    LOG_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TXID_FIELD_NUMBER: _ClassVar[int]
    log: str
    records: _containers.RepeatedCompositeFieldContainer[NewRecord]
    producer: Producer
    expected_offset: int
    txid: int
    def __init__(self, log: _Optional[str] = ..., records: _Optional[_Iterable[_Union[NewRecord, _Mapping]]] = ..., producer: _Optional[_Union[Producer, _Mapping]] = ..., expected_offset: _Optional[int] = ..., txid: _Optional[int] = ...) -> None: ...

class AppendReply(_message.Message):
    __slots__ = ("first_offset", "records", "next")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    records: int
    next: str
    def __init__(self, first_offset: _Optional[int] = ..., records: _Optional[int] = ..., next: _Optional[str] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("offset", "position", "time_ms", "epoch", "payload", "txid", "key", "headers", "event_time_ms")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TXID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    position: str
    time_ms: int
    epoch: int
    payload: bytes
    txid: int
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    event_time_ms: int
    def __init__(self, offset: _Optional[int] = ..., position: _Optional[str] = ..., time_ms: _Optional[int] = ..., epoch: _Optional[int] = ..., payload: _Optional[bytes] = ..., txid: _Optional[int] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., event_time_ms: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("log", "start", "limit", "follow")
    LOG_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    log: str
    start: str
    limit: int
    follow: bool
    def __init__(self, log: _Optional[str] = ..., start: _Optional[str] = ..., limit: _Optional[int] = ..., follow: bool = ...) -> None: ...

class ReadReply(_message.Message):
    __slots__ = ("records", "next")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    next: str
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class ListLogsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLogsReply(_message.Message):
    __slots__ = ("logs",)
    LOGS_FIELD_NUMBER: _ClassVar[int]
    logs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, logs: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeLogRequest(_message.Message):
    __slots__ = ("log",)
    LOG_FIELD_NUMBER: _ClassVar[int]
    log: str
    def __init__(self, log: _Optional[str] = ...) -> None: ...

class LogDescription(_message.Message):
    __slots__ = ("log", "log_id", "epoch", "sealed", "first_position", "first_offset", "end_offset", "segments", "options")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    FIRST_POSITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    log: str
    log_id: str
    epoch: int
    sealed: bool
    first_position: str
    first_offset: int
    end_offset: int
    segments: int
    options: _containers.ScalarMap[str, str]
    def __init__(self, log: _Optional[str] = ..., log_id: _Optional[str] = ..., epoch: _Optional[int] = ..., sealed: bool = ..., first_position: _Optional[str] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., segments: _Optional[int] = ..., options: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateLogRequest(_message.Message):
    __slots__ = ("log", "options")
    class OptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LOG_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    log: str
    options: _containers.ScalarMap[str, str]
    def __init__(self, log: _Optional[str] = ..., options: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeleteLogRequest(_message.Message):
    __slots__ = ("log",)
    LOG_FIELD_NUMBER: _ClassVar[int]
    log: str
    def __init__(self, log: _Optional[str] = ...) -> None: ...

class DeleteLogReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TrimLogRequest(_message.Message):
    __slots__ = ("log", "before")
    LOG_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    log: str
    before: str
    def __init__(self, log: _Optional[str] = ..., before: _Optional[str] = ...) -> None: ...

class TrimLogReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FindEndRequest(_message.Message):
    __slots__ = ("log", "linearizable")
    LOG_FIELD_NUMBER: _ClassVar[int]
    LINEARIZABLE_FIELD_NUMBER: _ClassVar[int]
    log: str
    linearizable: bool
    def __init__(self, log: _Optional[str] = ..., linearizable: bool = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("offset", "position")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    offset: int
    position: str
    def __init__(self, offset: _Optional[int] = ..., position: _Optional[str] = ...) -> None: ...

class LastSequenceRequest(_message.Message):
    __slots__ = ("log", "producer")
    LOG_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    log: str
    producer: str
    def __init__(self, log: _Optional[str] = ..., producer: _Optional[str] = ...) -> None: ...

class LastSequenceReply(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class ListCursorsRequest(_message.Message):
    __slots__ = ("log",)
    LOG_FIELD_NUMBER: _ClassVar[int]
    log: str
    def __init__(self, log: _Optional[str] = ...) -> None: ...

class ListCursorsReply(_message.Message):
    __slots__ = ("cursors",)
    CURSORS_FIELD_NUMBER: _ClassVar[int]
    cursors: _containers.RepeatedCompositeFieldContainer[Cursor]
    def __init__(self, cursors: _Optional[_Iterable[_Union[Cursor, _Mapping]]] = ...) -> None: ...

class Cursor(_message.Message):
    __slots__ = ("name", "position")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    name: str
    position: str
    def __init__(self, name: _Optional[str] = ..., position: _Optional[str] = ...) -> None: ...

class FindCursorRequest(_message.Message):
    __slots__ = ("log", "cursor")
    LOG_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    log: str
    cursor: str
    def __init__(self, log: _Optional[str] = ..., cursor: _Optional[str] = ...) -> None: ...

class MoveCursorRequest(_message.Message):
    __slots__ = ("log", "cursor", "position")
    LOG_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    log: str
    cursor: str
    position: str
    def __init__(self, log: _Optional[str] = ..., cursor: _Optional[str] = ..., position: _Optional[str] = ...) -> None: ...

class DeleteCursorRequest(_message.Message):
    __slots__ = ("log", "cursor")
    LOG_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    log: str
    cursor: str
    def __init__(self, log: _Optional[str] = ..., cursor: _Optional[str] = ...) -> None: ...

class DeleteCursorReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
