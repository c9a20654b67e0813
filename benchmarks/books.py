"""Measure how fast the books take entries: `python -m benchmarks.books`, on a PostgreSQL from its wheel.

The lag is the time from the newest entry in the journal until the books have all entries. It is measured
twice: all entries wait at once, as after an outage; one object comes at a time, as on a stage that keeps up.
Not included: the two minutes for which the journal gathers, and the pause between two rounds.
"""

import argparse
import gzip
import json
import time
from datetime import UTC, datetime
from statistics import median

from settle.books import project, schema, verify
from settlement.journal import seals
from tests.world import postgresql

LINES = 1_000
"""Lines of an object: on a busy stage, one shard's entries of two minutes."""


def _object(first: int) -> tuple[str, bytes]:
    lines = []
    for number in range(first, first + LINES):
        posted_at = f"2026-11-{1 + number // 10_000 % 28:02}T12:00:00.{number % 1_000:03}Z"
        row = {
            "pk": "ENTRIES#alice#0",
            "sk": f"{posted_at}#deposit-{number:012}:deposit",
            "step": "deposit",
            "posted_at": posted_at,
            "request_hash": f"{number:064x}",
            "debit": "external:EUR",
            "credit": "alice",
            "amount": number,
            "currency": "EUR",
        }
        lines.append(json.dumps({"event": "INSERT", "at": 1, "new": {"row": row, "sha256": "0" * 64}}))
    content = "\n".join(lines).encode()
    return seals.object_name(content, datetime(2026, 11, 1, tzinfo=UTC)), gzip.compress(content)


def main() -> None:
    """Print a projector's entries a second, its lag, and the time of a comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    entries = parser.parse_args().entries
    objects = dict(_object(first) for first in range(0, entries, LINES))
    with postgresql.cluster() as cluster:
        url = f"{cluster.url}/postgres"
        schema.migrate(url, {"EUR": 2})
        with schema.books(url) as connection:
            began, own, taken, lags = time.perf_counter(), time.process_time(), 0, list[float]()
            for name, one in objects.items():
                came = time.perf_counter()
                taken += project.project(connection, name, one).entries
                lags.append(time.perf_counter() - came)
            seconds, own = time.perf_counter() - began, time.process_time() - own
            began = time.perf_counter()
            verify.digest_of_all(connection)
            compared = time.perf_counter() - began
    print(
        f"{taken} entries in {seconds:.1f} s: {taken / seconds:.0f} a second,"
        f" {taken / own:.0f} for a second of the projector's CPU; all digests in {compared:.2f} s"
    )
    print(
        f"lag: {seconds:.1f} s if all wait at once; {median(lags):.2f} s for {LINES} entries that come alone,"
        f" {max(lags):.2f} s at the most"
    )


if __name__ == "__main__":
    main()
