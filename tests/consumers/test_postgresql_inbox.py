import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.consumers import postgresql_inbox
from tests.consumers.conftest import Queue
from tests.consumers.events import HISTORIES, PAID, bad_messages, event, history
from tests.world.templates import PROJECT

EXAMPLE = PROJECT / "examples" / "consumers" / "postgresql_inbox.py"
KEY = "order-2026-000101"
SECONDS_MAX = 120
"""Limit for readers, even on a five times slower machine."""

WITNESS: LiteralString = """
CREATE TABLE applied (place bigint GENERATED ALWAYS AS IDENTITY, key text, sequence bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO applied (key, sequence) VALUES (NEW.key, NEW.sequence); RETURN NULL; END$$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON inbox FOR EACH ROW EXECUTE FUNCTION note();
"""
"""The test's own record of committed inbox changes."""


@pytest.fixture
def orders(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(postgresql_inbox.SCHEMA)
        connection.execute(WITNESS)
        yield connection


def order(orders: psycopg.Connection[Any], *keys: str) -> None:
    for key in keys:
        orders.execute("INSERT INTO orders (key) VALUES (%s)", (key,))


def payment(orders: psycopg.Connection[Any], key: str) -> tuple[str, int]:
    found = orders.execute("SELECT payment, changes FROM orders WHERE key = %s", (key,)).fetchall()
    ((status, changes),) = found
    return status, changes


def sequences(orders: psycopg.Connection[Any], key: str) -> list[int]:
    found = orders.execute("SELECT sequence FROM applied WHERE key = %s ORDER BY place", (key,))
    return [sequence for (sequence,) in found]


def check(orders: psycopg.Connection[Any], key: str, statuses: tuple[str, ...]) -> None:
    """Check that effects came at most once, in order, and include the latest."""
    applied = sequences(orders, key)
    assert applied == sorted(set(applied))
    assert applied[-1] == len(statuses)
    assert payment(orders, key) == (PAID.get(statuses[-1], "PENDING"), len(applied))


def wait_for(holds: Callable[[], object]) -> None:
    fails_at = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < fails_at, "waited for too long"
        time.sleep(0.02)


def waiting(orders: psycopg.Connection[Any]) -> int:
    asked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return len(orders.execute(asked).fetchall())


def is_alone(orders: psycopg.Connection[Any]) -> bool:
    """Return whether ours is the only connection, so killed readers are rolled back."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return orders.execute(asked).fetchone() == (1,)


@contextmanager
def locked(database: str, key: str) -> Iterator[None]:
    """Lock an order's row, so readers stop at their effect."""
    with psycopg.connect(database) as holder:
        holder.execute("SELECT 1 FROM orders WHERE key = %s FOR UPDATE", (key,))
        yield


@contextmanager
def reader(database: str, queue: Queue) -> Iterator["subprocess.Popen[str]"]:
    variables = {
        "AWS_ENDPOINT_URL": queue.endpoint_url,
        "ORDERS_DATABASE": database,
        "EVENTS_QUEUE_URL": queue.url,
    }
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE)], env=os.environ | variables, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# One message


@given(statuses=st.sampled_from(HISTORIES), draw=st.data())
@settings(deadline=None, database=None, print_blob=True, max_examples=60)
def test_events_apply_correctly_in_any_order_and_repetition(
    postgresql_url: str, statuses: tuple[str, ...], draw: st.DataObject
) -> None:
    bodies = history(KEY, statuses)
    again = draw.draw(st.lists(st.sampled_from(bodies), max_size=5))
    sent = draw.draw(st.permutations(bodies + again))

    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        connection.execute(postgresql_inbox.SCHEMA)
        connection.execute(WITNESS)
        order(connection, KEY)
        for body in sent:
            postgresql_inbox.apply(connection, *postgresql_inbox.read(body))

        check(connection, KEY, statuses)


