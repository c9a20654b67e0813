"""Apply outcome events to orders in PostgreSQL, each at most once: a process that reads an SQS queue.

Run as many processes as you like, and let a supervisor restart one that ends.
"""

import json
import os
import re

import boto3
import psycopg

SCHEMA = """
CREATE TABLE inbox (key text PRIMARY KEY, sequence bigint NOT NULL);
CREATE TABLE orders (key text PRIMARY KEY, payment text DEFAULT 'PENDING', changes integer DEFAULT 0);
"""
NEWER = """
INSERT INTO inbox (key, sequence) VALUES (%s, %s)
ON CONFLICT (key) DO UPDATE SET sequence = excluded.sequence
WHERE inbox.sequence < excluded.sequence
RETURNING key
"""
EFFECT = "UPDATE orders SET payment = %s, changes = changes + 1 WHERE key = %s"
PAYMENT = {
    "PROCESSING": "PENDING",
    "COMPENSATING": "PENDING",
    "LIMBO": "PENDING",
    "SETTLED": "PAID",
    "REJECTED": "NOT_PAID",
    "COMPENSATED": "NOT_PAID",
}
FIELDS = {
    "subject": r"[A-Za-z0-9_-]{16,64}",
    "sequence": r"[1-9][0-9]{0,17}",
    "data.status": "|".join(PAYMENT),
}


class BadMessage(Exception):
    """Not an outcome event of one of our orders. It comes again and finally goes to the dead-letter queue."""


def read(body: str) -> tuple[str, int, str]:
    """Return the key, the sequence and the payment of an event. Raises BadMessage, which names the field."""
    try:
        event = json.loads(body)["detail"]
        found = event["subject"], event["sequence"], event["data"]["status"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadMessage(f"no outcome event: {type(error).__name__} {error}") from None
    for (name, pattern), value in zip(FIELDS.items(), found, strict=True):
        if not (isinstance(value, str) and re.fullmatch(pattern, value)):
            raise BadMessage(f"{name}: must match {pattern}")
    key, sequence, status = found
    return key, int(sequence), PAYMENT[status]


def apply(connection: psycopg.Connection, key: str, sequence: int, payment: str) -> None:
    """Set an order's payment, unless this or a newer event was applied. One transaction (READ COMMITTED)."""
    with connection.transaction():
        if connection.execute(NEWER, (key, sequence)).fetchone() is None:
            return
        if connection.execute(EFFECT, (payment, key)).rowcount != 1:
            raise BadMessage(f"subject: no order has the payment {key}")


def main() -> None:
    """Apply messages without end. A message is deleted only after its commit; otherwise it comes again."""
    sqs, queue = boto3.client("sqs"), os.environ["EVENTS_QUEUE_URL"]
    with psycopg.connect(os.environ["ORDERS_DATABASE"], autocommit=True) as connection:
        while True:
            answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
            for message in answer.get("Messages", ()):
                try:
                    apply(connection, *read(message["Body"]))
                except BadMessage as bad:
                    told = {"level": "ERROR", "message_id": message["MessageId"], "error": str(bad)}
                    print(json.dumps(told), flush=True)
                else:
                    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


if __name__ == "__main__":
    main()
