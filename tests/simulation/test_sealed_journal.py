"""The sealed journal names forgeries that leave consistent rows.

The forger can write every row, so the proof from the rows alone may pass.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import pytest

from handlers import _dependencies
from settlement.accounts.order import AccountOrder
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import NAMES
from settlement.core.model.status import FINISHED
from settlement.journal import bucket as _journal
from settlement.journal import lines
from settlement.journal.copy import Bucket
from settlement.proof import Difference, Look, Retention, Stage, reconcile, sealed
from tests.simulation.seeded.deployments import RETENTION_DAYS
from tests.simulation.seeded.journal import PERIOD
from tests.simulation.seeded.moments import Recorded
from tests.simulation.seeded.stage import set_up
from tests.simulation.seeded.world import JOURNAL_EVERY, play
from tests.world.environment import NOW
from tests.world.functions import HANDLERS, Context
from tests.world.memory_s3 import MemoryS3
from tests.world.stream import record

SEEDS = (*range(JOURNAL_EVERY - 1, 20 * JOURNAL_EVERY, JOURNAL_EVERY), 169)
"""Seeds whose worlds have a journal. In the last, only the journal protects some evidence."""

Table = dict[tuple[str, str], Row]
Forged = tuple[Table, set[tuple[str, str]]]
"""A forged table, and the rows that the journal must name."""


@cache
def at_rest(seed: int) -> tuple[MemoryS3, Table, Any]:
    with set_up() as current:
        world = current.world = play(seed, Recorded)
        world.run()
        assert world.journal
        world.journal.play(world)
        rows = {key: lines.plain_row(row) for key, row in world.table.items.items()}
        return world.journal.s3, rows, world.journal.now


def proven(table: Table) -> bool:
    def look_again(difference: Difference) -> Look:
        return Look.DISAGREES

    stage = Stage(retention=Retention.at(NOW, RETENTION_DAYS))
    return not reconcile(table.values(), look_again, stage=stage).faults


def told(seed: int, table: Table) -> set[tuple[str, str]]:
    s3, _, now = at_rest(seed)
    faults = sealed.compare(Bucket(s3, "journal"), table.values(), now).faults
    return {
        (name.partition(" ")[0], name.partition(" ")[2])
        for name in (one.partition(": ")[0] for one in faults)
    }


def journal_of(table: Table, key: str) -> list[tuple[str, str]]:
    return [
        place
        for place in table
        if place[0] in (f"SETTLEMENT#{key}", f"EVIDENCE#{key}")
        or (place[0].startswith("ENTRIES#") and f"#{key}:" in place[1])
    ]


def changed(table: Table, place: tuple[str, str], **attributes: Any) -> Table:
    return {**table, place: table[place] | attributes}


def move(table: Table, account: str, amount: int) -> Table:
    """Add an amount to an account's balance, if it has one."""
    place = (f"ACCOUNT#{account}", "BALANCE")
    if place not in table:
        return table
    return changed(table, place, available=table[place]["available"] + amount)


def whole_settlements(table: Table) -> Iterator[Forged]:
    """Delete a settlement with its rows, and revert its balances."""
    for row in list(table.values()):
        if row["sk"] != "SETTLEMENT" or "payer" not in row:
            continue
        places = journal_of(table, row["pk"].partition("#")[2])
        forged = {place: one for place, one in table.items() if place not in places}
        for place in places:
            entry = table[place]
            if place[0].startswith("ENTRIES#"):
                forged = move(forged, entry["debit"], entry["amount"])
                forged = move(forged, entry["credit"], -entry["amount"])
        yield forged, set(places)


def raised_deposits(table: Table) -> Iterator[Forged]:
    """Raise a deposit, its order and the balance, with matching hashes."""
    for place, row in list(table.items()):
        if row.get("step") == "deposit":
            ordered = next(at for at in table if at[0].startswith("ORDER#") and f"#{at[0][6:]}:" in place[1])
            more = row["amount"] + 1_000_000
            order = replace(AccountOrder.from_row(table[ordered]), amount=more)
            forged = changed(table, place, amount=more, request_hash=order.request_hash)
            forged = changed(forged, ordered, amount=more, request_hash=order.request_hash)
            yield move(forged, row["credit"], 1_000_000), {place, ordered}