@pytest.mark.parametrize("earlier", [0, 1])
@pytest.mark.parametrize(("first", "second"), [(4, 4), (4, 3), (3, 4)])
def test_two_concurrent_readers_apply_each_sequence_once(
    database: str, orders: psycopg.Connection[Any], first: int, second: int, earlier: int
) -> None:
    order(orders, KEY)
    if earlier:
        postgresql_inbox.apply(orders, KEY, earlier, "PENDING")

    def read(sequence: int) -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            postgresql_inbox.apply(connection, KEY, sequence, f"of {sequence}")

    readers = [threading.Thread(target=read, args=(sequence,)) for sequence in (first, second)]
    with locked(database, KEY):
        readers[0].start()
        wait_for(lambda: waiting(orders) == 1)
        readers[1].start()
        wait_for(lambda: waiting(orders) == 2)
    for one in readers:
        one.join(SECONDS_MAX)

    assert sequences(orders, KEY) == ([earlier] if earlier else []) + sorted({first, max(first, second)})
    assert payment(orders, KEY) == (f"of {max(first, second)}", len(sequences(orders, KEY)))


@pytest.mark.parametrize(("body", "words"), bad_messages(KEY), ids=count())
def test_a_malformed_message_is_named_and_writes_nothing(
    orders: psycopg.Connection[Any], body: str, words: str
) -> None:
    order(orders, KEY)

    with pytest.raises(postgresql_inbox.BadMessage) as told:
        postgresql_inbox.apply(orders, *postgresql_inbox.read(body))

    assert str(told.value).startswith(words)
    assert payment(orders, KEY) == ("PENDING", 0)
    assert orders.execute("SELECT count(*) FROM inbox").fetchone() == (0,)


# The process, with a queue


@pytest.mark.long
def test_a_reader_killed_before_commit_leaves_all_to_the_next(
    database: str, orders: psycopg.Connection[Any], queue: Queue
) -> None:
    order(orders, KEY)
    queue.send([json.dumps(event(KEY, 4, "SETTLED"))])

    with locked(database, KEY), reader(database, queue) as killed:
        wait_for(lambda: waiting(orders) == 1)
        killed.kill()
        killed.wait()
    wait_for(lambda: is_alone(orders))
    between = payment(orders, KEY), sequences(orders, KEY)
    with reader(database, queue):
        wait_for(lambda: not queue.has(queue.url))

    assert between == (("PENDING", 0), [])
    assert (payment(orders, KEY), sequences(orders, KEY)) == (("PAID", 1), [4])


@pytest.mark.long
def test_a_malformed_message_is_dead_lettered_and_stops_no_other(
    database: str, orders: psycopg.Connection[Any], queue: Queue
) -> None:
    order(orders, KEY)
    queue.gives_up_after(3)
    queue.send(["no event", *history(KEY, HISTORIES[0])])

    with reader(database, queue) as running:
        wait_for(lambda: queue.has(queue.dead_letters_url))
        running.kill()
        assert running.stdout is not None
        told = [json.loads(line) for line in running.stdout]

    check(orders, KEY, HISTORIES[0])
    assert {each["error"].partition(" Expecting")[0] for each in told} == {
        "no outcome event: JSONDecodeError"
    }
    assert queue.has(queue.url) == 0


@pytest.mark.long
def test_two_repeatedly_killed_readers_apply_each_event_once(
    database: str, orders: psycopg.Connection[Any], queue: Queue
) -> None:
    chance = random.Random(20261123)
    histories = {f"order-2026-{number:06}": HISTORIES[number % len(HISTORIES)] for number in range(60)}
    order(orders, *histories)
    bodies = [body for key, statuses in histories.items() for body in history(key, statuses)]
    bodies += chance.sample(bodies, len(bodies) // 2)
    chance.shuffle(bodies)
    queue.send(bodies)

    def fewer_than(left: int) -> bool:
        return queue.has(queue.url) < left

    for _ in range(4):
        left = queue.has(queue.url) - 20
        with reader(database, queue), reader(database, queue):
            wait_for(partial(fewer_than, left))
    with reader(database, queue), reader(database, queue):
        wait_for(lambda: not queue.has(queue.url))

    for key, statuses in histories.items():
        check(orders, key, statuses)
    assert queue.has(queue.dead_letters_url) == 0
