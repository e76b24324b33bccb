"""A writer and a reader on librdkafka: `write HOST:PORT,… LOG` and `read HOST:PORT,… LOG END`."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.gateway.soak.ending import Ending

PAUSE_SECONDS = 0.005
PATIENT = {
    "socket.timeout.ms": 5000,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2000,
}
"""A gateway that is paused answers nothing: then another is asked."""


def write(servers: str, log: str) -> None:
    """Produce numbered records until standard input ends. The producer repeats without end."""
    ending = Ending()
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "request.timeout.ms": 5000,
            "linger.ms": 5,
            **PATIENT,
        }
    )
    failed = False

    def told(error: KafkaError | None, message: Message) -> None:
        nonlocal failed
        value = message.value()
        assert isinstance(value, bytes)
        number = value.decode().rpartition("-")[2]
        if error is None:
            print("acked", number, message.offset(), flush=True)
        else:
            failed = True
            print("failed", number, error, flush=True)

    sent = 0
    while not ending.event.wait(PAUSE_SECONDS) and not failed:
        if len(producer) < 100:
            producer.produce(log, f"librdkafka-{sent}".encode(), on_delivery=told)
            sent += 1
        producer.poll(0)
    if producer.flush(60):
        print("failed", len(producer), "records are not answered", flush=True)


def read(servers: str, log: str, end: int) -> None:
    """Print the offset and the payload of each record before the offset `end`."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "soak-librdkafka",
            "enable.auto.commit": False,
            **PATIENT,
        }
    )
    consumer.assign([TopicPartition(log, 0, 0)])
    last = -1
    while last < end - 1:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        value, offset = message.value(), message.offset()
        assert isinstance(value, bytes)
        assert offset is not None
        last = offset
        print(offset, value.decode())
    consumer.close()


if __name__ == "__main__":
    task, addresses, name, *bound = sys.argv[1:]
    if task == "write":
        write(addresses, name)
    else:
        read(addresses, name, int(bound[0]))
