#!/usr/bin/env python3
"""Counts through the ordinary Kafka client for Python. See README.md."""

import argparse
import csv
import json
import struct
import sys
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timezone

from confluent_kafka import KafkaException, Producer

CONFIG = {
    # Acknowledged means that the log has it, and the client's own retries keep the order.
    "acks": "all",
    "enable.idempotence": True,
    # For one attempt. Events older than the namespace's accept_limit are refused, so waiting for
    # longer than that is of no use.
    "delivery.timeout.ms": 4000,
    "linger.ms": 5,
    "compression.type": "zstd",
    # While no broker answers: it is logged each time.
    "reconnect.backoff.ms": 1000,
}
ATTEMPTS = 3


def make_event(namespace, counter, change):
    """An event; `change` is a number to add, or the word clear.

    Token and time are made here, once. Whatever is sent again later is this same event, so it is
    counted once however often it arrives.
    """
    event = {
        "namespace": namespace,
        "counter_name": counter,
        "token": str(uuid.uuid4()),
        "generation_time": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
    }
    if change == "clear":
        event["clear"] = True
    else:
        # A string: JSON numbers of other languages lose digits beyond 2^53.
        event["delta"] = str(int(change))
    return event


def key_of(event):
    """Events of one counter go to one partition. That is faster, but any key or none will do."""
    namespace, counter = event["namespace"].encode(), event["counter_name"].encode()
    return struct.pack("B", len(namespace)) + namespace + struct.pack(">H", len(counter)) + counter


def as_json(event):
    return json.dumps(event, ensure_ascii=False).encode()


def as_protobuf(event):
    from google.protobuf.json_format import ParseDict
    from quipu.v1.events_pb2 import CounterEvent

    return ParseDict(event, CounterEvent()).SerializeToString()


# How a value is encoded, and the header that says so; protobuf needs none.
FORMATS = {
    "json": (as_json, [("content-type", b"application/json")]),
    "protobuf": (as_protobuf, []),
}


@dataclass
class Record:
    event: dict
    value: bytes
    attempts: int = 0


def publish(producer, topic, form, events):
    """Publishes events as they come; returns how many, and those whose fate is not known.

    A failed delivery is tried again with the same bytes: the first attempt may have arrived after all.
    """
    encode, headers = FORMATS[form]
    again, unknown, acknowledged = deque(), [], 0

    def send(record):
        def delivered(error, _message):
            nonlocal acknowledged
            if error is None:
                acknowledged += 1
            elif error.fatal() or record.attempts == ATTEMPTS:
                unknown.append((record.event, error.str()))
            else:
                again.append(record)

        record.attempts += 1
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    key_of(record.event),
                    headers=headers,
                    on_delivery=delivered,
                )
                return
            except BufferError:  # the client's queue is full
                producer.poll(0.1)
            except KafkaException as error:
                delivered(error.args[0], None)
                return

    for event in events:
        send(Record(event, encode(event)))
        producer.poll(0)
        while again:
            send(again.popleft())
    while len(producer) or again:
        producer.flush()
        while again:
            send(again.popleft())
    return acknowledged, unknown


def read_events(namespace, lines):
    """A line is a counter and what to add to it (1 if nothing is said), separated by a comma."""
    for row in csv.reader(lines):
        if row:
            yield make_event(namespace, row[0], row[1] if len(row) > 1 else "1")


def main():
    parser = argparse.ArgumentParser(
        description="Publishes lines `counter,delta` of standard input."
    )
    parser.add_argument("--brokers", default="127.0.0.1:19092")
    parser.add_argument("--topic", default="quipu-events")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--format", choices=FORMATS, default="json")
    options = parser.parse_args()

    producer = Producer({**CONFIG, "bootstrap.servers": options.brokers})
    events = read_events(options.namespace, sys.stdin)
    acknowledged, unknown = publish(producer, options.topic, options.format, events)
    print(f"{acknowledged} events are in the log")
    for event, reason in unknown:
        print(f"not known whether it arrived ({reason}): {json.dumps(event)}", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
