"""A bookie's registration: the ephemeral record that clients find it with.

The server writes it under its session, the roster of a client reads it; they meet here, so neither
has to know the other. The bookie's id is the record's name, not part of its body: the record cannot
contradict its path. The module is pure.
"""

from __future__ import annotations

from typing import Final

from quire.bookie import QUIRE, BookieAddress, TlsPorts
from quire.entry import BookieId
from quire.errors import ConfigurationError, CorruptRecordError
from quire.fields import NOTHING, Unknown
from quire.labels import LEVELS, NOWHERE, Labels
from quire.metastore.layout import bookie_path
from quire.metastore.levels import PROGRAM_FIELDS, THIS_PROGRAM, Program, program_of
from quire.metastore.record import RecordFormat

HELLO_LEVEL: Final = 2
"""Programs that speak this level greet each other with a hello on connections for runs."""

FORMAT: Final = RecordFormat(
    "bookie", PROGRAM_FIELDS | {"address", "writable", "runs", "labels", "room", "protocol", "tls"}
)


def encode_registration(
    address: BookieAddress, unknown: Unknown = NOTHING, program: Program = THIS_PROGRAM
) -> bytes:
    """Return the record of a bookie that is up, served by a program."""
    body = {"address": address.address, "writable": address.writable, **program.fields()}
    if address.runs is not None:
        body["runs"] = address.runs
    if address.labels != NOWHERE:
        body["labels"] = label_fields(address.labels)
    if address.room:
        body["room"] = address.room
    if address.protocol != QUIRE:
        body["protocol"] = address.protocol
    if address.tls is not None:
        ports = {"address": address.tls.address, "runs": address.tls.runs}
        body["tls"] = {name: port for name, port in ports.items() if port is not None}
    return FORMAT.encode(body, unknown)


def decode_registration(bookie: BookieId, data: bytes) -> BookieAddress:
    """Return the bookie registered as `bookie`. Raises `CorruptRecordError`."""
    path = bookie_path(bookie)
    body = FORMAT.decode(path, data).body
    address, writable, runs = body.get("address"), body.get("writable"), body.get("runs")
    if not isinstance(address, str) or not isinstance(writable, bool):
        raise CorruptRecordError(path, f"address {address!r}, writable {writable!r}")
    if not isinstance(runs, str | None):
        raise CorruptRecordError(path, f"runs {runs!r}")
    says_hello = registered_program(bookie, data).speaks.highest >= HELLO_LEVEL
    room = body.get("room", 0)
    if type(room) is not int or room < 0:
        raise CorruptRecordError(path, f"room {room!r}")
    protocol = body.get("protocol", QUIRE)
    if not isinstance(protocol, str):
        raise CorruptRecordError(path, f"protocol {protocol!r}")
    hello, labels = says_hello and runs is not None, read_labels(path, body.get("labels", {}))
    ports = _read_ports(path, body.get("tls"))
    return BookieAddress(bookie, address, writable, runs, hello, labels, room, protocol, ports)


def _read_ports(path: str, found: object) -> TlsPorts | None:
    match found:
        case None:
            return None
        case {"address": str(address), "runs": str(runs)}:
            return TlsPorts(address, runs)
        case {"address": str(address)}:
            return TlsPorts(address)
    raise CorruptRecordError(path, f"tls {found!r}")


def label_fields(labels: Labels) -> dict[str, str]:
    """Return labels as a record has them."""
    pairs = ((level, getattr(labels, level)) for level in LEVELS)
    return {level: label for level, label in pairs if label}


def read_labels(path: str, found: object) -> Labels:
    """Return the labels of a record; a level of a later program is passed over. Raises
    `CorruptRecordError`.
    """
    try:
        assert isinstance(found, dict)
        return Labels(**{level: found[level] for level in LEVELS if level in found})
    except (AssertionError, TypeError, ConfigurationError) as error:
        raise CorruptRecordError(path, f"labels {found!r}") from error


def registered_program(bookie: BookieId, data: bytes) -> Program:
    """Return the program that serves a registered bookie. Raises `CorruptRecordError`."""
    path = bookie_path(bookie)
    try:
        return program_of(FORMAT.decode(path, data).body)
    except ValueError as error:
        raise CorruptRecordError(path, str(error)) from error


def unknown_of(bookie: BookieId, data: bytes) -> Unknown:
    """Return the fields of a later program in a registration. Raises `CorruptRecordError`."""
    return FORMAT.decode(bookie_path(bookie), data).unknown