def replaced_entries(table: Table) -> Iterator[Forged]:
    random = Random(1)
    for place, row in list(table.items()):
        if place[0].startswith("ENTRIES#"):
            attribute = random.choice(
                ("amount", "debit", "credit", "posted_at", "request_hash", "currency", "step")
            )
            value = row.get(attribute)
            yield (
                changed(table, place, **{attribute: value + 1 if isinstance(value, int) else "forged"}),
                {place},
            )


def swapped_evidence(table: Table) -> Iterator[Forged]:
    for place, row in list(table.items()):
        if place[0].startswith("EVIDENCE#"):
            for attribute in row.keys() & {"by", "reason", "decision", "reference", "cause"}:
                yield changed(table, place, **{attribute: "forged"}), {place}


def changed_claims(table: Table) -> Iterator[Forged]:
    for place, row in list(table.items()):
        if row["sk"] == "SETTLEMENT" and "payer" in row:
            for attribute in ("payer", "payee", "currency", "request_hash", "claimed_at"):
                yield changed(table, place, **{attribute: "forged"}), {place}
            yield changed(table, place, amount=row["amount"] + 1), {place}


def other_words(table: Table) -> Iterator[Forged]:
    """Change labels of settlements with erased names, since these disable the request's hash."""
    for place, row in list(table.items()):
        if row["sk"] == "SETTLEMENT" and row.get("status") in FINISHED and "payer" in row:
            left = {**table, place: {name: row[name] for name in row if name not in NAMES}}
            for words in ({"reference": "forged"}, {"metadata": {"shop": "forged"}}):
                yield changed(left, place, names_erased_at=row["finished_at"], **words), {place}


FORGERIES = {
    made.__name__: made
    for made in (
        *(whole_settlements, raised_deposits, replaced_entries, swapped_evidence, changed_claims),
        other_words,
    )
}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulated_world_at_rest_agrees_with_its_journal(seed: int) -> None:
    _, table, _ = at_rest(seed)

    assert told(seed, table) == set()


@pytest.mark.parametrize("kind", FORGERIES)
def test_each_forgery_is_found_and_its_rows_are_named(kind: str) -> None:
    tried = hidden = 0
    for seed in SEEDS:
        _, table, _ = at_rest(seed)
        for forged, places in FORGERIES[kind](table):
            assert told(seed, forged) == places
            tried += 1
            hidden += proven(forged)

    assert tried > 20
    if kind in ("whole_settlements", "raised_deposits", "swapped_evidence", "other_words"):
        assert hidden, "the rows alone show each of them: nothing here needs the journal"


def test_a_forgery_seen_by_the_stream_alarms_and_is_recorded() -> None:
    seed = SEEDS[0]
    s3, table, now = at_rest(seed)
    place = next(place for place in table if place[0].startswith("ENTRIES#"))
    wire = {
        name: {"N": str(value)} if isinstance(value, int) else {"S": value}
        for name, value in table[place].items()
    }
    forged = wire | {"amount": {"N": "1"}}
    counted: list[str] = []
    later = MemoryS3()
    later.versions = {name: [*versions] for name, versions in s3.versions.items()}

    with (
        mock.patch.object(_journal, "_client", later),
        mock.patch.object(_journal, "PERIOD", PERIOD),
        mock.patch.object(_dependencies, "now", lambda: now),  # noqa: PT008 (it returns no mock)
        mock.patch("handlers.journal.seal_journal.count", counted.append),
        mock.patch.dict(os.environ, {"JOURNAL_BUCKET": "journal"}),
    ):
        at = int(now.timestamp())
        HANDLERS["SealJournal"](
            {"Records": [record(wire, forged, at), record(forged, wire, at + 1)]}, Context()
        )

    assert counted == ["JournalTampered", "JournalTampered"]
    found = sealed.compare(Bucket(later, "journal"), table.values(), now)
    assert found.faults == []
    (restored,) = found.restored
    assert restored.startswith(f"{place[0]} {place[1]}: MODIFY at ")
