"""`quire pulsar`: read topics of Apache Pulsar from their ledgers."""

from __future__ import annotations

from functools import partial

import click

from quire.bookkeeper.pulsar.messages import PulsarMessage
from quire.bookkeeper.pulsar.names import MessageId
from quire.bookkeeper.pulsar.topic import read_topic
from quire.cli.foreign import print_records
from quire.cli.output import print_json, write_line
from quire.cli.payloads import encode_payload, payload_fields, payload_option
from quire.cli.replication import password_option
from quire.cli.settings import Settings, run, with_settings
from quire.errors import InvalidRequestError
from quire.log.records.attribute_json import text_field


def _message_id(text: str) -> MessageId:
    try:
        return MessageId.parse(text)
    except InvalidRequestError as error:
        raise click.BadParameter(str(error)) from None


@click.group(short_help="Read topics of Apache Pulsar without a broker.")
def pulsar() -> None:
    """Read topics of Apache Pulsar without a broker."""


@pulsar.command(short_help="Print the messages of a topic.")
@click.argument("topic")
@click.option("--from", "start", type=_message_id, metavar="ID", help="First message to print.")
@click.option("--limit", type=click.IntRange(min=0), help="Messages to print at most.")
@payload_option
@password_option
@with_settings
def cat(
    settings: Settings,
    topic: str,
    start: MessageId | None,
    limit: int | None,
    encoding: str,
    password: bytes,
) -> None:
    """Print the messages of a topic that are confirmed now, one a line.

    Reads the ledgers of the topic and disturbs no broker. The store's URI names the ledgers, as in
    zk://zoo1:2181/?ledgers=bookkeeper:/ledgers. A message without payload is an empty line.

    \b
    Examples:
      quire pulsar cat persistent://public/default/orders
      quire pulsar cat orders --from 4711:3:-1 --limit 10 --json
    """
    run(lambda: _cat(settings, topic, start, limit, encoding, password))


async def _cat(
    settings: Settings,
    topic: str,
    start: MessageId | None,
    limit: int | None,
    encoding: str,
    password: bytes,
) -> None:
    async with settings.connect() as client:
        messages = read_topic(client, topic, start=start, password=password)
        await print_records(topic, messages, partial(_print, settings, encoding), limit)


def _print(settings: Settings, encoding: str, message: PulsarMessage) -> None:
    if not settings.json:
        write_line(encode_payload(message.payload or b"", encoding))
        return
    payload = None if message.payload is None else payload_fields(message.payload, encoding)
    print_json(
        {
            "id": str(message.id),
            **text_field("key", message.key),
            "properties": dict(message.properties),
            "publish_ms": message.publish_ms,
            "event_ms": message.event_ms,
            "producer": message.producer,
            "sequence": message.sequence,
            "index": message.index,
            **({"payload": None} if payload is None else payload),
        }
    )
