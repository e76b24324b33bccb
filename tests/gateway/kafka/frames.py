"""Requests that no client library sends: any fields, in any version that a gateway answers."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from quire.gateway.kafka.messages import entity


async def sent(
    address: str, key: int, version: int, fields: Mapping[str, Any], client: str = "frames"
) -> Any:
    """Send one request on a connection of its own, and return the answer.

    Raises `IncompleteReadError` when the gateway ends the connection without an answer.
    """
    schema: Any = load_request_schema(key, version)
    header: Any = schema.__header_schema__
    given: dict[str, Any] = {"request_api_key": key, "request_api_version": version}
    given |= {"correlation_id": 1, "client_id": client}
    out = io.BytesIO()
    entity_writer(header)(out, entity(header, given))
    entity_writer(schema)(out, entity(schema, fields))
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(len(out.getvalue()).to_bytes(4) + out.getvalue())
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    finally:
        writer.close()
    answered: Any = load_response_schema(key, version)
    begin = 5 if "v1" in answered.__header_schema__.__module__ else 4
    return entity_reader(answered)(answer, begin)[0]
